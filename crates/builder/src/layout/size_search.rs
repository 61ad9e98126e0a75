//! The size of the image: whether the tree fits into a number of blocks, and the smallest such
//! number.
//!
//! The layout behind the contents depends on the number of groups, and on the journal's length,
//! which grows with the size. Within one number of groups the end of the layout therefore only
//! grows with the size, so that "size := end of the layout of this size" stops at the smallest size
//! that works. The search tries the numbers of groups in ascending order.

use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{BlockNr, Feature, GroupNr, InodeNr};
use uext4_mkfs::{
    Contents, Draft, Error as FormatError, InodeCount, JournalSize, MkfsOptions, Plan,
};
use uext4_num::clamp_u32;

use crate::error::{Error, Result};
use crate::layout::bump::cluster_end;
use crate::layout::identity::Identity;
use crate::layout::size_plan::refused;
use crate::options::{Size, Tables};

/// What the tree needs of the file system.
pub(crate) struct Needs<'a> {
    pub(crate) size: Size,
    pub(crate) tables: Tables,
    pub(crate) options: &'a MkfsOptions,
    pub(crate) identity: &'a Identity,
    /// Runs of blocks in use: start and end, ascending.
    pub(crate) used: &'a [(u64, u64)],
    /// The last inode in use.
    pub(crate) last: InodeNr,
    pub(crate) contents: &'a Contents,
    pub(crate) usages: &'a dyn Fn(QuotaKind) -> Vec<QuotaEntry>,
}

enum Try {
    Fits(Box<Draft>),
    /// The layout ends at this block, if the last group is long enough for it.
    Ends(u64),
    TooFewGroups,
}

impl Needs<'_> {
    /// The file system, with everything placed.
    pub(crate) fn draft(&self) -> Result<Draft> {
        let bits = self.identity.geometry.block_bits;
        match self.size {
            Size::Bytes(bytes) => {
                let blocks = bytes >> bits;
                match self.attempt(blocks, 0)? {
                    Try::Fits(draft) => Ok(*draft),
                    Try::Ends(end) => Err(Error::NoSpace {
                        blocks,
                        needed_bytes: end << bits,
                    }),
                    Try::TooFewGroups => Err(Error::Full { blocks }),
                }
            }
            Size::Min => self.smallest(0, 0),
            Size::MinPlusPercent(percent) => {
                let smallest = self.smallest(0, 0)?.geometry.blocks_count;
                let more = smallest * u64::from(percent) / 100;
                let size = smallest + more;
                let spare = uext4_mkfs::usual_inodes(self.options, size << bits, more << bits);
                self.smallest(size, clamp_u32(spare))
            }
        }
    }

    /// The smallest file system of at least this many blocks, with at least `spare` inodes more
    /// than the tree needs.
    fn smallest(&self, at_least: u64, spare: u32) -> Result<Draft> {
        let limit = self.identity.geometry.blocks_count.max(at_least);
        let mut blocks = at_least.max(self.lower_bound());
        while blocks <= limit {
            blocks = self.valid(blocks);
            match self.attempt(blocks, spare)? {
                Try::Fits(draft) => return Ok(*draft),
                Try::Ends(end) if end <= self.whole_groups(blocks) => blocks = end.max(blocks + 1),
                Try::Ends(_) | Try::TooFewGroups => blocks = self.whole_groups(blocks) + 1,
            }
        }
        Err(Error::Full { blocks: limit })
    }

    /// No smaller file system holds the runs, the inodes and a journal of the given length.
    fn lower_bound(&self) -> u64 {
        let geometry = &self.identity.geometry;
        let runs = self.used.last().map_or(0, |(_, end)| *end);
        let per_block = geometry.inodes_per_block();
        let per_group = (geometry.block_size() * 8).min((1 << 16) - per_block);
        let groups = self.inodes().div_ceil(per_group).max(1);
        let before = u64::from(groups - 1) * u64::from(geometry.blocks_per_group);
        let journal = match self.options.journal {
            _ if !self.options.features.has(Feature::HAS_JOURNAL) => 0,
            JournalSize::Auto => 0,
            JournalSize::Mib(mib) => (u64::from(mib) << 21) >> geometry.block_bits,
            JournalSize::Blocks(blocks) => u64::from(blocks) * 2,
        };
        runs.max(before + u64::from(geometry.first_data_block) + 1)
            .max(journal)
    }

    /// Inodes in use, with those that the file system adds behind the tree's.
    fn inodes(&self) -> u32 {
        let features = self.options.features;
        let quota = features.has(Feature::QUOTA) && features.has(Feature::PROJECT);
        let orphans = features.has(Feature::ORPHAN_FILE);
        self.last.0 + u32::from(quota) + u32::from(orphans)
    }

    /// The next size of whole clusters whose last group holds its fixed blocks.
    fn valid(&self, blocks: u64) -> u64 {
        let mut geometry = self.identity.geometry;
        let group = geometry.group_of_block(BlockNr(blocks.saturating_sub(1)));
        if !geometry.features.has(Feature::RESIZE_INODE) {
            // No blocks are reserved in place of the descriptors that fewer groups do not have.
            geometry.group_count = group.0 + 1;
        }
        let first = geometry.group_first_block(group).0;
        let fixed = first + u64::from(geometry.base_metadata_blocks(group));
        cluster_end(&geometry, blocks.max(fixed))
    }

    /// The end of the last group of a size.
    fn whole_groups(&self, blocks: u64) -> u64 {
        let geometry = &self.identity.geometry;
        let group = geometry.group_of_block(BlockNr(blocks.saturating_sub(1)));
        let next = GroupNr(group.0 + 1);
        geometry.group_first_block(next).0
    }

    fn attempt(&self, blocks: u64, spare: u32) -> Result<Try> {
        let Some((plan, options)) = self.plan(blocks, spare)? else {
            return Ok(Try::TooFewGroups);
        };
        let whole = self.lay_out(Draft::new(plan.clone(), &options)?.with_whole_groups());
        let Some(end) = unless_full(whole)?.map(|draft| draft.end().0) else {
            return Ok(Try::TooFewGroups);
        };
        if end > plan.superblock.blocks_count {
            return Ok(Try::Ends(end));
        }
        let draft = unless_full(self.lay_out(Draft::new(plan, &options)?))?;
        Ok(draft.map_or(Try::Ends(end), |draft| Try::Fits(Box::new(draft))))
    }

    /// The numbers of a size with enough inodes; `None` if its groups are too few for them.
    fn plan(&self, blocks: u64, spare: u32) -> Result<Option<(Plan, MkfsOptions)>> {
        let geometry = &self.identity.geometry;
        let mut options = self.options.clone();
        options.blocks_count = Some(blocks);
        let needed = self.inodes();
        let fixed = matches!(self.size, Size::Bytes(_));
        if !fixed && options.inodes == InodeCount::Usage {
            options.inodes = InodeCount::AtLeast(needed.saturating_add(spare));
        }
        let bytes = blocks << geometry.block_bits;
        let mut plan = uext4_mkfs::plan(&options, bytes);
        let has = plan.as_ref().map(|plan| plan.superblock.inodes_count);
        if let Ok(has) = has
            && has < needed
        {
            if self.tables == Tables::Front {
                return Err(refused(
                    format!("the tree needs {needed} inodes, and the image has {has}"),
                    "give the number of inodes",
                ));
            }
            // Inodes of a group are rounded down to a byte of its bitmap.
            let groups = geometry.group_of_block(BlockNr(blocks - 1)).0 + 1;
            for count in [needed, needed.saturating_add(7 * groups)] {
                options.inodes = InodeCount::AtLeast(count);
                plan = uext4_mkfs::plan(&options, bytes);
                let made = plan.as_ref();
                if made.is_ok_and(|plan| plan.superblock.inodes_count >= needed) {
                    break;
                }
            }
        }
        let mut plan = match plan {
            Err(FormatError::TooManyInodes | FormatError::TooSmall) => return Ok(None),
            plan => plan?,
        };
        let made = &plan.superblock;
        let same_groups = made.blocks_per_group == geometry.blocks_per_group;
        if !same_groups || made.inodes_count < needed {
            return Ok(None);
        }
        let identity = self.identity;
        plan.identify(&options, identity.uuid, identity.hash_seed, identity.time)?;
        Ok(Some((plan, options)))
    }

    fn lay_out(&self, mut draft: Draft) -> std::result::Result<Draft, FormatError> {
        if self.tables == Tables::Front {
            draft.allocate_group_metadata()?;
        }
        for (start, end) in self.used {
            if *end > draft.space_blocks() {
                return Err(FormatError::NoSpace("contents"));
            }
            draft.occupy(BlockNr(*start), BlockNr(*end));
        }
        if self.tables == Tables::Behind {
            draft.allocate_group_metadata()?;
        }
        draft.add_hidden_files(InodeNr(self.last.0 + 1), self.usages)?;
        draft.use_inodes(self.contents.clone());
        Ok(draft)
    }
}

/// The draft; `None` if it does not fit.
fn unless_full(draft: std::result::Result<Draft, FormatError>) -> Result<Option<Draft>> {
    match draft {
        Ok(draft) => Ok(Some(draft)),
        Err(FormatError::NoSpace(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
