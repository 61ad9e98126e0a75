//! Relocation: moves the data of files to other blocks while they are used.
//!
//! A piece of the file is copied to blocks that are reserved in memory. Then one handle sets their
//! bits, replaces the mapping and frees the old blocks, which are reusable only after its commit. A
//! crash leaves the piece at the old or at the new place, with the same data.
//!
//! Layout: `piece` moves one piece, `reserved` holds the blocks for the next ones; `layout` lists
//! the extents of a file. Above them: `defrag` and `compact`.
//!
//! Invariants: size, times, holes, states of extents and quota of data stay. A cluster moves with
//! all its mapped blocks.
//! Locking: `InodeIo` exclusively for one piece, so readers and writers of the file wait only that
//! long. Each piece is one operation for a freeze.
//! Not here: blocks of directories, of maps, and of attributes.
//! References: `docs/internals/relocation.md`.

mod compact;
mod defrag;
mod free_runs;
mod layout;
mod piece;
mod reserved;
#[cfg(test)]
mod tests;

pub use compact::{CompactOptions, CompactProgress, Compacted};
pub use defrag::{DefragOptions, Defragmented, LeftAlone};

use crate::ops::filesystem::Filesystem;
use crate::parts::{file, map};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef, refuse_hidden};
use crate::state::space::{Purpose, Reserve, Want};
use crate::types::error::{Error, Result};
use free_runs::FreeRuns;
use layout::whole_clusters;
use piece::Mover;
use reserved::Reserved;
use std::ops::Range;
use uext4_format::BlockNr;
use uext4_num::clamp_u32;

/// Where moved data shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Close behind this byte of the file system.
    Near(u64),
    /// Before this byte of the file system.
    Before(u64),
}

impl Filesystem {
    /// Moves the data in the byte range of a file to other free blocks, in runs as long as free
    /// space has them; returns how many bytes moved. The content stays for all its users.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other files than regular ones; [`Error::NoSpace`] when no free block
    /// is left there, with what moved before at its new place; errors of the device.
    pub fn relocate(&self, inode: &InodeRef, bytes: Range<u64>, to: Destination) -> Result<u64> {
        let bits = self.fs.base.geometry.block_bits;
        self.change(|fs| prepare(fs, inode))?;
        let blocks = bytes.start >> bits..bytes.end.div_ceil(1 << bits);
        let range = whole_clusters(&self.fs, blocks.start..blocks.end.min(map::LOGICAL_END));
        let mut source = match to {
            Destination::Near(byte) => Source::Near(BlockNr(byte >> bits)),
            Destination::Before(byte) => {
                Source::Before(self.run(|fs| FreeRuns::before(fs, byte >> bits))?)
            }
        };
        let (mut mover, mut at, mut moved) = (Mover::new(&self.fs), range.start, 0);
        while let Some(next) = self.run(|fs| layout::next_mapped(fs, inode, at..range.end))? {
            let mut reserved = source.reserve(&self.fs, inode, next.end - next.start)?;
            at = next.end.min(next.start + u64::from(reserved.len_blocks()));
            self.move_all(&mut mover, inode, next.start..at, &mut reserved, &mut moved)?;
            if let Source::Near(goal) = &mut source {
                *goal = reserved.start();
            }
        }
        Ok(moved << bits)
    }

    /// Moves what is mapped in `range`, piece by piece, to the reserved blocks: each block to the
    /// one at its distance from the start. Counts the blocks in `moved`.
    fn move_all(
        &self,
        mover: &mut Mover,
        inode: &InodeRef,
        range: Range<u64>,
        reserved: &mut Reserved<'_>,
        moved: &mut u64,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let step = self.change(|fs| mover.step(fs, inode.arc(), at..range.end, reserved))?;
            *moved += step.moved_blocks;
            at = step.end;
        }
        Ok(())
    }
}

/// Where blocks for moved data come from.
enum Source {
    Near(BlockNr),
    Before(FreeRuns),
}

impl Source {
    /// Reserves `len_blocks` blocks, or as many as a run has.
    fn reserve<'a>(&mut self, fs: &'a Fs, inode: &Inode, len_blocks: u64) -> Result<Reserved<'a>> {
        match self {
            Self::Before(runs) => runs.reserve(fs, len_blocks),
            Self::Near(goal) => {
                let len = clamp_u32(len_blocks);
                Reserved::fewest_pieces(fs, want(fs, inode, len, len, Some(*goal)))
            }
        }
    }
}

/// Refuses files whose blocks do not move.
fn check(fs: &Fs, inode: &InodeRef) -> Result<()> {
    refuse_hidden(&fs.hidden, inode)?;
    file::check_regular(&inode.read())
}

/// As [`check`], and writes delayed data out.
fn prepare(fs: &Fs, inode: &InodeRef) -> Result<()> {
    fs.writable()?;
    check(fs, inode)?;
    file::write_out(fs, inode.arc())?;
    fs.discard_preallocation(inode);
    Ok(())
}

/// A request for whole clusters of data.
fn want(fs: &Fs, inode: &Inode, len_blocks: u32, min_blocks: u32, goal: Option<BlockNr>) -> Want {
    let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
    Want {
        goal: goal.map(|goal| BlockNr(goal.0 - goal.0 % ratio)),
        len_blocks,
        min_blocks,
        inode: inode.nr(),
        purpose: Purpose::Data,
        reserve: Reserve::MayUse,
        end: map::block_end(&inode.read()),
    }
}

/// Whether an error means that there is no space of this kind.
fn is_no_space(error: &Error) -> bool {
    matches!(error, Error::NoSpace)
}
