//! Which blocks of deleted files still hold their content.
//!
//! A block is lost if it is in use, if the log has a newer image of it, or if a file that was
//! deleted later mapped it. That counts for nodes of maps as well, unless the log has the node.
//!
//! Invariant: each block is looked up in its bitmap once: what a file was asked about is claimed,
//! and lost for those that were deleted before.

use super::history::{History, Past};
use super::versions::Version;
use crate::content::{Content, RUN_BYTES};
use crate::fast::FastBlocks;
use crate::inodes::bit;
use crate::map::{NodeSource, Nodes, Trust, nodes_max};
use crate::{Memory, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{BlockNr, FileType, GroupNr, InodeFlags, LogicalBlock};
use uext4_num::{clamp_u16, clamp_u32, u64_of};

/// The blocks that later files were asked about, and a bitmap.
pub(crate) struct Claims<'c, 'h> {
    history: &'c History<'h>,
    fast: FastBlocks,
    memory: &'c Memory,
    /// End of each run, by its start.
    claimed: BTreeMap<u64, u64>,
    bitmap: RefCell<(Option<GroupNr>, Option<Vec<u8>>)>,
    nodes_left: u64,
}

/// The nodes of a deleted file that are left, and those that were found.
struct LeftNodes<'l, 'c, 'h> {
    claims: &'l Claims<'c, 'h>,
    version: &'l Version,
    found: RefCell<Vec<u64>>,
}

impl NodeSource for LeftNodes<'_, '_, '_> {
    fn node(&self, block: u64, test: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let history = self.claims.history;
        let logged = history.logged_up_to(block, self.version.order, test);
        let node = logged.or_else(|| {
            let here = self.claims.is_left_and_unclaimed(self.version, block);
            let bytes = history.image.block(block).filter(|_| here)?;
            test(&bytes).then_some(bytes)
        })?;
        self.found.borrow_mut().push(block);
        Some(node)
    }
}

impl<'c, 'h> Claims<'c, 'h> {
    pub(crate) fn new(history: &'c History<'h>, fast: FastBlocks, memory: &'c Memory) -> Self {
        Self {
            history,
            fast,
            memory,
            claimed: BTreeMap::new(),
            bitmap: RefCell::new((None, None)),
            nodes_left: nodes_max(history.image.geometry()),
        }
    }

    /// The content of a deleted file, as far as it is left.
    pub(crate) fn content(&mut self, version: &Version) -> Result<Content> {
        let geometry = *self.history.image.geometry();
        let inode = &version.inode;
        let mut content = Content {
            size: inode.size,
            block_size: geometry.block_size().into(),
            ..Content::default()
        };
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            content.inline = super::versions::inline_content(inode);
            if content.inline.is_none() {
                content.add_lost(0..u64::MAX, self.memory)?;
            }
            return Ok(content);
        }
        let source = LeftNodes {
            claims: self,
            version,
            found: RefCell::default(),
        };
        let mut nodes = Nodes {
            source: &source,
            left: self.nodes_left,
        };
        let checksums = self.history.image.checksums();
        let seed = checksums.inode_seed(version.nr, inode.generation);
        let trust = Trust::Sealed(seed);
        let extents = content.extents(&geometry, inode, trust, &mut nodes, self.memory);
        let (left, nodes) = (nodes.left, source.found.into_inner());
        self.nodes_left = left;
        let extents = extents?;
        for extent in &extents {
            self.add(version, *extent, &mut content)?;
        }
        for node in nodes {
            self.claim(node..node.saturating_add(1))?;
        }
        content.put_in_order();
        Ok(content)
    }

    /// Adds what is left of an extent to the content.
    fn add(&mut self, version: &Version, extent: Extent, content: &mut Content) -> Result<()> {
        if extent.state == ExtentState::Unwritten {
            return content.add_run(extent, self.memory);
        }
        let run = extent.start.0..extent.physical_end();
        let mut next = run.start;
        for free in self.unclaimed(run.clone()) {
            self.lose(extent, next..free.start, content)?;
            next = free.end;
            self.add_unclaimed(version, extent, free, content)?;
        }
        self.lose(extent, next..run.end, content)?;
        self.claim(run)
    }

    /// As [`Self::add`], of blocks that no later file mapped.
    fn add_unclaimed(
        &mut self,
        version: &Version,
        extent: Extent,
        blocks: Range<u64>,
        content: &mut Content,
    ) -> Result<()> {
        let mut at = blocks.start;
        while at < blocks.end {
            let is_left = self.is_left(version, at);
            let mut end = at.saturating_add(1);
            while end < blocks.end && self.is_left(version, end) == is_left {
                end = end.saturating_add(1);
            }
            if is_left {
                let into = clamp_u32(at.saturating_sub(extent.start.0));
                let logical = LogicalBlock(extent.logical.0.saturating_add(into));
                let run = Extent {
                    logical,
                    start: BlockNr(at),
                    len: clamp_u16(end.saturating_sub(at)),
                    state: extent.state,
                };
                content.add_run(run, self.memory)?;
            } else {
                self.lose(extent, at..end, content)?;
            }
            at = end;
        }
        Ok(())
    }

    fn lose(&self, extent: Extent, blocks: Range<u64>, content: &mut Content) -> Result<()> {
        if blocks.start >= blocks.end {
            return Ok(());
        }
        let into = blocks.start.saturating_sub(extent.start.0);
        let start = u64::from(extent.logical.0).saturating_add(into);
        let len = blocks.end.saturating_sub(blocks.start);
        content.add_lost(start..start.saturating_add(len), self.memory)
    }

    /// Whether a block is free, and nothing was written there since, as far as the log knows.
    fn is_left(&self, version: &Version, block: u64) -> bool {
        if self.is_used(block) {
            return false;
        }
        // The log has the blocks of directories: their names are read from it.
        if version.inode.file_type() == Some(FileType::Directory) {
            return true;
        }
        let Some(newest) = self.history.of(block..block.saturating_add(1)).last() else {
            return true;
        };
        !self.is_newer(newest, version) && self.is_home(newest, version, block)
    }

    /// Whether a block is in use: by its bitmap, as far as that proves anything, or behind a replay
    /// of fast commits.
    fn is_used(&self, block: u64) -> bool {
        if self.fast.contains(block) {
            return true;
        }
        let image = self.history.image;
        let (group, cluster) = image.geometry().split_block_to_cluster(BlockNr(block));
        let mut bitmap = self.bitmap.borrow_mut();
        if bitmap.0 != Some(group) {
            *bitmap = (Some(group), image.block_bitmap(group));
        }
        let bits = bitmap.1.as_deref();
        bits.is_none_or(|bits| bit(bits, cluster))
    }

    /// Whether an image may be of a later time than the deletion.
    fn is_newer(&self, past: &Past, version: &Version) -> bool {
        let order = version.order.map(|order| past.order > order);
        order.unwrap_or_else(|| {
            let era = self.history.era(past.order);
            let committed = era.and_then(|era| era.committed);
            let times = version.deleted.zip(committed);
            times.is_none_or(|(deleted, committed)| committed >= deleted)
        })
    }

    /// Whether a block has the content that the file had. Data that are journalled may never have
    /// been written home: the deletion revokes their image. An image that was revoked before is of
    /// something else, and the data were written home.
    fn is_home(&self, newest: &Past, version: &Version, block: u64) -> bool {
        let last = version.order.unwrap_or(u32::MAX);
        if self.history.is_revoked(block, newest.order..=last) {
            return true;
        }
        let logged = self.history.bytes(newest);
        logged.is_some() && logged == self.history.image.block(block)
    }

    fn is_left_and_unclaimed(&self, version: &Version, block: u64) -> bool {
        let run = block..block.saturating_add(1);
        !self.unclaimed(run).is_empty() && self.is_left(version, block)
    }

    /// The parts of a run that are not claimed.
    fn unclaimed(&self, run: Range<u64>) -> Vec<Range<u64>> {
        let mut free = Vec::new();
        let before = self.claimed.range(..run.start).next_back();
        let mut next = before.map_or(run.start, |(_, end)| run.start.max(*end));
        for (start, end) in self.claimed.range(run.start..run.end) {
            if *start > next {
                free.push(next..*start);
            }
            next = next.max(*end);
        }
        if next < run.end {
            free.push(next..run.end);
        }
        free
    }

    fn claim(&mut self, run: Range<u64>) -> Result<()> {
        let mut run = run;
        let before = self.claimed.range(..run.start).next_back();
        if let Some((start, end)) = before.filter(|(_, end)| **end >= run.start) {
            run = *start..run.end.max(*end);
        }
        let inside: Vec<(u64, u64)> = self
            .claimed
            .range(run.start..=run.end)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in &inside {
            self.claimed.remove(start);
            run.end = run.end.max(*end);
        }
        self.memory
            .give_back(u64_of(inside.len()).saturating_mul(RUN_BYTES));
        self.memory.take(RUN_BYTES)?;
        self.claimed.insert(run.start, run.end);
        Ok(())
    }
}
