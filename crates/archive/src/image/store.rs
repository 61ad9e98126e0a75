//! Where the files of an image are: a directory, or a tar whose names are indexed.
//!
//! Nothing is unpacked. Links in a tar (older docker archives share layers so) are followed within
//! it, a bounded number of times.

use crate::fault::{Checked, DAMAGED, Fault, shown};
use crate::tar::{EndMark, Member, MemberType, Reader, Tape, name};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Most entries of a tar that is taken for an image.
const ENTRIES_MAX: usize = 100_000;
/// Most links to follow for one name.
const LINKS_MAX: usize = 8;

/// The files of an image by name.
pub(crate) enum Store {
    Directory(PathBuf),
    Tar(Index),
}

pub(crate) struct Blob {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) bytes: u64,
}

impl Store {
    /// Opens a file; `None` if there is none. The name has no `..`.
    pub(crate) fn open(&self, name: &str) -> Checked<Option<Blob>> {
        match self {
            Store::Directory(directory) => open_file(directory.join(name)),
            Store::Tar(index) => index.open(name.as_bytes()),
        }
    }
}

/// Only regular files: a pipe would never end.
fn open_file(path: PathBuf) -> Checked<Option<Blob>> {
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let reader = Box::new(file);
    Ok(Some(Blob { reader, bytes }))
}

/// Names of a tar file.
pub(crate) struct Index {
    file: Arc<File>,
    places: HashMap<Vec<u8>, EntryData>,
}

enum EntryData {
    Bytes(Range<u64>),
    Link(Vec<u8>),
}

impl Index {
    /// Reads all headers of a tar.
    pub(crate) fn read(file: &Arc<File>) -> Checked<Index> {
        let bytes = file.metadata()?.len();
        let mut reader = Reader::new(Tape::file(Arc::clone(file), 0..bytes), EndMark::Optional);
        let mut places = HashMap::new();
        while let Some(member) = reader.next()? {
            let (start, stored) = (reader.tape.position(), member.stored);
            if let Some((name, place)) = target_of(member, start) {
                places.insert(name, place);
            }
            if places.len() > ENTRIES_MAX {
                let problem = format!("it has more than {ENTRIES_MAX} entries, too many");
                return Err(Fault::refused(problem, "say that it is a plain tar"));
            }
            reader.finish(start, stored)?;
        }
        let file = Arc::clone(file);
        Ok(Index { file, places })
    }

    fn open(&self, name: &[u8]) -> Checked<Option<Blob>> {
        let mut name = name;
        for _ in 0..LINKS_MAX {
            match self.places.get(name) {
                None => return Ok(None),
                Some(EntryData::Link(target)) => name = target,
                Some(EntryData::Bytes(range)) => {
                    let bytes = range.end - range.start;
                    let reader = Box::new(Tape::file(Arc::clone(&self.file), range.clone()));
                    return Ok(Some(Blob { reader, bytes }));
                }
            }
        }
        let problem = format!("the entry {} is behind too many links", shown(name));
        Err(Fault::refused(problem, DAMAGED))
    }
}

/// Where a member leads; sparse files and other types are not part of images.
fn target_of(member: Member, start: u64) -> Option<(Vec<u8>, EntryData)> {
    let place = match member.kind {
        MemberType::File if member.size == member.stored => {
            EntryData::Bytes(start..start + member.stored)
        }
        MemberType::Link(target) => EntryData::Link(target),
        MemberType::Symlink(target) => {
            EntryData::Link(resolve(name::split(&member.path).0, &target)?)
        }
        _ => return None,
    };
    Some((member.path, place))
}

/// The target of a symbolic link in `directory`; `None` if it leads out.
fn resolve(directory: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.starts_with(b"/") {
        return None;
    }
    let both = name::join(directory, target);
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in both.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside() {
        let cases: [(&[u8], Option<&[u8]>); 4] = [
            (b"../b/layer.tar", Some(b"b/layer.tar")),
            (b"./layer.tar", Some(b"a/layer.tar")),
            (b"../../x", None),
            (b"/x", None),
        ];
        for (target, path) in cases {
            assert_eq!(resolve(b"a", target).as_deref(), path);
        }
    }
}
