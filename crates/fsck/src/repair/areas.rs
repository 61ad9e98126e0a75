//! The repair of each area, and what a patch becomes.

use super::commit::Changes;
use super::patch::Patch;
use crate::problems::{Area, Task};
use crate::report::Finding;
use crate::state::Step;
use std::collections::BTreeMap;
use uext4_format::{GroupNr, InodeNr};
use uext4_num::low_u32;

/// Whether a repair was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Repaired,
    /// Nothing that is left says how.
    Impossible,
}

impl Patch<'_, '_> {
    /// Makes the repairs of one area. Names for inodes that have none, and places for metadata, are
    /// found together.
    pub(super) fn repair_all(
        &mut self,
        area: Area,
        tasks: &BTreeMap<Task, Vec<Finding>>,
    ) -> Step<Vec<Outcome>> {
        if area == Area::Connection {
            let numbers: Vec<_> = tasks.keys().map(|task| InodeNr(low_u32(task.nr))).collect();
            return self.connect(&numbers);
        }
        if area == Area::Descriptor {
            return self.repair_descriptors(tasks);
        }
        let repairs = tasks.iter();
        repairs
            .map(|(task, findings)| self.repair(*task, findings))
            .collect()
    }

    /// Makes the repair of these problems.
    fn repair(&mut self, task: Task, findings: &[Finding]) -> Step<Outcome> {
        let nr = low_u32(task.nr);
        match task.area {
            Area::Superblock => self.repair_superblock(findings),
            Area::Log => self.repair_log(findings),
            Area::Mmp => self.repair_mmp(findings),
            Area::OrphanFile => self.repair_orphan_file(findings),
            Area::Inode => self.repair_inode(InodeNr(nr), findings),
            Area::Map => self.repair_map(InodeNr(nr), findings),
            Area::ResizeInode => self.repair_resize_inode(findings),
            Area::Attributes => self.repair_attributes(findings),
            Area::ReservedInode => self.repair_reserved(InodeNr(nr), findings),
            Area::OwnInode => self.repair_own_inode(InodeNr(nr), findings),
            Area::SizeAndBlocks => self.repair_sizes(InodeNr(nr), findings),
            Area::InodeBitmap => self.repair_inode_bitmap(GroupNr(nr)),
            Area::Directory => self.repair_directory(InodeNr(nr), findings),
            Area::Links => self.repair_links(InodeNr(nr), findings),
            Area::BlockBitmap => self.repair_block_bitmap(GroupNr(nr)),
            Area::Quota => self.repair_quota(InodeNr(nr)),
            _ => Ok(Outcome::Impossible),
        }
    }

    pub(super) fn into_changes(self) -> Changes {
        Changes {
            blocks: self.blocks,
            superblock: self.superblock,
            log: self.check.log.clone(),
        }
    }
}
