//! Builds the space of a file system at mount, from its descriptors.

use super::allocator::{engine, set_limits, stripe_clusters, suit_disk};
use super::descriptors::{DescriptorTable, Survey, inode_summary, summary};
use super::layout::GroupLayout;
use super::preallocation::Preallocations;
use super::shaping::Shaping;
use super::{Claims, Space};
use crate::options::Threads;
use crate::{MountOptions, Result};
use uext4_alloc::{Affinity, Config, InodePolicy, InodeRuns, Volume};
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Feature, Geometry, GroupNr, Superblock};
use uext4_sync::{Arc, OnceLock};

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
            geometry: *geometry,
            checksums,
        });
        let survey = Survey::of(&raw, geometry);
        let affinity = match options.threads {
            Threads::Background => Affinity::PerThread,
            Threads::Inline => Affinity::None,
        };
        let of_inodes = match options.base_lines.racing_inodes {
            true => Affinity::None,
            false => affinity,
        };
        let volume = volume(geometry);
        let inodes = geometry.inodes_per_group;
        let policy = InodePolicy::new(volume.clone(), inodes, of_inodes, &|nr| {
            inode_summary(&raw, geometry, nr)
        });
        let config = Config { volume, affinity };
        let engine = engine(config, options, &|nr| summary(&raw, geometry, nr));
        let stripe = stripe_clusters(geometry, options);
        suit_disk(engine.tunables(), engine.volume(), &**device);
        set_limits(engine.tunables(), stripe, options);
        let clusters = geometry.clusters_count();
        let reserved = superblock.r_blocks_count >> geometry.cluster_bits;
        let claims = Claims::new(
            survey.free_clusters,
            if geometry.features.has(Feature::EXTENTS) {
                clusters
            } else {
                0
            },
            reserved,
            geometry.cluster_bits,
        );
        let overhead = u64::from(superblock.overhead_clusters) << geometry.cluster_bits;
        Ok(Arc::new(Self {
            groups: (0..geometry.group_count).map(|_| OnceLock::new()).collect(),
            device: device.clone(),
            engine,
            policy,
            runs: (!options.base_lines.racing_inodes).then(|| InodeRuns::new(affinity)),
            claims,
            overhead_blocks: if overhead == 0 {
                survey.zones.total()
            } else {
                overhead
            },
            zones: survey.zones,
            journal_zones: OnceLock::new(),
            discard: options.discard.into(),
            returns: Default::default(),
            early_commits: Default::default(),
            learners: super::learn::Learners::new(),
            incidents: OnceLock::new(),
            preallocations: Preallocations::new(),
            shaping: Shaping::new(geometry.cluster_bits, stripe),
            layout,
            raw,
        }))
    }
}

fn volume(geometry: &Geometry) -> Volume {
    let last = GroupNr(geometry.group_count - 1);
    Volume {
        groups: geometry.group_count,
        clusters_per_group: geometry.clusters_per_group,
        clusters_in_last_group: geometry.clusters_in_group(last),
        first_block: BlockNr(geometry.first_data_block.into()),
        cluster_bits: geometry.cluster_bits,
        groups_per_flex: geometry.groups_per_flex(),
    }
}
