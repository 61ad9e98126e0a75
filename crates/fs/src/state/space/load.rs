//! Builds the space of a file system at mount, from its descriptors.

use super::allocator::{engine, set_limits, stripe_clusters, suit_disk};
use super::claims::Reserves;
use super::descriptors::{inode_summary, summary};
use super::layout::GroupLayout;
use super::preallocation::Preallocations;
use super::shaping::Shaping;
use super::{Claims, Space};
use crate::types::error::Result;
use crate::types::options::{MountOptions, Threads};
use uext4_alloc::{Affinity, Config, InodePolicy, InodeRuns, Volume};
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Geometry, GroupNr, Superblock};
use uext4_num::clamp_u32;
use uext4_sync::{Arc, Latest, OnceLock};
use uext4_volume::{DescriptorTable, Survey, Zones};

/// Without a limit in the options, a file system may grow to this multiple of its groups, and by so
/// many: a group costs three quarters of a KiB.
const GROWTH: u32 = 16;
const GROUPS_MORE: u32 = 4096;

impl Space {
    /// Reads all descriptors and builds the allocator. Bitmaps are read on first use.
    pub(crate) fn load(
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
        geometry: &Geometry,
        options: &MountOptions,
    ) -> Result<Arc<Self>> {
        let raw = DescriptorTable::read(&**device, geometry)?;
        let checksums = superblock.checksums();
        let layout = Arc::new(GroupLayout {
            geometry: Latest::new(*geometry),
            checksums,
        });
        let survey = Survey::of(&raw, geometry);
        let affinity = match options.threads {
            Threads::Background => Affinity::PerThread,
            Threads::Inline => Affinity::None,
        };
        let races = options.base_lines().racing_inodes;
        let of_inodes = if races { Affinity::None } else { affinity };
        let volume = volume(geometry, groups_max(geometry, options));
        let inodes = geometry.inodes_per_group;
        let policy = InodePolicy::new(volume.clone(), inodes, of_inodes, &|nr| {
            inode_summary(&raw, geometry, nr)
        });
        let config = Config { volume, affinity };
        let engine = engine(config, options, &|nr| summary(&raw, geometry, nr));
        let stripe = stripe_clusters(geometry, options);
        suit_disk(engine.tunables(), engine.volume(), &**device);
        set_limits(engine.tunables(), stripe, options);
        let claims = Claims::new(
            survey.free_clusters,
            Reserves::of(superblock, geometry),
            geometry.cluster_bits,
        );
        let overhead = overhead_blocks(superblock, geometry, &survey.zones);
        let groups_max = engine.volume().groups_max;
        let groups = (0..groups_max).map(|_| OnceLock::new()).collect();
        Ok(Arc::new(Self {
            groups,
            device: device.clone(),
            engine,
            policy,
            runs: (!races).then(|| InodeRuns::new(affinity)),
            claims,
            overhead_blocks: overhead.into(),
            zones: Latest::new(survey.zones),
            journal_zones: OnceLock::new(),
            discard: options.discard.into(),
            returns: Default::default(),
            early_commits: Default::default(),
            learners: super::learn::Learners::new(),
            incidents: OnceLock::new(),
            preallocations: Preallocations::new(),
            shaping: Shaping::new(geometry.cluster_bits, stripe),
            layout,
            raw: Latest::new(raw),
        }))
    }
}

/// Blocks that never hold data, by the superblock or else by the zones.
pub(super) fn overhead_blocks(disk: &Superblock, geometry: &Geometry, zones: &Zones) -> u64 {
    match u64::from(disk.overhead_clusters) << geometry.cluster_bits {
        0 => zones.total(),
        blocks => blocks,
    }
}

/// Groups up to which the file system may grow while mounted.
fn groups_max(geometry: &Geometry, options: &MountOptions) -> u32 {
    let now = geometry.group_count;
    let wanted = match options.growth_limit_bytes {
        None => now
            .saturating_mul(GROWTH)
            .min(now.saturating_add(GROUPS_MORE)),
        Some(bytes) => {
            let blocks = bytes >> geometry.block_bits;
            let blocks = blocks.saturating_sub(geometry.first_data_block.into());
            clamp_u32(blocks.div_ceil(geometry.blocks_per_group.into()))
        }
    };
    wanted.clamp(now, u32::MAX / geometry.inodes_per_group)
}

pub(super) fn volume(geometry: &Geometry, groups_max: u32) -> Volume {
    let last = GroupNr(geometry.group_count - 1);
    Volume {
        groups: geometry.group_count,
        groups_max,
        clusters_per_group: geometry.clusters_per_group,
        clusters_in_last_group: geometry.clusters_in_group(last),
        first_block: BlockNr(geometry.first_data_block.into()),
        cluster_bits: geometry.cluster_bits,
        groups_per_flex: geometry.groups_per_flex(),
    }
}
