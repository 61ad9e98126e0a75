//! Usage of space and inodes by owners, for quota files.

use std::collections::BTreeMap;

use uext4_format::Inode;
use uext4_format::quota::{QuotaEntry, QuotaKind};

use crate::error::Result;
use crate::layout::identity::Identity;
use crate::metadata::attribute_blocks::AttributeBlocks;
use crate::metadata::extent_maps::DeepMaps;
use crate::metadata::inodes;
use crate::tree::arena::Tree;
use crate::tree::order::Sorted;

/// Usage per kind of owner, by number.
#[derive(Default)]
pub(crate) struct Usage {
    users: BTreeMap<u32, QuotaEntry>,
    groups: BTreeMap<u32, QuotaEntry>,
    projects: BTreeMap<u32, QuotaEntry>,
}

impl Usage {
    /// Counts all files of the tree. A shared attribute block counts for each file that has it.
    pub(crate) fn count(
        tree: &Tree,
        sorted: &Sorted,
        identity: &Identity,
        mut blocks: AttributeBlocks,
        maps: &DeepMaps,
    ) -> Result<Usage> {
        let mut usage = Usage::default();
        for id in &sorted.order {
            let block = blocks.next(tree, *id);
            let inode = inodes::inode(tree, *id, identity, maps, block)?;
            usage.add(&inode, inode.sectors(&identity.geometry) * 512);
        }
        Ok(usage)
    }

    fn add(&mut self, inode: &Inode, bytes: u64) {
        for (entries, id) in [
            (&mut self.users, inode.uid),
            (&mut self.groups, inode.gid),
            (&mut self.projects, inode.projid),
        ] {
            let entry = entries.entry(id).or_insert_with(|| QuotaEntry {
                id,
                ..QuotaEntry::default()
            });
            entry.inodes += 1;
            entry.space_bytes += bytes;
        }
    }

    /// The entries of one kind, by number.
    pub(crate) fn of(&self, kind: QuotaKind) -> Vec<QuotaEntry> {
        let entries = match kind {
            QuotaKind::User => &self.users,
            QuotaKind::Group => &self.groups,
            QuotaKind::Project => &self.projects,
        };
        entries.values().copied().collect()
    }
}
