//! Selects the allocator and its search limits, from the mount options and the disk.

use super::Space;
use crate::types::options::{Allocator, MountOptions};
use uext4_alloc::{BuddyEngine, Config, Engine, ScanOrder, Summary, TreeEngine};
use uext4_alloc::{Tunables, Volume};
use uext4_device::BlockDevice;
use uext4_format::{Geometry, GroupNr};
use uext4_sync::atomic::Ordering;

/// `mb_max_linear_groups` of rotational disks.
const ROTATING_LINEAR_GROUPS: u32 = 4;

impl Space {
    /// Applies changed options for searches and freed space. For unchanged options, values set
    /// since then stay.
    pub(crate) fn set_options(&self, before: &MountOptions, options: &MountOptions) {
        let tunables = self.engine.tunables();
        if options.stripe_blocks != before.stripe_blocks {
            let stripe = stripe_clusters(self.geometry(), options);
            tunables.stripe.store(stripe, Ordering::Relaxed);
        }
        if options.cache_aggression != before.cache_aggression {
            let aggression = options.cache_aggression.into();
            tunables
                .cache_aggression
                .store(aggression, Ordering::Relaxed);
        }
        if options.freespace_memory_bytes != before.freespace_memory_bytes {
            let bytes = options.freespace_memory_bytes;
            tunables
                .freespace_memory_bytes
                .store(bytes, Ordering::Relaxed);
        }
        self.discard.store(options.discard, Ordering::Relaxed);
    }
}

/// The engine that the options select, with their limits.
pub(super) fn engine(
    config: Config,
    options: &MountOptions,
    summary: &dyn Fn(GroupNr) -> Summary,
) -> Box<dyn Engine> {
    let order = match options.allocator {
        Allocator::Linear => ScanOrder::Linear,
        Allocator::Optimized => ScanOrder::Optimized,
        Allocator::FreespaceTree => return Box::new(TreeEngine::new(config, summary)),
    };
    let engine = BuddyEngine::new(config, order, summary);
    #[cfg(feature = "experiments")]
    let engine = engine.with_base_lines(options.base_lines().of_buddies());
    Box::new(engine)
}

/// The stripe of the options in clusters; 0 if it is longer than a group or not whole clusters.
pub(super) fn stripe_clusters(geometry: &Geometry, options: &MountOptions) -> u32 {
    let per_cluster = geometry.blocks_per_cluster();
    let is_whole = options.stripe_blocks.is_multiple_of(per_cluster);
    let clusters = options.stripe_blocks / per_cluster;
    let fits = clusters <= geometry.clusters_per_group;
    if is_whole && fits { clusters } else { 0 }
}

/// As in ext4: a rotational disk scans nearby groups first, and the bitmaps of eight flexible
/// groups are prefetched at once.
pub(super) fn suit_disk(tunables: &Tunables, volume: &Volume, device: &dyn BlockDevice) {
    if device.is_rotational() {
        let groups = ROTATING_LINEAR_GROUPS;
        tunables.max_linear_groups.store(groups, Ordering::Relaxed);
    }
    if volume.groups_per_flex > 1 {
        let groups = volume.groups_per_flex.saturating_mul(8);
        tunables.prefetch.store(groups, Ordering::Relaxed);
    }
    let groups = tunables.prefetch.load(Ordering::Relaxed).min(volume.groups);
    let limit = groups.saturating_mul(4).min(volume.groups);
    tunables.prefetch.store(groups, Ordering::Relaxed);
    tunables.prefetch_limit.store(limit, Ordering::Relaxed);
}

pub(super) fn set_limits(tunables: &Tunables, stripe: u32, options: &MountOptions) {
    tunables.stripe.store(stripe, Ordering::Relaxed);
    tunables
        .cache_aggression
        .store(options.cache_aggression.into(), Ordering::Relaxed);
    let memory = options.freespace_memory_bytes;
    tunables
        .freespace_memory_bytes
        .store(memory, Ordering::Relaxed);
    if options.base_lines().cold_groups && !options.prefetch_bitmaps {
        tunables.prefetch.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::WriteContext;
    use crate::ops::filesystem::Filesystem;
    use crate::state::space::loaders::LookLoader;
    use crate::types::attr::Caller;
    use crate::types::base_lines::BaseLines;
    use crate::types::options::{Allocator, MountOptions};
    use std::sync::Arc;
    use uext4_alloc::{Engine, Stat};
    use uext4_device::MemDevice;
    use uext4_sync::atomic::Ordering;
    use uext4_testkit::oracle;

    fn image() -> Vec<u8> {
        let (_scratch, image) = oracle::mke2fs_image(16 << 20, &[]).expect("mke2fs");
        std::fs::read(image).expect("the image")
    }

    /// Mounts with `options`, writes, runs `look` on the engine, unmounts; returns the image.
    fn write_with(bytes: &[u8], options: &str, look: impl FnOnce(&dyn Engine)) -> Vec<u8> {
        let device = Arc::new(MemDevice::from_bytes(bytes));
        let options = MountOptions::default().parse(options).expect("options");
        let mounted = Filesystem::mount(device.clone(), options).expect("mounts");
        let root = mounted.root().expect("the root");
        let file = mounted
            .create(&root, b"file", 0o644, &Caller::root())
            .expect("a file");
        mounted
            .write(&file, 0, &[7; 300_000], &WriteContext::ROOT)
            .expect("data");
        mounted.fsync(&file).expect("durable");
        look(&*mounted.fs.space.engine);
        drop((root, file));
        mounted.unmount().expect("unmounts");
        device.to_bytes()
    }

    #[test]
    fn every_allocator_serves_writes_and_leaves_a_clean_image() {
        let bytes = image();
        for name in ["linear", "optimized", "freespace-tree"] {
            let after = write_with(&bytes, &format!("allocator={name}"), |engine| {
                assert_eq!(engine.name(), name);
                assert!(
                    engine.stats().get(Stat::Success) > 0,
                    "{name} handed nothing out"
                );
            });
            let scratch = oracle::scratch_dir().expect("a scratch directory");
            let path = scratch.path().join("image.img");
            std::fs::write(&path, after).expect("the image");
            oracle::assert_clean(&path);
        }
    }

    #[test]
    fn limits_of_the_options_reach_the_engine() {
        let options = "freespace_tree,frsp_cache_aggression=3,freespace_memory=65536,stripe=16";
        write_with(&image(), options, |engine| {
            let tunables = engine.tunables();
            assert_eq!(tunables.cache_aggression.load(Ordering::Relaxed), 3);
            assert_eq!(
                tunables.freespace_memory_bytes.load(Ordering::Relaxed),
                65536
            );
            assert_eq!(tunables.stripe.load(Ordering::Relaxed), 16);
        });
    }

    #[test]
    fn without_summaries_no_group_is_surveyed() {
        for cold_groups in [false, true] {
            let options = MountOptions {
                allocator: Allocator::Linear,
                prefetch_bitmaps: false,
                base_lines: BaseLines {
                    cold_groups,
                    ..BaseLines::default()
                },
                ..MountOptions::default()
            };
            let device = Arc::new(MemDevice::from_bytes(&image()));
            let mounted = Filesystem::mount(device, options).expect("mounts");
            let space = &*mounted.fs.space;
            space.engine.learn(&LookLoader { space }, &|| true);
            assert_eq!(space.engine.unknown_regions() > 0, cold_groups);
            let ahead = space.engine.tunables().prefetch.load(Ordering::Relaxed);
            assert_eq!(ahead == 0, cold_groups);
            mounted.unmount().expect("unmounts");
        }
    }

    #[test]
    fn the_superblock_says_how_wide_a_stripe_is_unless_the_options_do() {
        for (extended, options, stripe) in [
            ("stride=4,stripe_width=12", "", 12),
            ("stride=4", "", 4),
            ("stride=4,stripe_width=12", "stripe=8", 8),
            ("stripe_width=12", "stripe=1000000", 12),
        ] {
            let shape = ["-E", extended];
            let (_scratch, image) = oracle::mke2fs_image(16 << 20, &shape).expect("mke2fs");
            let bytes = std::fs::read(image).expect("the image");
            write_with(&bytes, options, |engine| {
                let found = engine.tunables().stripe.load(Ordering::Relaxed);
                assert_eq!(found, stripe, "{extended} {options}");
            });
        }
    }
}
