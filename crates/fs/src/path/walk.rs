//! Path resolution: components, `..`, symbolic links.
//!
//! Every path starts at the root of the image, with or without a leading `/`; so does an absolute
//! symbolic link. `..` goes back along the walked path, and stays at the root.
//!
//! References: path_resolution(7).

use crate::{Caller, Error, FileType, Filesystem, InodeRef, Result};

/// Most symbolic links followed per path, as in Linux.
const SYMLINKS_MAX: u32 = 40;

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Follow,
    Keep,
}

/// Result of a walk.
pub(super) struct Found {
    /// The walked path without the root: names and their inodes.
    trail: Vec<(Vec<u8>, InodeRef)>,
    root: InodeRef,
    /// The last name, when it does not exist; the trail then ends at its directory.
    pub(super) missing: Option<Vec<u8>>,
}

impl Found {
    /// The last inode of the trail.
    pub(super) fn inode(&self) -> &InodeRef {
        self.trail.last().map_or(&self.root, |(_, inode)| inode)
    }

    /// The last inode, unless the last name is missing.
    pub(super) fn existing(self) -> Result<InodeRef> {
        match self.missing {
            Some(_) => Err(Error::NotFound),
            None => Ok(self.inode().clone()),
        }
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
pub(super) struct Place<'p> {
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
        if path.is_empty() {
            return Err(Error::NotFound);
        }
        let mut found = Found {
            trail: Vec::new(),
            root: self.fs.root()?,
            missing: None,
        };
        let must_be_dir = path.ends_with(b"/");
        let mut waiting = components(path);
        let mut links = 0;
        while let Some(name) = waiting.pop() {
            let follow = last == Last::Follow || must_be_dir || !waiting.is_empty();
            let Some(inode) = self.step(&mut found, &name, waiting.is_empty())? else {
                continue;
            };
            if inode.kind() == FileType::Symlink && follow {
                links += 1;
                let target = self.target(&inode, links)?;
                if target.starts_with(b"/") {
                    found.trail.clear();
                }
                waiting.extend(components(&target));
                continue;
            }
            found.trail.push((name, inode));
        }
        if must_be_dir && found.missing.is_none() && !found.inode().is_dir() {
            return Err(Error::NotDirectory);
        }
        Ok(found)
    }

    /// The directory of the last name of `path`; `None` for the root, which has no name.
    pub(super) fn place<'p>(&self, path: &'p [u8]) -> Result<Option<Place<'p>>> {
        if path.is_empty() {
            return Err(Error::NotFound);
        }
        let bare = without_slashes(path);
        if bare.is_empty() {
            return Ok(None);
        }
        let start = bare
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1);
        let (before, name) = bare.split_at(start);
        let parent = if before.is_empty() {
            self.fs.root()?
        } else {
            self.existing(before, Last::Follow)?
        };
        if !parent.is_dir() {
            return Err(Error::NotDirectory);
        }
        Ok(Some(Place {
            parent,
            name,
            slash: bare.len() < path.len(),
        }))
    }

    /// The inode that `path` names.
    pub(super) fn existing(&self, path: &[u8], last: Last) -> Result<InodeRef> {
        self.walk(path, last)?.existing()
    }

    /// Resolves one name; `None` for `.`, `..`, or a missing last name.
    fn step(&self, found: &mut Found, name: &[u8], is_last: bool) -> Result<Option<InodeRef>> {
        let dir = found.inode();
        if !dir.is_dir() {
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
        match self.fs.lookup(dir, name, self.caller) {
            Err(Error::NotFound) if is_last => {
                found.missing = Some(name.to_vec());
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn target(&self, link: &InodeRef, links: u32) -> Result<Vec<u8>> {
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
fn components(path: &[u8]) -> Vec<Vec<u8>> {
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
