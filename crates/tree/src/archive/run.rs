//! One archive: the walk of the tree, and the entry of each file.
//!
//! Invariants: the image may be hostile. Each directory is entered once, and names that no file can
//! have are left out; both are reported as damage. After its header a file has as many bytes as the
//! header says, whatever can be read.

use super::header::{self, Header, RECORD_BYTES, Type};
use super::output::Output;
use super::sparse::Layout;
use super::{Acls, Archive, acl};
use crate::error::{Damage, InImage};
use crate::{Error, Event, PIECE_BYTES, Result, join, sorted};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use uext4::format::acl::Acl;
use uext4::path::PathError;
use uext4::{Attr, Caller, FileType, InodeRef};
use uext4_num::{clamp_usize, u64_of};

/// Attributes with access control lists, and the pax keys of their text.
const LISTS: [(&[u8], &[u8]); 2] = [
    (b"system.posix_acl_access", b"SCHILY.acl.access"),
    (b"system.posix_acl_default", b"SCHILY.acl.default"),
];
/// A tar stream is filled up to this, as tar fills it.
const STREAM_RECORDS: usize = 20;

pub(super) struct Run<'r, 'a, 'o> {
    archive: &'r mut Archive<'a>,
    output: &'r mut Output<'o>,
    /// Files with further names, by inode number.
    links: HashMap<u32, First>,
    /// Inode numbers of directories in the archive.
    entered: HashSet<u32>,
    /// Headers of the current entry.
    headers: Vec<u8>,
    at: At,
}

/// First name of a file with several names.
struct First {
    /// Path in the archive.
    name: Vec<u8>,
    names_left: u32,
}

/// A directory whose names are being written.
struct Level {
    inode: InodeRef,
    /// Length of its path in the image.
    path_bytes: usize,
    /// Length of its path in the archive, with a slash at the end unless it is empty.
    prefix_bytes: usize,
    names: std::vec::IntoIter<Vec<u8>>,
}

/// Paths of the innermost open directory: levels have lengths, so that deep trees take memory for
/// their names only.
#[derive(Default)]
struct At {
    /// Path in the image.
    path: Vec<u8>,
    /// Path in the archive.
    prefix: Vec<u8>,
}

impl At {
    fn go_to(&mut self, level: &Level) {
        self.path.truncate(level.path_bytes);
        self.prefix.truncate(level.prefix_bytes);
    }
}

/// A file of the image, and its name in the archive.
struct Member {
    inode: InodeRef,
    attr: Attr,
    path: Vec<u8>,
    name: Vec<u8>,
}

/// Lines of the pax header.
type Lines = Vec<(Vec<u8>, Vec<u8>)>;

impl<'r, 'a, 'o> Run<'r, 'a, 'o> {
    pub(super) fn new(archive: &'r mut Archive<'a>, output: &'r mut Output<'o>) -> Self {
        Self {
            archive,
            output,
            links: HashMap::new(),
            entered: HashSet::new(),
            headers: Vec::new(),
            at: At::default(),
        }
    }

    /// Writes the archive of `path` and all below it.
    pub(super) fn tree(&mut self, path: &[u8]) -> Result<()> {
        let mut open = Vec::new();
        match self.top(path) {
            Ok(level) => open.extend(level),
            Err(error) => self.finish(Err(error))?,
        }
        while let Some(level) = open.last_mut() {
            let Some(name) = level.names.next() else {
                open.pop();
                continue;
            };
            self.at.go_to(level);
            let dir = level.inode.clone();
            self.archive.monitor.check()?;
            match self.child(&dir, &name) {
                Ok(below) => open.extend(below),
                Err(error) => self.finish(Err(error))?,
            }
        }
        self.output.put(&[0; 2 * RECORD_BYTES])?;
        let stream = u64_of(STREAM_RECORDS * RECORD_BYTES);
        let end = self.output.stream_bytes;
        self.output.put_zeroes(end.next_multiple_of(stream) - end)?;
        self.output.flush()
    }

    fn finish(&mut self, done: Result<()>) -> Result<()> {
        self.archive.monitor.finish(done)
    }

    fn top(&mut self, path: &[u8]) -> Result<Option<Level>> {
        let inode = self.archive.fs.paths().symlink_inode(path)?;
        let name = if inode.is_dir() {
            Vec::new()
        } else {
            last_name(path).to_vec()
        };
        self.member(inode, path.to_vec(), name)
    }

    fn child(&mut self, dir: &InodeRef, name: &[u8]) -> Result<Option<Level>> {
        let path = join(&self.at.path, name);
        if !sorted::is_name(name) {
            let damage = Damage::Name;
            return Err(Error::Damaged { path, damage });
        }
        let found = self.archive.fs.lookup(dir, name, &Caller::root());
        let inode = found.in_image(|| path.clone())?;
        if name == b"lost+found" && self.is_root(dir)? {
            return Ok(None);
        }
        let prefix = &self.at.prefix;
        self.member(inode, path, [prefix, name].concat())
    }

    fn is_root(&self, dir: &InodeRef) -> Result<bool> {
        let root = self.archive.fs.root().in_image(|| b"/".to_vec())?;
        Ok(root.nr() == dir.nr())
    }

    /// Writes the entry of one file; returns the names below it.
    fn member(&mut self, inode: InodeRef, path: Vec<u8>, name: Vec<u8>) -> Result<Option<Level>> {
        let member = Member {
            attr: self.archive.fs.attr(&inode),
            inode,
            path,
            name,
        };
        self.archive.monitor.begin(&member.path)?;
        if member.attr.kind == FileType::Directory {
            return self.directory(member).map(Some);
        }
        if self.is_link(&member)? {
            return self.finish(Ok(())).map(|()| None);
        }
        match member.attr.kind {
            FileType::Regular => self.file(&member)?,
            FileType::Socket => {
                self.archive.monitor.summary.sockets += 1;
                self.archive.monitor.report(Event::Socket(&member.path));
                return Ok(None);
            }
            _ => self.special(&member)?,
        }
        Ok(None)
    }

    fn directory(&mut self, member: Member) -> Result<Level> {
        let nr = member.attr.ino.0;
        if !self.entered.insert(nr) {
            let damage = Damage::SecondName(nr);
            let path = member.path;
            return Err(Error::Damaged { path, damage });
        }
        let shown = if member.name.is_empty() {
            b"./".to_vec()
        } else {
            [member.name.as_slice(), b"/"].concat()
        };
        self.entry(&member, Header::new(&shown, Type::Directory))?;
        let (names, failed) = sorted::names(&self.archive.fs, &member.inode);
        if let Some(error) = failed {
            let failed = Err(error).in_image(|| member.path.clone());
            self.finish(failed)?;
        }
        self.at = At {
            path: member.path,
            prefix: if member.name.is_empty() {
                member.name
            } else {
                shown
            },
        };
        Ok(Level {
            inode: member.inode,
            path_bytes: self.at.path.len(),
            prefix_bytes: self.at.prefix.len(),
            names: names.into_iter(),
        })
    }

    /// Writes a link to a file that the archive has already; false if it has not.
    fn is_link(&mut self, member: &Member) -> Result<bool> {
        let nr = member.attr.ino.0;
        let Some(first) = self.links.get_mut(&nr) else {
            return Ok(false);
        };
        first.names_left = first.names_left.saturating_sub(1);
        let target = match first.names_left {
            0 => self
                .links
                .remove(&nr)
                .map(|first| first.name)
                .unwrap_or_default(),
            _ => first.name.clone(),
        };
        let header = Header::new(&member.name, Type::Link);
        self.put_header(&Header {
            target: &target,
            ..of(&member.attr, header)
        })?;
        Ok(true)
    }

    fn special(&mut self, member: &Member) -> Result<()> {
        let (kind, target) = match member.attr.kind {
            FileType::CharDevice => (Type::CharDevice, Vec::new()),
            FileType::BlockDevice => (Type::BlockDevice, Vec::new()),
            FileType::Fifo => (Type::Fifo, Vec::new()),
            _ => {
                let target = self.archive.fs.read_link(&member.inode);
                (Type::Symlink, target.in_image(|| member.path.clone())?)
            }
        };
        let device = match kind {
            Type::CharDevice | Type::BlockDevice => member.attr.rdev,
            _ => (0, 0),
        };
        let header = Header::new(&member.name, kind);
        self.entry(
            member,
            Header {
                target: &target,
                device,
                ..header
            },
        )
    }

    fn file(&mut self, member: &Member) -> Result<()> {
        let size = member.attr.size_bytes;
        let layout = Layout::of(&self.archive.fs, &member.inode, size);
        let layout = layout.in_image(|| member.path.clone())?;
        let stored_bytes = layout.stored_bytes();
        let header = Header {
            stored_bytes,
            sparse_bytes: (!layout.map.is_empty()).then_some(size),
            ..Header::new(&member.name, Type::File)
        };
        self.entry_with(member, header, |run| {
            run.output.put(&layout.map)?;
            let read = run.data(member, &layout.ranges)?;
            run.output
                .put_zeroes(u64_of(header::padding(stored_bytes)))?;
            Ok(read)
        })
    }

    fn entry(&mut self, member: &Member, header: Header<'_>) -> Result<()> {
        self.entry_with(member, header, |_| Ok(Ok(())))
    }

    /// Writes headers and content. An error inside the result of `content` leaves the
    /// archive well-formed; an error outside ends it.
    fn entry_with(
        &mut self,
        member: &Member,
        header: Header<'_>,
        content: impl FnOnce(&mut Self) -> Result<Result<()>>,
    ) -> Result<()> {
        let (lines, failed) = self.attributes(member);
        self.put_header(&Header {
            lines: &lines,
            ..of(&member.attr, header)
        })?;
        let copied = content(self)?;
        if member.attr.links > 1 && member.attr.kind != FileType::Directory {
            let first = First {
                name: member.name.clone(),
                names_left: member.attr.links - 1,
            };
            self.links.insert(member.attr.ino.0, first);
        }
        self.finish(match failed {
            Some(error) => copied.and(Err(error)),
            None => copied,
        })
    }

    fn put_header(&mut self, header: &Header<'_>) -> Result<()> {
        self.headers.clear();
        header.encode(&mut self.headers);
        self.output.put(&self.headers)
    }

    /// Writes the data of these ranges; zeroes from the first byte that cannot be read.
    fn data(&mut self, member: &Member, ranges: &[Range<u64>]) -> Result<Result<()>> {
        let mut done = Ok(());
        for range in ranges {
            let mut offset = range.start;
            while offset < range.end && done.is_ok() {
                let want = clamp_usize(range.end - offset).min(PIECE_BYTES);
                let room = self.output.room(want)?;
                match self.archive.fs.read_untouched(&member.inode, offset, room) {
                    Ok(read) if read > 0 => {
                        self.output.advance(read);
                        offset += u64_of(read);
                        self.archive.monitor.add_bytes(u64_of(read));
                        self.archive.monitor.check()?;
                    }
                    failed => done = Err(incomplete(member, offset, failed.err())),
                }
            }
            self.output.put_zeroes(range.end - offset)?;
        }
        Ok(done)
    }

    /// Lines of the extended attributes, in the order of their names, and the first error.
    fn attributes(&self, member: &Member) -> (Lines, Option<Error>) {
        let (fs, caller) = (&self.archive.fs, Caller::root());
        let mut lines = Vec::new();
        let mut failed = None;
        let mut names = fs
            .list_xattrs(&member.inode, &caller)
            .unwrap_or_else(|error| {
                failed = Some(error);
                Vec::new()
            });
        names.sort_unstable();
        for name in names {
            match fs.get_xattr(&member.inode, &name, &caller) {
                Ok(value) => lines.push(self.attribute(name, value)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let failed =
            failed.and_then(|error| Err::<(), _>(error).in_image(|| member.path.clone()).err());
        (lines, failed)
    }

    fn attribute(&self, name: Vec<u8>, value: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        let list = LISTS.iter().find(|(attribute, _)| *attribute == name);
        if let (Acls::Text, Some((_, key))) = (self.archive.acls, list)
            && let Ok(Some(found)) = Acl::from_xattr(&value)
        {
            return (key.to_vec(), acl::text(&found).into_bytes());
        }
        ([b"SCHILY.xattr.".to_vec(), key_of(&name)].concat(), value)
    }
}

/// A name as part of a key: a key ends at its first `=`, so GNU tar writes and reads `%3D`.
fn key_of(name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len());
    for (at, byte) in name.iter().enumerate() {
        let rest = name.split_at(at).1;
        match byte {
            b'=' => key.extend_from_slice(b"%3D"),
            // A percent sign that would read as an escape.
            b'%' if rest.starts_with(b"%3D") || rest.starts_with(b"%25") => {
                key.extend_from_slice(b"%25");
            }
            _ => key.push(*byte),
        }
    }
    key
}

/// The header with the attributes of a file.
fn of<'h>(attr: &Attr, header: Header<'h>) -> Header<'h> {
    Header {
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        mtime: attr.mtime,
        ..header
    }
}

fn incomplete(member: &Member, offset: u64, error: Option<uext4::Error>) -> Error {
    match error {
        Some(error) => Error::Incomplete {
            offset,
            error: PathError::new(&member.path, error),
        },
        None => Error::Damaged {
            path: member.path.clone(),
            damage: Damage::ShortData,
        },
    }
}

/// The last name of the path of a file.
fn last_name(path: &[u8]) -> &[u8] {
    let start = path.iter().rposition(|byte| *byte == b'/');
    path.split_at(start.map_or(0, |slash| slash + 1)).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_no_equals_sign() {
        assert_eq!(key_of(b"user.a=b%c"), b"user.a%3Db%c");
        assert_eq!(key_of(b"user.%3D%25%"), b"user.%253D%2525%");
    }
}
