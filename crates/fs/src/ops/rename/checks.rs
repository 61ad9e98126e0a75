//! Validation of a rename: names, replaced target, position in the tree, permissions.

use super::{Rename, RenameFlags};
use crate::ops::{check_alive, check_name, check_new_name, check_project, retry_lookup};
use crate::parts::access::Want;
use crate::parts::dir;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::types::error::{Error, Result};
use uext4_format::InodeNr;
use uext4_sync::Arc;

pub(super) fn check_names(from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
    check_name(from)?;
    check_name(to)?;
    let dots = |name: &[u8]| name == b"." || name == b"..";
    if dots(from) || dots(to) {
        return Err(if flags.keeps_target() {
            Error::Exists
        } else {
            Error::Busy
        });
    }
    check_new_name(from)
}

impl Rename<'_> {
    /// Checks in the order of Linux.
    pub(super) fn check(&self, fs: &Fs) -> Result<()> {
        self.check_target()?;
        self.check_ancestry(fs)?;
        if self.is_same() {
            return Ok(());
        }
        fs.may_delete(self.from.dir, &self.source, self.to.caller)?;
        match &self.target {
            Some(target) => fs.may_delete(self.to.dir, target, self.to.caller)?,
            None => fs.may(self.to.dir, self.to.caller, Want::WRITE.and(Want::EXECUTE))?,
        }
        let target = self.target.as_ref();
        let exchanged = target.filter(|_| self.flags == RenameFlags::Exchange);
        if let (Some(target), None) = (target, exchanged) {
            match (self.source.is_dir(), target.is_dir()) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
        }
        // A directory that moves must be writable: its `..` changes.
        let moved = [Some(&self.source), exchanged];
        let moved = moved
            .into_iter()
            .flatten()
            .filter(|inode| inode.is_dir() && self.moves());
        moved
            .into_iter()
            .try_for_each(|inode| fs.may(inode, self.to.caller, Want::WRITE))?;
        check_project(self.to.dir, &self.source)?;
        exchanged.map_or(Ok(()), |target| check_project(self.from.dir, target))
    }

    pub(super) fn moves(&self) -> bool {
        self.from.dir.nr() != self.to.dir.nr()
    }

    fn check_target(&self) -> Result<()> {
        match &self.target {
            Some(_) if self.flags.keeps_target() => Err(Error::Exists),
            None if self.flags == RenameFlags::Exchange => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// No directory moves below itself, and no directory is replaced by one of its descendants.
    fn check_ancestry(&self, fs: &Fs) -> Result<()> {
        if !self.moves() {
            return Ok(());
        }
        let below = |dir: &Arc<Inode>, inode: &InodeRef| {
            Ok::<_, Error>(inode.is_dir() && is_below(fs, dir, inode.nr())?)
        };
        if below(self.to.dir, &self.source)? {
            return Err(Error::Invalid("a directory cannot move below itself"));
        }
        match &self.target {
            Some(target) if below(self.from.dir, target)? => match self.flags {
                RenameFlags::Exchange => {
                    Err(Error::Invalid("a directory cannot move below itself"))
                }
                _ => Err(Error::NotEmpty),
            },
            _ => Ok(()),
        }
    }
}

/// Whether `dir` is `ancestor` or its descendant. The caller holds the topology lock.
fn is_below(fs: &Fs, dir: &Arc<Inode>, ancestor: InodeNr) -> Result<bool> {
    let mut at = dir.clone();
    // The number of inodes bounds the depth; a damaged tree must not make the loop endless.
    for _ in 0..fs.base.geometry.inodes_count {
        if at.nr() == ancestor {
            return Ok(true);
        }
        if at.nr() == InodeNr::ROOT {
            return Ok(false);
        }
        let parent = retry_lookup(&at, || {
            check_alive(&at)?;
            dir::parent_of(fs, &at)
        })?;
        at = fs.load_inode(parent)?;
        if !at.is_dir() {
            return Err(Error::NotFound);
        }
    }
    Err(Error::Loop)
}
