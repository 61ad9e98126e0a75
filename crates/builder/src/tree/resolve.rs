//! Paths in the merged tree of the lower layers, with their symbolic links.
//!
//! A path stays below the root: `..` of the root is the root, and an absolute target begins there.
//! As in the kernel, a path may lead through 40 symbolic links.

use uext4_format::FileType;

use crate::error::{Error, Result};
use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, Origin};
use crate::tree::ids::FileId;

/// Most symbolic links of one path.
const LINKS_MAX: u32 = 40;
/// Most names of one path, with those of the targets of its links. A path of the system has at most
/// 2,048.
const NAMES_MAX: u32 = 3 * 2048;

/// What to do where a directory of a path does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Leave,
    /// Make it, without an entry.
    Make,
}

impl Tree {
    /// The directory to which a symbolic link in a directory leads; `None` for other files.
    pub(crate) fn follow(
        &mut self,
        directory: FileId,
        link: FileId,
        missing: Missing,
    ) -> Result<Option<FileId>> {
        match self.target(link) {
            Some(target) => self.directory_at(directory, &target, missing),
            None => Ok(None),
        }
    }

    /// The file at a path from the root; a link at its end is not followed, and a directory is
    /// refused.
    pub(crate) fn resolve_file(&mut self, path: &[u8]) -> Result<Option<FileId>> {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (above, name) = match slash {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], path),
        };
        let Some(directory) = self.directory_at(self.root, above, Missing::Leave)? else {
            return Ok(None);
        };
        let file = self.find_alive(directory, name);
        let file = file.map(|id| self.names.get(id).file);
        match file {
            Some(file) if self.file(file).is_directory() => {
                let problem = "a hard link leads to it, and it is a directory";
                Err(Error::refused(path, problem, "give links to files only"))
            }
            file => Ok(file),
        }
    }

    fn target(&self, link: FileId) -> Option<Vec<u8>> {
        let file = self.file(link);
        match file.location {
            DataLocation::Kept(at) if file.kind == FileType::Symlink => {
                Some(self.kept(at, file.size).to_vec())
            }
            _ => None,
        }
    }

    fn directory_at(
        &mut self,
        from: FileId,
        path: &[u8],
        missing: Missing,
    ) -> Result<Option<FileId>> {
        let mut at = self.start_of(from, path);
        let mut left = reversed(path);
        let mut links = 0;
        let mut names = 0;
        while let Some(name) = left.pop() {
            names += 1;
            if names > NAMES_MAX {
                let problem = "its symbolic links lead through too many directories";
                return Err(Error::refused(
                    path,
                    problem,
                    "shorten the targets of the links",
                ));
            }
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    at = self.parent(at);
                    continue;
                }
                _ => {}
            }
            let child = self.find_alive(at, &name);
            let Some(child) = child.map(|id| self.names.get(id).file) else {
                if missing == Missing::Leave {
                    return Ok(None);
                }
                let known = self.names.find(at, &name);
                at = self.make_directory(at, &name, known, Origin::Implicit)?;
                continue;
            };
            if self.file(child).is_directory() {
                at = child;
            } else if let Some(target) = self.target(child) {
                links += 1;
                if links > LINKS_MAX {
                    return Ok(None);
                }
                at = self.start_of(at, &target);
                left.extend(reversed(&target));
            } else {
                return Ok(None);
            }
        }
        Ok(Some(at))
    }

    fn start_of(&self, from: FileId, path: &[u8]) -> FileId {
        match path.first() {
            Some(b'/') => self.root,
            _ => from,
        }
    }

    /// The directory above a directory; the root is above itself.
    fn parent(&self, directory: FileId) -> FileId {
        match self.file(directory).name {
            Some(name) => self.names.get(name).parent,
            None => self.root,
        }
    }
}

fn reversed(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    names.rev().map(<[u8]>::to_vec).collect()
}
