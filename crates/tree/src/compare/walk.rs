//! Goes through two trees at once.

use super::file::Pair;
use super::{Change, Compare, Compared, Side};
use crate::error::{Damage, InImage};
use crate::{Error, Result, join, sorted};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use uext4::path::PathError;
use uext4::{Caller, FileType, InodeRef};

pub(super) struct Walk<'w> {
    compare: &'w Compare,
    tell: &'w mut dyn FnMut(Compared<'_>) -> ControlFlow<()>,
    pair: Pair,
    a: Seen,
    b: Seen,
}

/// What one tree has shown so far.
#[derive(Default)]
struct Seen {
    /// Inode numbers of directories.
    entered: HashSet<u32>,
    /// First names of files with several, by inode number.
    first: HashMap<u32, Vec<u8>>,
}

/// A file in one of the trees, or in both.
struct Found {
    path: Vec<u8>,
    a: Option<InodeRef>,
    b: Option<InodeRef>,
}

/// A directory in one of the trees, or in both, and its names that were not compared yet.
struct Level {
    dir: Found,
    names: std::vec::IntoIter<Vec<u8>>,
}

impl<'w> Walk<'w> {
    pub(super) fn new(
        compare: &'w Compare,
        tell: &'w mut dyn FnMut(Compared<'_>) -> ControlFlow<()>,
    ) -> Self {
        Self {
            compare,
            tell,
            pair: Pair::new(compare),
            a: Seen::default(),
            b: Seen::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<()> {
        let root = |side: Side| self.compare.fs(side).root().in_image(|| b"/".to_vec());
        let top = Found {
            path: b"/".to_vec(),
            a: Some(root(Side::A)?),
            b: Some(root(Side::B)?),
        };
        let mut open: Vec<Level> = self.compare_pair(top)?.into_iter().collect();
        while let Some(level) = open.last_mut() {
            let Some(name) = level.names.next() else {
                open.pop();
                continue;
            };
            let found = self.find(&level.dir, &name)?;
            open.extend(self.compare_pair(found)?);
        }
        Ok(())
    }

    /// Looks a name up in both trees.
    fn find(&mut self, dir: &Found, name: &[u8]) -> Result<Found> {
        let path = join(&dir.path, name);
        let a = self.child(Side::A, dir.a.as_ref(), name, &path)?;
        let b = self.child(Side::B, dir.b.as_ref(), name, &path)?;
        Ok(Found { path, a, b })
    }

    fn child(
        &mut self,
        side: Side,
        dir: Option<&InodeRef>,
        name: &[u8],
        path: &[u8],
    ) -> Result<Option<InodeRef>> {
        let Some(dir) = dir else { return Ok(None) };
        match self.compare.fs(side).lookup(dir, name, &Caller::root()) {
            Ok(inode) => Ok(Some(inode)),
            Err(uext4::Error::NotFound) => Ok(None),
            Err(error) => {
                self.failed(side, PathError::new(path, error).into())?;
                Ok(None)
            }
        }
    }

    /// Tells what differs in a file; returns the names below a directory.
    fn compare_pair(&mut self, found: Found) -> Result<Option<Level>> {
        let path = &found.path;
        match (&found.a, &found.b) {
            (Some(a), Some(b)) => {
                let mut changes = Vec::new();
                for (side, error) in self.pair.compare(path, a, b, &mut changes) {
                    self.failed(side, error)?;
                }
                changes.extend(self.links(path, a, b));
                if !changes.is_empty() {
                    self.report(Compared::Changed(path, &changes))?;
                }
            }
            (Some(only), None) => self.report(Compared::Removed(path, only.kind()))?,
            (None, Some(only)) => self.report(Compared::Added(path, only.kind()))?,
            (None, None) => {}
        }
        self.enter(found)
    }

    /// Whether the file has the same first name in both trees.
    fn links(&mut self, path: &[u8], a: &InodeRef, b: &InodeRef) -> Option<Change> {
        let first_a = self.a.first_name(self.compare, Side::A, a, path);
        let first_b = self.b.first_name(self.compare, Side::B, b, path);
        (first_a != first_b).then_some(Change::Links(first_a, first_b))
    }

    /// The names in a directory, in either tree.
    fn enter(&mut self, found: Found) -> Result<Option<Level>> {
        let a = self.list(Side::A, found.a.as_ref(), &found.path)?;
        let b = self.list(Side::B, found.b.as_ref(), &found.path)?;
        let (Found { path, .. }, is_dir) = (&found, a.is_some() || b.is_some());
        if !is_dir {
            self.record_only(&found);
            return Ok(None);
        }
        let dir = Found {
            path: path.clone(),
            a: found.a.filter(|_| a.is_some()),
            b: found.b.filter(|_| b.is_some()),
        };
        let mut names = [a.unwrap_or_default(), b.unwrap_or_default()].concat();
        names.sort_unstable();
        names.dedup();
        let names = names.into_iter();
        Ok(Some(Level { dir, names }))
    }

    /// A name in one tree counts as the first of its file as well.
    fn record_only(&mut self, found: &Found) {
        if let (Some(a), None) = (&found.a, &found.b) {
            self.a.first_name(self.compare, Side::A, a, &found.path);
        }
        if let (None, Some(b)) = (&found.a, &found.b) {
            self.b.first_name(self.compare, Side::B, b, &found.path);
        }
    }

    /// The names of a directory; `None` if it is none, or was entered before.
    fn list(
        &mut self,
        side: Side,
        dir: Option<&InodeRef>,
        path: &[u8],
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(dir) = dir.filter(|dir| dir.is_dir()) else {
            return Ok(None);
        };
        let (nr, path) = (dir.nr().0, path.to_vec());
        let seen = match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        };
        if !seen.entered.insert(nr) {
            let damage = Damage::SecondName(nr);
            self.failed(side, Error::Damaged { path, damage })?;
            return Ok(None);
        }
        let (mut names, failed) = sorted::names(self.compare.fs(side), dir);
        if let Some(error) = failed {
            self.failed(side, PathError::new(&path, error).into())?;
        }
        if names.iter().any(|name| !sorted::is_name(name)) {
            names.retain(|name| sorted::is_name(name));
            let damage = Damage::Name;
            self.failed(side, Error::Damaged { path, damage })?;
        }
        Ok(Some(names))
    }

    fn failed(&mut self, side: Side, error: Error) -> Result<()> {
        self.report(Compared::Failed(side, &error))
    }

    fn report(&mut self, compared: Compared<'_>) -> Result<()> {
        match (self.tell)(compared) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }
}

impl Seen {
    /// The first name of a file; this one if there is no earlier one.
    fn first_name(
        &mut self,
        compare: &Compare,
        side: Side,
        inode: &InodeRef,
        path: &[u8],
    ) -> Vec<u8> {
        let has_more =
            inode.kind() != FileType::Directory && compare.fs(side).attr(inode).links > 1;
        if !has_more {
            return path.to_vec();
        }
        let first = self.first.entry(inode.nr().0);
        first.or_insert_with(|| path.to_vec()).clone()
    }
}
