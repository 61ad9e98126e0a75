//! Compares two files: attributes, then contents in large pieces, without the holes of both.

use super::{Change, Compare, CompareTimes, Side};
use crate::error::InImage;
use crate::{Error, Result};
use std::collections::BTreeMap;
use uext4::{Attr, Caller, FileType, Filesystem, InodeRef, Seek};
use uext4_num::{clamp_usize, u64_of};

/// Bytes compared at once.
const PIECE_BYTES: usize = 1 << 20;

/// Compares pairs of files.
pub(super) struct Pair {
    a: Filesystem,
    b: Filesystem,
    times: CompareTimes,
    from_a: Vec<u8>,
    from_b: Vec<u8>,
}

/// A failure in one of the trees.
type Failed = (Side, Error);

/// A result of reading one of the trees.
type Read<T> = std::result::Result<T, Failed>;

impl Pair {
    pub(super) fn new(compare: &Compare) -> Self {
        Self {
            a: compare.a.clone(),
            b: compare.b.clone(),
            times: compare.times,
            from_a: vec![0; PIECE_BYTES],
            from_b: vec![0; PIECE_BYTES],
        }
    }

    /// Adds what differs; returns what cannot be read.
    pub(super) fn compare(
        &mut self,
        path: &[u8],
        a: &InodeRef,
        b: &InodeRef,
        changes: &mut Vec<Change>,
    ) -> Vec<Failed> {
        let (attr_a, attr_b) = (self.a.attr(a), self.b.attr(b));
        if attr_a.kind != attr_b.kind {
            changes.push(Change::Kind(attr_a.kind, attr_b.kind));
            return Vec::new();
        }
        attributes(&attr_a, &attr_b, changes);
        if self.times == CompareTimes::All {
            times(&attr_a, &attr_b, changes);
        }
        let xattrs = self.xattrs(path, a, b, changes);
        let content = match attr_a.kind {
            FileType::Regular => {
                let end = attr_a.size_bytes.min(attr_b.size_bytes);
                let first = self.content(path, a, b, end);
                first.map(|first| changes.extend(first.map(Change::Content)))
            }
            FileType::Symlink => self.targets(path, a, b, changes),
            _ => Ok(()),
        };
        xattrs.err().into_iter().chain(content.err()).collect()
    }

    fn xattrs(
        &self,
        path: &[u8],
        a: &InodeRef,
        b: &InodeRef,
        changes: &mut Vec<Change>,
    ) -> Read<()> {
        let in_a = xattrs(&self.a, a, path).map_err(|error| (Side::A, error))?;
        let mut in_b = xattrs(&self.b, b, path).map_err(|error| (Side::B, error))?;
        for (name, value) in in_a {
            let other = in_b.remove(&name);
            if other.as_ref() != Some(&value) {
                changes.push(Change::Xattr(name, Some(value), other));
            }
        }
        let added = in_b.into_iter();
        changes.extend(added.map(|(name, value)| Change::Xattr(name, None, Some(value))));
        Ok(())
    }

    fn targets(
        &self,
        path: &[u8],
        a: &InodeRef,
        b: &InodeRef,
        changes: &mut Vec<Change>,
    ) -> Read<()> {
        let old = on(Side::A, path, self.a.read_link(a))?;
        let new = on(Side::B, path, self.b.read_link(b))?;
        if old != new {
            changes.push(Change::Target(old, new));
        }
        Ok(())
    }

    /// The first byte below `end` that differs.
    fn content(&mut self, path: &[u8], a: &InodeRef, b: &InodeRef, end: u64) -> Read<Option<u64>> {
        let mut offset = 0;
        while offset < end {
            let next_a = on(Side::A, path, next_data(&self.a, a, offset, end))?;
            let next_b = on(Side::B, path, next_data(&self.b, b, offset, end))?;
            offset = next_a.min(next_b);
            let want = clamp_usize(end - offset).min(PIECE_BYTES);
            let piece_a = self.from_a.split_at_mut(want).0;
            let piece_b = self.from_b.split_at_mut(want).0;
            on(Side::A, path, fill(&self.a, a, offset, piece_a))?;
            on(Side::B, path, fill(&self.b, b, offset, piece_b))?;
            if piece_a != piece_b {
                let first = piece_a.iter().zip(piece_b.iter()).position(|(a, b)| a != b);
                return Ok(first.map(|first| offset + u64_of(first)));
            }
            offset += u64_of(want);
        }
        Ok(None)
    }
}

fn attributes(a: &Attr, b: &Attr, changes: &mut Vec<Change>) {
    if a.mode != b.mode {
        changes.push(Change::Mode(a.mode, b.mode));
    }
    if (a.uid, a.gid) != (b.uid, b.gid) {
        changes.push(Change::Owner((a.uid, a.gid), (b.uid, b.gid)));
    }
    if a.kind == FileType::Regular && a.size_bytes != b.size_bytes {
        changes.push(Change::Size(a.size_bytes, b.size_bytes));
    }
    let is_device = matches!(a.kind, FileType::CharDevice | FileType::BlockDevice);
    if is_device && a.rdev != b.rdev {
        changes.push(Change::Device(a.rdev, b.rdev));
    }
}

fn times(a: &Attr, b: &Attr, changes: &mut Vec<Change>) {
    let times = [
        ("accessed", a.atime, b.atime),
        ("modified", a.mtime, b.mtime),
        ("changed", a.ctime, b.ctime),
        ("born", a.crtime, b.crtime),
    ];
    let differ = times.into_iter().filter(|(_, a, b)| a != b);
    changes.extend(differ.map(|(name, a, b)| Change::Time(name, a, b)));
}

fn xattrs(fs: &Filesystem, inode: &InodeRef, path: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let caller = Caller::root();
    let names = fs.list_xattrs(inode, &caller).in_image(|| path.to_vec())?;
    let pairs = names.into_iter().map(|name| {
        let value = fs.get_xattr(inode, &name, &caller);
        Ok((name, value.in_image(|| path.to_vec())?))
    });
    pairs.collect()
}

/// The next byte of data at or after `offset`, or `end`.
fn next_data(fs: &Filesystem, inode: &InodeRef, offset: u64, end: u64) -> uext4::Result<u64> {
    match fs.seek(inode, offset, Seek::Data) {
        Err(uext4::Error::NoOffset) => Ok(end),
        found => Ok(found?.min(end)),
    }
}

fn fill(fs: &Filesystem, inode: &InodeRef, offset: u64, piece: &mut [u8]) -> uext4::Result<()> {
    let mut filled = 0;
    while filled < piece.len() {
        let rest = piece.split_at_mut(filled).1;
        match fs.read_untouched(inode, offset + u64_of(filled), rest)? {
            0 => {
                // Only a file that changes meanwhile ends early.
                rest.fill(0);
                return Ok(());
            }
            read => filled += read,
        }
    }
    Ok(())
}

fn on<T>(side: Side, path: &[u8], read: uext4::Result<T>) -> Read<T> {
    read.in_image(|| path.to_vec())
        .map_err(|error| (side, error))
}
