//! Replay of range records: brings the maps of files to their final state.

use super::clusters::{self, Shared};
use super::ranges::{Piece, Ranges, Target};
use super::{contradiction, last_inodes, load};
use crate::parts::map::{self, LOGICAL_END, Mapping, Progress};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::credits;
use crate::types::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use uext4_format::fast_commit::Record;
use uext4_format::{BlockRun, CorruptKind, InodeFlags, InodeNr, LogicalBlock, RawInode};
use uext4_num::clamp_u32;
use uext4_sync::Arc;

/// Action for one piece.
enum Todo {
    /// None: it is correct already.
    Keep,
    /// Only its state differs.
    Restate(Piece),
    /// It is a hole, or must become one before it is mapped elsewhere.
    Replace(Piece),
}

/// A piece to map, and its blocks once they are reserved.
struct Wanted {
    inode: InodeNr,
    piece: Piece,
    target: Target,
    reserved: Option<Vec<BlockRun>>,
    /// It begins or ends inside a cluster.
    shares: bool,
}

impl Wanted {
    fn run(&self) -> BlockRun {
        // A piece comes from one extent or removal: its length fits 32 bits.
        let len_blocks = clamp_u32(self.piece.end - self.piece.start);
        BlockRun {
            start: self.target.start,
            len_blocks,
        }
    }
}

/// All changes of maps.
#[derive(Default)]
pub(super) struct Maps {
    wanted: Vec<Wanted>,
    shared: Shared,
    restate: Vec<(InodeNr, Piece)>,
    unmap: Vec<(InodeNr, Range<u64>)>,
}

impl Maps {
    /// Compares the records with the current maps.
    pub(super) fn new(fs: &Fs, records: &[Record]) -> Result<Self> {
        let ranges = collect(fs, records)?;
        let last = last_inodes(records);
        let mut maps = Self::default();
        let mut reborn = BTreeSet::new();
        for (nr, raw) in &last {
            if generation_of(fs, *nr)?.is_some_and(|found| found != generation(raw)) {
                maps.unmap.push((*nr, 0..LOGICAL_END));
                reborn.insert(*nr);
            }
        }
        for (nr, ranges) in &ranges {
            let goes_on = !reborn.contains(nr) && fs.space.is_inode_allocated(&fs.base, *nr)?;
            let inode = if goes_on { Some(load(fs, *nr)?) } else { None };
            let raw = last.get(nr).copied();
            let inode = inode.filter(|inode| !leaves_inode(&inode.read(), raw));
            for piece in ranges.iter() {
                maps.plan(fs, *nr, inode.as_ref(), piece)?;
            }
        }
        Ok(maps)
    }

    fn plan(
        &mut self,
        fs: &Fs,
        nr: InodeNr,
        inode: Option<&Arc<Inode>>,
        piece: Piece,
    ) -> Result<()> {
        let mut at = piece.start;
        while at < piece.end {
            let rest = piece.part(at, piece.end);
            let (todo, end) = match inode {
                Some(inode) => compare(fs, &inode.read(), rest)?,
                None => (Todo::Replace(rest), rest.end),
            };
            match todo {
                Todo::Keep => {}
                Todo::Restate(piece) => self.restate.push((nr, piece)),
                Todo::Replace(piece) => self.replace(fs, nr, inode.is_some(), piece)?,
            }
            at = end;
        }
        Ok(())
    }

    fn replace(&mut self, fs: &Fs, inode: InodeNr, exists: bool, piece: Piece) -> Result<()> {
        if exists {
            self.unmap.push((inode, piece.start..piece.end));
        }
        let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
        let parts = clusters::split(piece, ratio);
        parts
            .filter(|part| part.target.is_some())
            .try_for_each(|part| self.want(fs, inode, part, ratio))
    }

    fn want(&mut self, fs: &Fs, inode: InodeNr, piece: Piece, ratio: u64) -> Result<()> {
        let Some(target) = piece.target else {
            return Ok(());
        };
        let wanted = Wanted {
            inode,
            piece,
            target,
            reserved: None,
            shares: !clusters::is_whole(&piece, ratio),
        };
        if !fs
            .space
            .may_contain_run(target.start, wanted.run().len_blocks.into())
        {
            return Err(contradiction(inode, CorruptKind::FcOutside));
        }
        if piece.start % ratio != target.start.0 % ratio {
            let problem = CorruptKind::FcMisaligned;
            return Err(contradiction(inode, problem));
        }
        if wanted.shares {
            self.shared.add(fs, target.start);
        }
        self.wanted.push(wanted);
        Ok(())
    }

    /// Reserves the blocks that are free now, before anything else is allocated.
    pub(super) fn reserve_free(&mut self, fs: &Fs) -> Result<()> {
        self.shared.reserve(fs)?;
        for wanted in self.wanted.iter_mut().filter(|wanted| !wanted.shares) {
            match fs.space.reserve_exactly(&fs.base, wanted.run()) {
                Ok(pieces) => wanted.reserved = Some(pieces),
                Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reserves the blocks that other files gave up, after the commit of their removal.
    pub(super) fn reserve_rest(&mut self, fs: &Fs) -> Result<()> {
        self.shared.reserve(fs)?;
        for wanted in self
            .wanted
            .iter_mut()
            .filter(|wanted| wanted.reserved.is_none() && !wanted.shares)
        {
            let pieces = fs.space.reserve_exactly(&fs.base, wanted.run());
            wanted.reserved = Some(pieces.map_err(|error| match error {
                Error::NoSpace => contradiction(wanted.inode, CorruptKind::FcInUse),
                other => other,
            })?);
        }
        Ok(())
    }

    /// Unmaps and frees blocks that files do not map in the end.
    pub(super) fn unmap(&self, fs: &Fs) -> Result<()> {
        for (nr, range) in &self.unmap {
            let inode = load(fs, *nr)?;
            if crate::parts::lifetime::has_blocks(fs, &inode) {
                unmap(fs, &inode, range.clone())?;
            }
        }
        Ok(())
    }

    /// Maps the new pieces. The inodes exist by now.
    pub(super) fn map(mut self, fs: &Fs) -> Result<()> {
        for (nr, piece) in &self.restate {
            restate(fs, &load(fs, *nr)?, piece)?;
        }
        for wanted in self.wanted {
            if !fs.space.is_inode_allocated(&fs.base, wanted.inode)? {
                return Err(contradiction(wanted.inode, CorruptKind::FcFreeInode));
            }
            let inode = load(fs, wanted.inode)?;
            if wanted.shares {
                map_shared(fs, &inode, &wanted, &mut self.shared)?;
            } else {
                map_one(fs, &inode, wanted)?;
            }
        }
        Ok(())
    }
}

/// The combined ranges of all records, by inode. A record with a new generation begins a new life
/// of the number, with an empty map.
fn collect(fs: &Fs, records: &[Record]) -> Result<BTreeMap<InodeNr, Ranges>> {
    let mut all: BTreeMap<InodeNr, Ranges> = BTreeMap::new();
    let mut lives: BTreeMap<InodeNr, u32> = BTreeMap::new();
    for record in records {
        let (inode, piece) = match *record {
            Record::AddRange { inode, extent } => {
                let target = Some(Target {
                    start: extent.start,
                    state: extent.state,
                });
                let end = extent.logical_end().min(LOGICAL_END);
                (
                    inode,
                    Piece {
                        start: u64::from(extent.logical.0),
                        end,
                        target,
                    },
                )
            }
            Record::DelRange {
                inode,
                start,
                len_blocks,
            } => {
                let end = (u64::from(start.0) + u64::from(len_blocks)).min(LOGICAL_END);
                (
                    inode,
                    Piece {
                        start: u64::from(start.0),
                        end,
                        target: None,
                    },
                )
            }
            Record::Inode { inode, ref raw } => {
                let before = match lives.insert(inode, generation(raw)) {
                    None => generation_of(fs, inode)?,
                    known => known,
                };
                if before.is_none_or(|before| before == generation(raw)) {
                    continue;
                }
                (
                    inode,
                    Piece {
                        start: 0,
                        end: LOGICAL_END,
                        target: None,
                    },
                )
            }
            _ => continue,
        };
        all.entry(inode).or_default().set(piece);
    }
    Ok(all)
}

/// The generation of a recorded inode.
pub(super) fn generation(raw: &[u8]) -> u32 {
    RawInode(raw).generation()
}

/// The generation of an inode in use.
pub(super) fn generation_of(fs: &Fs, nr: InodeNr) -> Result<Option<u32>> {
    if !fs.space.is_inode_allocated(&fs.base, nr)? {
        return Ok(None);
    }
    let inode = load(fs, nr)?;
    let generation = inode.read().disk.generation;
    Ok(Some(generation))
}

/// The action at the start of `piece`, and the end of the part that it applies to.
fn compare(fs: &Fs, state: &InodeState, piece: Piece) -> Result<(Todo, u64)> {
    if state.disk.flags.contains(InodeFlags::INLINE_DATA) {
        let problem = CorruptKind::FcInline;
        return Err(contradiction(state.nr(), problem));
    }
    let max = clamp_u32(piece.end - piece.start);
    let found = map::lookup(fs, state, LogicalBlock(clamp_u32(piece.start)), max)?;
    let end = piece.start + u64::from(found.len_blocks());
    let piece = piece.part(piece.start, end);
    let todo = match (found, piece.target) {
        (Mapping::Hole { .. }, None) => Todo::Keep,
        (Mapping::Mapped { start, state, .. }, Some(target)) if start == target.start => {
            if state == target.state {
                Todo::Keep
            } else {
                Todo::Restate(piece)
            }
        }
        _ => Todo::Replace(piece),
    };
    Ok((todo, end))
}

/// Whether the data are inline now, but not in the record: the file maps nothing yet.
fn leaves_inode(state: &InodeState, raw: Option<&[u8]>) -> bool {
    let inline = InodeFlags::INLINE_DATA;
    let stays = raw.is_none_or(|raw| RawInode(raw).flags().contains(inline));
    state.disk.flags.contains(inline) && !stays
}

fn unmap(fs: &Fs, inode: &Arc<Inode>, range: Range<u64>) -> Result<()> {
    let mut handle = fs.start(credits::TRUNCATE)?;
    let mut end = range.end;
    loop {
        let progress = map::remove(fs, &handle, &mut handle.write(inode), range.start..end)?;
        match progress {
            Progress::Done => return Ok(()),
            Progress::More { end: left } => end = left,
        }
        handle.restart(credits::TRUNCATE)?;
    }
}

fn restate(fs: &Fs, inode: &Arc<Inode>, piece: &Piece) -> Result<()> {
    use map::ExtentState::Written;
    let handle = fs.start(credits::MAP)?;
    let mut state = handle.write(inode);
    let (at, len) = (
        LogicalBlock(clamp_u32(piece.start)),
        clamp_u32(piece.end - piece.start),
    );
    match piece.target {
        Some(Target { state: Written, .. }) => map::mark_written(fs, &handle, &mut state, at, len),
        _ => map::mark_unwritten(fs, &handle, &mut state, at, len),
    }
}

fn map_one(fs: &Fs, inode: &Arc<Inode>, wanted: Wanted) -> Result<()> {
    let mut at = LogicalBlock(clamp_u32(wanted.piece.start));
    for run in wanted.reserved.into_iter().flatten() {
        let handle = fs.start(credits::MAP)?;
        fs.space.commit(&fs.base, &handle, run)?;
        let mut state = handle.write(inode);
        map::insert(fs, &handle, &mut state, at, run, wanted.target.state)?;
        at = LogicalBlock(at.0.saturating_add(run.len_blocks));
    }
    Ok(())
}

/// Maps a part of a cluster, which belongs to the file already or was reserved for it.
fn map_shared(fs: &Fs, inode: &Arc<Inode>, wanted: &Wanted, shared: &mut Shared) -> Result<()> {
    let at = LogicalBlock(clamp_u32(wanted.piece.start));
    let handle = fs.start(credits::MAP)?;
    let mate = map::cluster_mate(fs, &inode.read(), at)?;
    match mate {
        Some(block) if block == wanted.target.start => {}
        Some(_) => return Err(contradiction(wanted.inode, CorruptKind::FcTwoPlaces)),
        None => {
            let in_use = contradiction(wanted.inode, CorruptKind::FcInUse);
            for run in shared.take(fs, wanted.target.start).ok_or(in_use)? {
                fs.space.commit(&fs.base, &handle, run)?;
            }
        }
    }
    let mut state = handle.write(inode);
    map::insert(
        fs,
        &handle,
        &mut state,
        at,
        wanted.run(),
        wanted.target.state,
    )
}
