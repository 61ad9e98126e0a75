//! Path resolution: components, `..`, symbolic links.
//!
//! Every path starts at the root of the image, with or without a leading `/`; so does an absolute
//! symbolic link. `..` goes back along the walked path, and stays at the root.
//!
//! References: path_resolution(7).

use super::error::{At, PathError, Result};
use crate::ops::filesystem::Filesystem;
use crate::state::inode::InodeRef;
use crate::types::attr::{Caller, FileType};
use crate::types::error::Error;

/// Most symbolic links followed per path, as in Linux.
const SYMLINKS_MAX: u32 = 40;

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Follow,
    Keep,
}

pub(super) struct Found {
    /// The walked path without the root: names and their inodes.
    trail: Vec<(Vec<u8>, InodeRef)>,
    root: InodeRef,
    /// The last name, when it does not exist, or the one at which the walk failed; the trail then
    /// ends at its directory.
    pub(super) missing: Option<Vec<u8>>,
}

impl Found {
    /// The last inode of the trail.
    pub(super) fn inode(&self) -> &InodeRef {
        self.trail.last().map_or(&self.root, |(_, inode)| inode)
    }

    /// The path without symbolic links, `.` and `..`.
    pub(super) fn path(&self) -> Vec<u8> {
        let names = self
            .trail
            .iter()
            .map(|(name, _)| name.as_slice())
            .chain(self.missing.as_deref());
        let path: Vec<u8> = names.flat_map(|name| [b"/", name].concat()).collect();
        if path.is_empty() { b"/".to_vec() } else { path }
    }
}

/// A directory and a name in it; the name may be absent.
pub(super) struct NameInDir<'p> {
    pub(super) path: &'p [u8],
    pub(super) parent: InodeRef,
    pub(super) name: &'p [u8],
    /// The path ends with `/`: the name must be, or become, a directory.
    pub(super) slash: bool,
}

/// Path resolution: checks the caller's search permission on every directory of the path.
pub(super) struct Walker<'a> {
    pub(super) fs: &'a Filesystem,
    pub(super) caller: &'a Caller,
}

impl Walker<'_> {
    /// Resolves all of `path`. A missing last name is not an error.
    pub(super) fn walk(&self, path: &[u8], last: Last) -> Result<Found> {
        self.walk_part(path, path, last)
    }

    /// Resolves `part`, the beginning of `path`, which errors name.
    fn walk_part(&self, part: &[u8], path: &[u8], last: Last) -> Result<Found> {
        if path.is_empty() {
            return Err(Error::NotFound).at(path);
        }
        let mut found = Found {
            trail: Vec::new(),
            root: self.fs.root().at(path)?,
            missing: None,
        };
        match self.follow(&mut found, part, last) {
            Ok(()) => Ok(found),
            Err(error) => Err(PathError::at_component(path, found.path(), error)),
        }
    }

    fn follow(
        &self,
        found: &mut Found,
        path: &[u8],
        last: Last,
    ) -> crate::types::error::Result<()> {
        let must_be_dir = path.ends_with(b"/");
        let mut waiting = components(path);
        let mut links = 0;
        while let Some(name) = waiting.pop() {
            let follow = last == Last::Follow || must_be_dir || !waiting.is_empty();
            let Some(inode) = self.step(found, &name, waiting.is_empty())? else {
                continue;
            };
            if inode.kind() == FileType::Symlink && follow {
                links += 1;
                let target = self.target(&inode, links)?;
                if target.starts_with(b"/") {
                    found.trail.clear();
                }
                waiting.extend(components(&target));
            } else {
                found.trail.push((name, inode));
            }
            found.missing = None;
        }
        if must_be_dir && found.missing.is_none() && !found.inode().is_dir() {
            return Err(Error::NotDirectory);
        }
        Ok(())
    }

    /// The directory of the last name of `path`; the error `no_name` for the root.
    pub(super) fn parent_entry<'p>(&self, path: &'p [u8], no_name: Error) -> Result<NameInDir<'p>> {
        let bare = without_slashes(path);
        if bare.is_empty() {
            let error = if path.is_empty() {
                Error::NotFound
            } else {
                no_name
            };
            return Err(error).at(path);
        }
        let start = bare
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1);
        let (before, name) = bare.split_at(start);
        Ok(NameInDir {
            path,
            parent: self.existing_part(before, path, Last::Follow)?,
            name,
            slash: bare.len() < path.len(),
        })
    }

    /// The inode that `path` names.
    pub(super) fn existing(&self, path: &[u8], last: Last) -> Result<InodeRef> {
        self.existing_part(path, path, last)
    }

    fn existing_part(&self, part: &[u8], path: &[u8], last: Last) -> Result<InodeRef> {
        let found = self.walk_part(part, path, last)?;
        match found.missing {
            Some(_) => Err(PathError::at_component(path, found.path(), Error::NotFound)),
            None => Ok(found.inode().clone()),
        }
    }

    /// Resolves one name, which stays `missing` until the caller takes it; `None` for `.`, `..`, or
    /// a missing last name.
    fn step(
        &self,
        found: &mut Found,
        name: &[u8],
        is_last: bool,
    ) -> crate::types::error::Result<Option<InodeRef>> {
        if !found.inode().is_dir() {
            return Err(Error::NotDirectory);
        }
        match name {
            b"." => return Ok(None),
            b".." => {
                found.trail.pop();
                return Ok(None);
            }
            _ => {}
        }
        found.missing = Some(name.to_vec());
        match self.fs.lookup(found.inode(), name, self.caller) {
            Err(Error::NotFound) if is_last => Ok(None),
            other => other.map(Some),
        }
    }

    fn target(&self, link: &InodeRef, links: u32) -> crate::types::error::Result<Vec<u8>> {
        if links > SYMLINKS_MAX {
            return Err(Error::Loop);
        }
        let target = self.fs.read_link(link)?;
        if target.is_empty() {
            Err(Error::NotFound)
        } else {
            Ok(target)
        }
    }
}

/// The names of a path, in reverse order.
pub(super) fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty());
    names.map(<[u8]>::to_vec).rev().collect()
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    path.split_at(end).0
}
