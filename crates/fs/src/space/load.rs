//! Reading descriptors at mount and bitmaps on first need.
//!
//! Descriptors are kept as bytes and parsed per group on first use, so that a mount of half a
//! million groups costs one sequential read. What every descriptor says of places goes into the
//! zones at once.

use super::group::{BlockState, Group, InodeState};
use super::layout::GroupLayout;
use super::preallocation::Preallocations;
use super::shaping::Shaping;
use super::zones::{self, Zones};
use super::{Claims, Space};
use crate::options::{Allocator, Threads};
use crate::{Error, Fs, MountOptions, Result};
use std::ops::Range;
use std::sync::Arc;
use uext4_alloc::{
    Affinity, Bitmap, BuddyEngine, Config, Engine, InodeBits, InodePolicy, InodeRuns, InodeSummary,
    LoadError, Loader, ScanOrder, Stat, Summary, TreeEngine, Trust, Tunables, Volume,
};
use uext4_device::BlockDevice;
use uext4_format::{
    BlockNr, Corrupt, Feature, Geometry, GroupDescriptor, GroupNr, Place, Superblock, group_flag,
};
use uext4_journal::Object;
use uext4_sync::OnceLock;
use uext4_sync::atomic::Ordering;

/// `mb_max_linear_groups` of disks that turn.
const ROTATING_LINEAR_GROUPS: u32 = 4;

/// The descriptors as read at mount.
pub(super) struct DescriptorTable {
    bytes: Vec<u8>,
    desc_size: usize,
}

impl DescriptorTable {
    fn read(device: &dyn BlockDevice, geometry: &Geometry) -> Result<Self> {
        let block_size = geometry.block_size() as usize;
        let blocks = geometry.descriptor_blocks_count();
        let mut bytes = vec![0; blocks as usize * block_size];
        let mut first = 0;
        while first < blocks {
            let start = geometry.descriptor_block(first);
            let in_a_row =
                |len| geometry.descriptor_block(first + len).0 == start.0 + u64::from(len);
            let len = (1..blocks - first)
                .find(|&len| !in_a_row(len))
                .unwrap_or(blocks - first);
            let from = first as usize * block_size;
            let to = from + len as usize * block_size;
            device.read_at(start.0 * block_size as u64, &mut bytes[from..to])?;
            first += len;
        }
        Ok(Self {
            bytes,
            desc_size: geometry.desc_size.into(),
        })
    }

    fn slot(&self, nr: GroupNr) -> &[u8] {
        let at = nr.0 as usize * self.desc_size;
        self.bytes.get(at..at + self.desc_size).unwrap_or(&[])
    }

    pub(super) fn parse(&self, nr: GroupNr, layout: &GroupLayout) -> Result<GroupDescriptor> {
        Ok(GroupDescriptor::parse(
            self.slot(nr),
            nr,
            &layout.geometry,
            &layout.checksums,
        )?)
    }

    fn unverified(&self, nr: GroupNr) -> GroupDescriptor {
        GroupDescriptor::parse_unverified(self.slot(nr))
    }

    pub(super) fn inode_table(&self, nr: GroupNr) -> BlockNr {
        self.unverified(nr).inode_table
    }
}

impl Space {
    /// Takes over what the options say of searching for space, and of freed space. What they say
    /// as before stays as it was set since.
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

    /// Reads all descriptors and builds the allocator. Bitmaps are read when they are needed.
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
        let volume = volume(geometry);
        let inodes = geometry.inodes_per_group;
        let policy = InodePolicy::new(volume.clone(), inodes, affinity, &|nr| {
            inode_summary(&raw, geometry, nr)
        });
        let config = Config { volume, affinity };
        let engine = engine(config, options, &|nr| summary(&raw, geometry, nr));
        let stripe = stripe_clusters(geometry, options);
        set_limits(engine.tunables(), stripe, options);
        suit_disk(engine.tunables(), engine.volume(), &**device);
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
            runs: InodeRuns::new(affinity),
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
            hurry: Default::default(),
            learners: super::learn::Learners::new(),
            preallocations: Preallocations::new(),
            shaping: Shaping::new(geometry.cluster_bits, stripe),
            layout,
            raw,
        }))
    }

    /// Fills in the block bitmap of a half that is locked: from disk, or computed for a group that
    /// was never written to.
    pub(super) fn load_blocks(&self, fs: &Fs, nr: GroupNr, half: &mut BlockState) -> Result<()> {
        if half.used.is_some() {
            return Ok(());
        }
        let bits = self.geometry().clusters_in_group(nr);
        let used = if half.uninit {
            self.computed_bitmap(nr, bits)
        } else {
            let descriptor = half.descriptor();
            let bytes = fs.journal.read_block(descriptor.block_bitmap)?;
            self.engine.stats().count(Stat::BitmapsRead);
            descriptor.verify_block_bitmap(&bytes, nr, self.geometry(), &self.layout.checksums)?;
            let used = Bitmap::from_bytes(&bytes, bits);
            self.check_own_metadata(nr, &used)?;
            used
        };
        if used.count_clear() != half.free_clusters {
            let problem = "free count does not match the descriptor";
            return Err(Corrupt::new(Place::Group(nr), "block bitmap", problem).into());
        }
        half.used = Some(used);
        Ok(())
    }

    /// The inodes in use in a group: from disk, or none in a group that was never written to.
    pub(super) fn inode_bits<'a>(
        &self,
        fs: &Fs,
        nr: GroupNr,
        group: &'a Group,
    ) -> Result<&'a InodeBits> {
        let cell = &group.inodes.map.bits;
        if let Some(bits) = cell.get() {
            return Ok(bits);
        }
        let half = group.inodes.live().write_unlogged();
        if let Some(bits) = cell.get() {
            return Ok(bits);
        }
        let used = self.load_inodes(fs, nr, &half)?;
        Ok(cell.get_or_init(|| InodeBits::new(&used)))
    }

    fn load_inodes(&self, fs: &Fs, nr: GroupNr, half: &InodeState) -> Result<Bitmap> {
        let bits = self.geometry().inodes_per_group;
        let descriptor = half.descriptor();
        let used = if half.has_flag(group_flag::INODE_UNINIT) {
            Bitmap::new(bits)
        } else {
            let bytes = fs.journal.read_block(descriptor.inode_bitmap)?;
            descriptor.verify_inode_bitmap(&bytes, nr, self.geometry(), &self.layout.checksums)?;
            Bitmap::from_bytes(&bytes, bits)
        };
        if used.count_clear() != descriptor.free_inodes {
            let problem = "free count does not match the descriptor";
            return Err(Corrupt::new(Place::Group(nr), "inode bitmap", problem).into());
        }
        Ok(used)
    }

    /// The bitmap of a group that was never written to: metadata only.
    pub(super) fn computed_bitmap(&self, nr: GroupNr, bits: u32) -> Bitmap {
        let mut used = Bitmap::new(bits);
        for (from, to) in self.metadata_clusters(nr) {
            used.fill_range(from..to.min(bits));
        }
        used
    }

    /// Metadata of a group must be marked in its bitmap, or files would be given its blocks.
    pub(super) fn check_own_metadata(&self, nr: GroupNr, used: &Bitmap) -> Result<()> {
        let marked = |(from, to): (u32, u32)| used.is_set(from..to.min(used.len()));
        if self.metadata_clusters(nr).all(marked) {
            return Ok(());
        }
        let problem = "metadata of the group is marked free";
        Err(Corrupt::new(Place::Group(nr), "block bitmap", problem).into())
    }

    /// Clusters of the group that metadata stands in.
    fn metadata_clusters(&self, nr: GroupNr) -> impl Iterator<Item = (u32, u32)> + '_ {
        let geometry = self.geometry();
        let first = geometry.group_first_block(nr).0;
        let end = first + u64::from(geometry.blocks_in_group(nr));
        let bits = geometry.cluster_bits;
        self.zones.inside(first..end).map(move |range| {
            let from = (range.start - first) >> bits;
            let to = (range.end - first).div_ceil(1 << bits);
            (from as u32, to as u32)
        })
    }
}

/// Reads bitmaps for the allocator.
pub(super) struct BitmapLoader<'a> {
    pub(super) fs: &'a Fs,
    pub(super) space: &'a Space,
    pub(super) failed: std::cell::RefCell<Option<Error>>,
}

impl Loader for BitmapLoader<'_> {
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> std::result::Result<(), LoadError> {
        let mut load = || -> Result<()> {
            let group_ref: &Group = self.space.group(group)?;
            let mut half = group_ref.blocks.live().write_unlogged();
            self.space.load_blocks(self.fs, group, &mut half)?;
            used.copy_from(half.used.as_ref().expect("load_blocks fills the bitmap in"));
            Ok(())
        };
        load().map_err(|error| {
            *self.failed.borrow_mut() = Some(error);
            LoadError
        })
    }

    fn look(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, std::result::Result<&Bitmap, LoadError>),
    ) {
        self.space.look(groups, &mut |nr, seen| {
            let seen = seen.map_err(|error| {
                *self.failed.borrow_mut() = Some(error);
                LoadError
            });
            each(nr, seen);
        });
    }

    fn prefetch(&self, groups: Range<u32>) {
        self.space.read_ahead(groups);
    }

    fn count_differs(&self, _group: GroupNr, _expected: u32, _found: u32) -> Trust {
        Trust::Neither
    }
}

/// Shows bitmaps to whoever reads ahead, and keeps none. Errors are found again by the request
/// that they concern.
pub(super) struct LookLoader<'a> {
    pub(super) space: &'a Space,
}

impl Loader for LookLoader<'_> {
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> std::result::Result<(), LoadError> {
        let mut loaded = Err(LoadError);
        self.look(&[group], &mut |_, seen| {
            loaded = seen.map(|seen| used.copy_from(seen));
        });
        loaded
    }

    fn look(
        &self,
        groups: &[GroupNr],
        each: &mut dyn FnMut(GroupNr, std::result::Result<&Bitmap, LoadError>),
    ) {
        let show = &mut |nr, seen: Result<&_>| each(nr, seen.map_err(|_| LoadError));
        self.space.look(groups, show);
    }
}

/// Totals and places over all descriptors.
struct Survey {
    free_clusters: u64,
    zones: Zones,
}

impl Survey {
    fn of(raw: &DescriptorTable, geometry: &Geometry) -> Self {
        let mut free_clusters = 0;
        let mut ranges = Vec::with_capacity(geometry.group_count as usize * 4);
        for nr in (0..geometry.group_count).map(GroupNr) {
            let descriptor = raw.unverified(nr);
            let clusters = descriptor.free_clusters.min(geometry.clusters_in_group(nr));
            free_clusters += u64::from(clusters);
            ranges.extend(zones::of_group(geometry, nr, &descriptor));
        }
        Self {
            free_clusters,
            zones: Zones::new(ranges),
        }
    }
}

/// The engine that the options name, with the limits that they set.
fn engine(
    config: Config,
    options: &MountOptions,
    summary: &dyn Fn(GroupNr) -> Summary,
) -> Box<dyn Engine> {
    let order = match options.allocator {
        None => Some(ScanOrder::default_for(config.volume.groups)),
        Some(Allocator::Linear) => Some(ScanOrder::Linear),
        Some(Allocator::Optimized) => Some(ScanOrder::Optimized),
        Some(Allocator::FreespaceTree) => None,
    };
    match order {
        Some(order) => {
            let engine = BuddyEngine::new(config, order, summary);
            match options.base_lines.blocking_groups {
                true => Box::new(engine.with_blocking_locks()),
                false => Box::new(engine),
            }
        }
        None => Box::new(TreeEngine::new(config, summary)),
    }
}

/// The stripe of the options; none when it is longer than a group or has a part of a cluster.
fn stripe_clusters(geometry: &Geometry, options: &MountOptions) -> u32 {
    let per_cluster = geometry.blocks_per_cluster();
    let is_whole = options.stripe_blocks.is_multiple_of(per_cluster);
    let clusters = options.stripe_blocks / per_cluster;
    let fits = clusters <= geometry.clusters_per_group;
    if is_whole && fits { clusters } else { 0 }
}

/// As ext4 does: what is near comes first on a disk that turns, and eight flexible groups are read
/// ahead at once.
fn suit_disk(tunables: &Tunables, volume: &Volume, device: &dyn BlockDevice) {
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

fn set_limits(tunables: &Tunables, stripe: u32, options: &MountOptions) {
    tunables.stripe.store(stripe, Ordering::Relaxed);
    tunables
        .cache_aggression
        .store(options.cache_aggression.into(), Ordering::Relaxed);
    let memory = options.freespace_memory_bytes;
    tunables
        .freespace_memory_bytes
        .store(memory, Ordering::Relaxed);
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

fn summary(raw: &DescriptorTable, geometry: &Geometry, nr: GroupNr) -> Summary {
    let descriptor = raw.unverified(nr);
    Summary {
        free_clusters: descriptor.free_clusters.min(geometry.clusters_in_group(nr)),
        uninit: descriptor.has_flag(group_flag::BLOCK_UNINIT),
    }
}

fn inode_summary(raw: &DescriptorTable, geometry: &Geometry, nr: GroupNr) -> InodeSummary {
    let descriptor = raw.unverified(nr);
    InodeSummary {
        free_inodes: descriptor.free_inodes.min(geometry.inodes_per_group),
        used_dirs: descriptor.used_dirs.min(geometry.inodes_per_group),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Caller, Filesystem, MountOptions};
    use std::sync::Arc;
    use uext4_alloc::{Engine, Stat};
    use uext4_device::MemDevice;
    use uext4_sync::atomic::Ordering;
    use uext4_testkit::oracle;

    fn image() -> Vec<u8> {
        let (_scratch, image) = oracle::mke2fs_image(16 << 20, &[]).expect("mke2fs");
        std::fs::read(image).expect("the image")
    }

    /// Mounts with `options`, writes, lets `look` see the engine, unmounts; answers the image.
    fn write_with(bytes: &[u8], options: &str, look: impl FnOnce(&dyn Engine)) -> Vec<u8> {
        let device = Arc::new(MemDevice::from_bytes(bytes));
        let options = MountOptions::default().parse(options).expect("options");
        let mounted = Filesystem::mount(device.clone(), options).expect("mounts");
        let root = mounted.root().expect("the root");
        let file = mounted
            .create(&root, b"file", 0o644, &Caller::root())
            .expect("a file");
        mounted.write(&file, 0, &[7; 300_000]).expect("data");
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
