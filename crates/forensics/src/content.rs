//! The content of a file as far as it is left: runs of blocks, and ranges that are lost.

use crate::map::{Nodes, Part, Trust, walk};
use crate::{Image, Memory, Result};
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{Geometry, Inode};
use uext4_num::{clamp_u16, clamp_u32, clamp_usize, u64_of};

/// Memory for each run, in bytes.
pub(crate) const RUN_BYTES: u64 = 48;
/// Blocks that are read for one part of a copy.
const PART_BLOCKS: u64 = 64;

/// Takes a part of a content, with its first byte.
pub type TakePart<'t, E> = dyn FnMut(u64, &[u8]) -> std::result::Result<(), E> + 't;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// The size of the file in bytes.
    pub size: u64,
    /// Content that is in the inode.
    pub inline: Option<Vec<u8>>,
    pub(crate) runs: Vec<Extent>,
    pub(crate) lost: Vec<Range<u64>>,
    pub(crate) block_size: u64,
}

/// How much of a content is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// All of it.
    Whole,
    /// Some of it.
    Part,
    /// Nothing.
    Lost,
}

impl Content {
    /// How much is left.
    pub fn remains(&self) -> Remains {
        if self.inline.is_some() || self.lost.is_empty() {
            return Remains::Whole;
        }
        if self.runs.is_empty() {
            Remains::Lost
        } else {
            Remains::Part
        }
    }

    /// Bytes of the file that are lost, in ascending order.
    pub fn lost_bytes(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.lost.iter().map(|blocks| {
            let end = blocks.end.saturating_mul(self.block_size);
            let start = blocks.start.saturating_mul(self.block_size);
            start.min(self.size)..end.min(self.size)
        })
    }

    /// Sorts runs and lost ranges, and drops what is behind the size or there twice. Blocks that
    /// two runs map belong to the first one.
    pub(crate) fn put_in_order(&mut self) {
        let end = self.size.div_ceil(self.block_size.max(1));
        self.runs.sort_by_key(|run| run.logical);
        let mut next = 0_u64;
        self.runs.retain_mut(|run| {
            let taken = next.saturating_sub(run.logical.0.into());
            let keeps = taken < run.len.into() && u64::from(run.logical.0) < end;
            if keeps {
                cut_front(run, taken);
                next = run.logical_end();
            }
            keeps
        });
        self.lost
            .retain(|lost| lost.start < end && lost.start < lost.end);
        self.lost.sort_by_key(|lost| lost.start);
        self.lost.dedup_by(|later, first| {
            let touches = later.start <= first.end;
            if touches {
                first.end = first.end.max(later.end);
            }
            touches
        });
    }

    /// Calls `take` with the parts of the content in ascending order, by their first byte. What
    /// lies between them is zero or lost. Blocks that the device does not read become lost.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn read<E>(
        &mut self,
        image: &Image,
        take: &mut TakePart<'_, E>,
    ) -> std::result::Result<(), E> {
        if let Some(inline) = &self.inline {
            return self.take_part(0, inline, take);
        }
        let mut unread = Vec::new();
        for run in &self.runs {
            if run.state != ExtentState::Written {
                continue;
            }
            let logical = u64::from(run.logical.0);
            for part in (0..u64::from(run.len)).step_by(clamp_usize(PART_BLOCKS)) {
                let end = part.saturating_add(PART_BLOCKS).min(run.len.into());
                let mut bytes = Vec::new();
                let mut first = part;
                for at in part..end {
                    match image.block(run.start.0.saturating_add(at)) {
                        Some(block) => bytes.extend(block),
                        None => {
                            self.take_part(logical.saturating_add(first), &bytes, take)?;
                            bytes.clear();
                            first = at.saturating_add(1);
                            let block = logical.saturating_add(at);
                            unread.push(block..block.saturating_add(1));
                        }
                    }
                }
                self.take_part(logical.saturating_add(first), &bytes, take)?;
            }
        }
        self.lost.append(&mut unread);
        self.put_in_order();
        Ok(())
    }

    fn take_part<E>(
        &self,
        block: u64,
        bytes: &[u8],
        take: &mut TakePart<'_, E>,
    ) -> std::result::Result<(), E> {
        let at = block.saturating_mul(self.block_size);
        let left = clamp_usize(self.size.saturating_sub(at)).min(bytes.len());
        match bytes.get(..left) {
            Some(bytes) if !bytes.is_empty() => take(at, bytes),
            _ => Ok(()),
        }
    }

    /// The extents of the map of an inode; what the map lost is lost.
    pub(crate) fn extents(
        &mut self,
        geometry: &Geometry,
        inode: &Inode,
        trust: Trust,
        nodes: &mut Nodes<'_>,
        memory: &Memory,
    ) -> Result<Vec<Extent>> {
        let (mut extents, mut failed) = (Vec::new(), Ok(()));
        walk(geometry, inode, trust, nodes, &mut |part| {
            let added = match part {
                Part::Data(extent) => {
                    let before = extents.len();
                    uext4_volume::append_extent(&mut extents, extent);
                    let more = extents.len().saturating_sub(before);
                    memory.take(u64_of(more).saturating_mul(RUN_BYTES))
                }
                Part::Lost(range) => self.add_lost(range, memory),
                Part::Node(_) => Ok(()),
            };
            if failed.is_ok() {
                failed = added;
            }
        });
        failed?;
        memory.give_back(u64_of(extents.len()).saturating_mul(RUN_BYTES));
        Ok(extents)
    }

    /// Adds a run.
    pub(crate) fn add_run(&mut self, run: Extent, memory: &Memory) -> Result<()> {
        let before = self.runs.len();
        uext4_volume::append_extent(&mut self.runs, run);
        let more = self.runs.len().saturating_sub(before);
        memory.take(u64_of(more).saturating_mul(RUN_BYTES))
    }

    /// Adds a range of blocks of the file that are lost.
    pub(crate) fn add_lost(&mut self, lost: Range<u64>, memory: &Memory) -> Result<()> {
        match self.lost.last_mut() {
            Some(last) if last.end == lost.start => last.end = lost.end,
            _ => {
                memory.take(RUN_BYTES)?;
                self.lost.push(lost);
            }
        }
        Ok(())
    }
}

/// Leaves out blocks at the start of a run.
fn cut_front(run: &mut Extent, blocks: u64) {
    run.logical.0 = run.logical.0.saturating_add(clamp_u32(blocks));
    run.start.0 = run.start.0.saturating_add(blocks);
    run.len = run.len.saturating_sub(clamp_u16(blocks));
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::{BlockNr, LogicalBlock};

    #[test]
    fn a_run_that_overlaps_keeps_its_rest() {
        let run = |logical, start, len| Extent {
            logical: LogicalBlock(logical),
            start: BlockNr(start),
            len,
            state: ExtentState::Written,
        };
        let mut content = Content {
            size: 100 << 10,
            block_size: 1024,
            runs: vec![
                run(4, 200, 8),
                run(0, 100, 6),
                run(5, 300, 2),
                run(100, 400, 1),
            ],
            ..Content::default()
        };
        content.put_in_order();
        assert_eq!(content.runs, [run(0, 100, 6), run(6, 202, 6)]);
    }
}
