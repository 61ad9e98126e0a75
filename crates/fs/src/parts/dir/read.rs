//! Listing a directory.
//!
//! A directory that is indexed, or may become so (one block, inline), is listed in hash order:
//! splits and the first index move entries, but not their positions. Other linear directories are
//! listed by offset: their entries never move.
//! Locking: the `index` lock is held shared; blocks are copied (shared images), so that `visit`
//! runs without any block locked.

use super::cookie::{self, AFTER_DOT, AFTER_DOTS};
use super::dots::parent_of;
use super::index::{Path, Probe, Target, probe};
use super::inline;
use super::view::{Dir, Form, is_dot};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::Result;
use uext4_format::dirent::DirEntry as DiskEntry;
use uext4_format::hash::DirHasher;
use uext4_format::{BlockNr, FileType, InodeNr, LogicalBlock};
use uext4_journal::Image;
use uext4_num::u64_of;
use uext4_sync::Arc;

/// One entry of a listing, which has "." and ".." as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Name in bytes, 1 to 255, without a terminator.
    pub name: &'a [u8],
    /// Inode that the name refers to.
    pub inode: InodeNr,
    /// Type of the inode; `None` when the file system keeps no types in directories.
    pub kind: Option<FileType>,
    /// Cookie after this entry. Names whose hashes are equal in all bits (about one pair in 2^63)
    /// share a cookie; a listing continued there may repeat a name but skips none.
    pub next_cookie: u64,
}

/// Answer of a visitor: whether the listing continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Continue with the next entry.
    Continue,
    /// End the listing; it may be continued at the cookie of this entry.
    Stop,
}

type Visitor<'v> = &'v mut dyn FnMut(DirEntry<'_>) -> Visit;

/// Calls `visit` for the entries from `cookie` on, "." and ".." included, until it stops.
pub(crate) fn read(fs: &Fs, dir: &Arc<Inode>, cookie: u64, visit: Visitor<'_>) -> Result<()> {
    let view = Dir::open(fs, dir)?;
    let path = match view.form {
        Form::Inline => return read_inline(&view, cookie, visit),
        Form::Linear if view.blocks == 1 && view.config().index => {
            return read_one_block(&view, cookie, visit);
        }
        Form::Linear => return read_linear(&view, cookie, visit),
        Form::Indexed => probe(
            &view,
            Target::Major(cookie::major(cookie).unwrap_or(u32::MAX)),
        )?,
    };
    match path {
        Probe::Path(path) => read_indexed(&view, path, cookie, visit),
        Probe::Broken(_) => read_linear(&view, cookie, visit),
    }
}

/// Lists by offset, from the block that holds the cookie's offset.
fn read_linear(dir: &Dir<'_>, cookie: u64, visit: Visitor<'_>) -> Result<()> {
    let block_size = dir.fs.block_bytes();
    let first = u32::try_from(cookie / block_size).unwrap_or(u32::MAX);
    for nr in first..dir.blocks {
        let Some(block) = dir.block(LogicalBlock(nr))? else {
            continue;
        };
        let start = u64::from(nr) * block_size;
        for entry in dir.leaf(&block.image()[..], block.nr()).entries() {
            let entry = entry?;
            let next_cookie = start + u64_of(entry.offset + entry.rec_len);
            if start + u64_of(entry.offset) < cookie {
                continue;
            }
            if visit(shown(&entry, next_cookie)) == Visit::Stop {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn shown<'a>(entry: &DiskEntry<'a>, next_cookie: u64) -> DirEntry<'a> {
    DirEntry {
        name: entry.name,
        inode: entry.inode,
        kind: entry.kind.file_type(),
        next_cookie,
    }
}

/// Visits "." and ".." in hash order.
fn read_dots(dir: &Dir<'_>, cookie: u64, visit: Visitor<'_>) -> Result<Visit> {
    let dots = [(&b"."[..], AFTER_DOT), (b"..", AFTER_DOTS)];
    for (name, next_cookie) in dots.into_iter().filter(|dot| cookie < dot.1) {
        let inode = if name.len() == 1 {
            dir.inode.nr()
        } else {
            parent_of(dir.fs, dir.inode)?
        };
        let kind = dir.config().file_types.then_some(FileType::Directory);
        if visit(DirEntry {
            name,
            inode,
            kind,
            next_cookie,
        }) == Visit::Stop
        {
            return Ok(Visit::Stop);
        }
    }
    Ok(Visit::Continue)
}

fn read_inline(dir: &Dir<'_>, cookie: u64, visit: Visitor<'_>) -> Result<()> {
    if read_dots(dir, cookie, visit)? == Visit::Stop {
        return Ok(());
    }
    let content = inline::Content::of(&dir.inode.read())?;
    let mut batch = Batch::new(dir.config().hasher, cookie);
    for entry in content.entries(dir.inode.nr()) {
        batch.add(&entry?);
    }
    batch.show(visit);
    Ok(())
}

fn read_one_block(dir: &Dir<'_>, cookie: u64, visit: Visitor<'_>) -> Result<()> {
    if read_dots(dir, cookie, visit)? == Visit::Stop {
        return Ok(());
    }
    let Some(block) = dir.block(LogicalBlock(0))? else {
        return Ok(());
    };
    let images = [(block.nr(), block.image())];
    Batch::of(dir, dir.config().hasher, cookie, &images)?.show(visit);
    Ok(())
}

/// Lists leaf by leaf. Leaves that share a hash are listed together.
fn read_indexed(dir: &Dir<'_>, mut path: Path, cookie: u64, visit: Visitor<'_>) -> Result<()> {
    if read_dots(dir, cookie, visit)? == Visit::Stop {
        return Ok(());
    }
    loop {
        let (images, more) = joined_leaves(dir, &mut path)?;
        if Batch::of(dir, path.hasher, cookie, &images)?.show(visit) == Visit::Stop || !more {
            return Ok(());
        }
    }
}

/// The leaf of `path` and its continuations; moves the path past them. False at the end.
fn joined_leaves(dir: &Dir<'_>, path: &mut Path) -> Result<(Vec<(BlockNr, Image)>, bool)> {
    let mut images = Vec::with_capacity(1);
    loop {
        let goes_on = path.next_hash().is_some_and(|hash| hash & 1 == 1);
        if let Some(block) = dir.block(path.leaf)? {
            images.push((block.nr(), block.image()));
        }
        let more = path.advance(dir)?;
        if !more || !goes_on {
            return Ok((images, more));
        }
    }
}

/// Entries to visit in the order of their positions.
struct Batch<'a> {
    hasher: DirHasher,
    from: u64,
    entries: Vec<(u64, DiskEntry<'a>)>,
}

impl<'a> Batch<'a> {
    fn new(hasher: DirHasher, from: u64) -> Self {
        Self {
            hasher,
            from,
            entries: Vec::new(),
        }
    }

    fn of(
        dir: &Dir<'_>,
        hasher: DirHasher,
        from: u64,
        images: &'a [(BlockNr, Image)],
    ) -> Result<Self> {
        let mut batch = Self::new(hasher, from);
        for (nr, image) in images {
            let tail = dir.leaf(&image[..], *nr).area_bytes();
            let area = &image[..tail];
            for record in
                uext4_format::dirent::DirEntries::new(area, 0, image.len(), dir.location(*nr))
            {
                let record = record?;
                if !record.is_free() && !is_dot(record.name) {
                    batch.add(&record);
                }
            }
        }
        Ok(batch)
    }

    fn add(&mut self, entry: &DiskEntry<'a>) {
        let position = cookie::position(&self.hasher, entry.name);
        if position >= self.from {
            self.entries.push((position, *entry));
        }
    }

    /// Visits the entries. Among entries of one position, only the last has the cookie after it.
    fn show(mut self, visit: Visitor<'_>) -> Visit {
        self.entries
            .sort_unstable_by_key(|(position, entry)| (*position, entry.name));
        let mut entries = self.entries.iter().peekable();
        while let Some((position, entry)) = entries.next() {
            let shared = entries.peek().is_some_and(|(next, _)| next == position);
            let next_cookie = position + u64::from(!shared);
            if visit(shown(entry, next_cookie)) == Visit::Stop {
                return Visit::Stop;
            }
        }
        Visit::Continue
    }
}
