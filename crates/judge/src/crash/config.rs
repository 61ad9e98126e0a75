//! Kinds of file systems to crash, all small: a log of 1024 blocks, the minimum.

use std::sync::Arc;

use anyhow::{Context, Result};
use uext4::device::MemDevice;
use uext4::format::Features;
use uext4::mkfs::{
    self, DeviceContents, ExternalJournal, InodeCount, JournalDeviceOptions, JournalSize,
    MkfsOptions, Preset,
};
use uext4::{Allocator, BaseLines, MountOptions};
use uext4_testkit::oracle::Repair;

use super::disk::Disk;

const MIB: u64 = 1 << 20;
/// Shortest log that Linux accepts, in blocks.
const LOG_BLOCKS: u32 = 1024;
/// Blocks of a cluster, the default of mkfs.
const CLUSTER_BLOCKS: u64 = 16;
/// Blocks of a group in configurations with many groups.
const SMALL_GROUP_BLOCKS: u32 = 512;

const FILE_SYSTEM_UUID: [u8; 16] = [0x42; 16];
const JOURNAL_UUID: [u8; 16] = [0x24; 16];
const MADE_AT_SECONDS: u64 = 1_000_000_000;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name in the text of a case.
    pub name: &'static str,
    preset: Preset,
    /// Features in addition to the preset, as for `mke2fs -O`.
    features: &'static str,
    /// Bytes of a block of the file system.
    pub block_size: u32,
    size_bytes: u64,
    blocks_per_group: Option<u32>,
    orphan_file_blocks: Option<u32>,
    log: LogPlace,
    allocator: Allocator,
    mount: Mount,
    data: Data,
    /// Percent of the space filled before the run.
    pub(super) full_percent: u64,
}

/// Mount options of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mount {
    Plain,
    /// Mounted with `discard`.
    Discards,
    /// Mounted with `sync`.
    Syncs,
    /// Designs as they were before improvements.
    AsBefore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPlace {
    Inside,
    OtherDevice,
}

/// When new data are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    AtOnce,
    /// Delayed allocation: they stay in memory without blocks.
    Wait,
}

const EXT4: Config = Config {
    name: "ext4",
    preset: Preset::Ext4,
    features: "",
    block_size: 1024,
    size_bytes: 12 * MIB,
    blocks_per_group: None,
    orphan_file_blocks: None,
    log: LogPlace::Inside,
    allocator: Allocator::FreespaceTree,
    mount: Mount::Plain,
    data: Data::Wait,
    full_percent: 0,
};

const fn with(name: &'static str, features: &'static str) -> Config {
    Config {
        name,
        features,
        ..EXT4
    }
}

/// A configuration with many groups and this allocator.
const fn groups(name: &'static str, allocator: Allocator) -> Config {
    Config {
        name,
        blocks_per_group: Some(SMALL_GROUP_BLOCKS),
        allocator,
        ..EXT4
    }
}

const fn full(config: Config) -> Config {
    Config {
        full_percent: 99,
        ..config
    }
}

const BIGALLOC: Config = Config {
    size_bytes: 24 * MIB,
    ..with("bigalloc", "bigalloc")
};

const NODELALLOC: Config = Config {
    name: "nodelalloc",
    data: Data::AtOnce,
    ..EXT4
};

impl Config {
    /// All kinds with a log.
    pub const ALL: [Config; 29] = [
        EXT4,
        Config {
            name: "ext4-4k",
            block_size: 4096,
            size_bytes: 24 * MIB,
            ..EXT4
        },
        with("orphan-list", "^orphan_file"),
        with("no-checksums", "^metadata_csum,^metadata_csum_seed,^64bit"),
        Config {
            name: "ext3",
            preset: Preset::Ext3,
            ..EXT4
        },
        with("inline", "inline_data"),
        with("value-inodes", "ea_inode"),
        BIGALLOC,
        with("fast-commit", "fast_commit"),
        with("quota", "quota,project"),
        Config {
            log: LogPlace::OtherDevice,
            ..with("external-journal", "")
        },
        Config {
            mount: Mount::Discards,
            ..with("discard", "")
        },
        Config {
            mount: Mount::Syncs,
            ..with("sync", "")
        },
        groups("linear", Allocator::Linear),
        groups("optimized", Allocator::Optimized),
        groups("freespace-tree", Allocator::FreespaceTree),
        Config {
            name: "bigalloc-linear",
            allocator: Allocator::Linear,
            ..BIGALLOC
        },
        Config {
            name: "bigalloc-optimized",
            allocator: Allocator::Optimized,
            ..BIGALLOC
        },
        full(groups("full-linear", Allocator::Linear)),
        full(groups("full-optimized", Allocator::Optimized)),
        full(groups("full-tree", Allocator::FreespaceTree)),
        full(Config {
            name: "full-bigalloc",
            ..BIGALLOC
        }),
        NODELALLOC,
        Config {
            name: "nodelalloc-ext3",
            preset: Preset::Ext3,
            ..NODELALLOC
        },
        Config {
            name: "nodelalloc-bigalloc",
            data: Data::AtOnce,
            ..BIGALLOC
        },
        full(Config {
            name: "full-nodelalloc",
            ..NODELALLOC
        }),
        Config {
            block_size: 4096,
            size_bytes: 24 * MIB,
            ..with("fast-commit-4k", "fast_commit")
        },
        Config {
            data: Data::AtOnce,
            ..with("fast-commit-nodelalloc", "fast_commit,^orphan_file")
        },
        Config {
            mount: Mount::AsBefore,
            ..groups("base-lines", Allocator::Linear)
        },
    ];

    /// A file system without a log: only the state of a `sync` is promised, until the next change.
    pub const NO_JOURNAL: Config = with("no-journal", "^has_journal,^orphan_file");

    /// An orphan file of one block, for plots.
    pub const FEW_ORPHANS: Config = Config {
        orphan_file_blocks: Some(1),
        ..with("few-orphans", "")
    };

    /// The names of all kinds, including those for special workloads.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::every().map(|config| config.name)
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Config> {
        Self::every().find(|config| config.name == name)
    }

    fn every() -> impl Iterator<Item = Config> {
        let rest = [Self::NO_JOURNAL, Self::FEW_ORPHANS];
        Self::ALL.into_iter().chain(rest)
    }

    /// A fresh file system; byte-identical on every run.
    ///
    /// # Errors
    /// The error of mkfs.
    pub(super) fn make(&self) -> Result<Disk> {
        let main = MemDevice::new(self.size_bytes);
        let mut options = self.mkfs();
        let mut journal = None;
        if self.log == LogPlace::OtherDevice {
            let device = self.make_journal()?;
            mkfs::add_journal_user(&device, FILE_SYSTEM_UUID)?;
            options.external_journal = Some(ExternalJournal {
                uuid: JOURNAL_UUID,
                device_number: 0,
            });
            journal = Some(Arc::new(device));
        }
        mkfs::format(&main, &options).context("mkfs")?;
        let main = Arc::new(main);
        Ok(Disk { main, journal })
    }

    fn make_journal(&self) -> Result<MemDevice> {
        // The two superblocks before the log take a block each.
        let blocks = u64::from(LOG_BLOCKS) + 2;
        let device = MemDevice::new(blocks * u64::from(self.block_size));
        let options = JournalDeviceOptions {
            block_size: self.block_size,
            uuid: Some(JOURNAL_UUID),
            label: Vec::new(),
            time: Some(MADE_AT_SECONDS),
            contents: DeviceContents::Zeroed,
        };
        mkfs::format_journal_device(&device, &options).context("mkfs of the journal")?;
        Ok(device)
    }

    fn mkfs(&self) -> MkfsOptions {
        let mut features: Features = self.preset.features();
        features
            .apply_list(self.features)
            .expect("the features of a configuration have known names");
        MkfsOptions {
            features,
            block_size: Some(self.block_size),
            blocks_per_group: self.blocks_per_group,
            orphan_file_blocks: self.orphan_file_blocks,
            inodes: InodeCount::AtLeast(1024),
            uuid: Some(FILE_SYSTEM_UUID),
            hash_seed: Some([0x17; 16]),
            time: Some(MADE_AT_SECONDS),
            journal: JournalSize::Blocks(LOG_BLOCKS),
            contents: DeviceContents::Zeroed,
            ..MkfsOptions::new(self.preset)
        }
    }

    /// Adds its mount options to `options`.
    pub(super) fn mounted(&self, options: MountOptions) -> MountOptions {
        MountOptions {
            allocator: self.allocator,
            discard: self.mount == Mount::Discards,
            sync: self.syncs(),
            delalloc: Some(self.delays()),
            base_lines: self.base_lines(),
            ..options
        }
    }

    fn base_lines(&self) -> BaseLines {
        let as_before = self.mount == Mount::AsBefore;
        BaseLines {
            blocking_groups: as_before,
            locked_goal: as_before,
            cold_groups: as_before,
            untracked_orphans: false,
            locked_orphans: as_before,
            sorted_shrinker: as_before,
            scanned_checkpoints: as_before,
            racing_inodes: as_before,
        }
    }

    /// Whether every operation is durable when it returns.
    pub(super) fn syncs(&self) -> bool {
        self.mount == Mount::Syncs
    }

    /// Whether new data use delayed allocation.
    pub(super) fn delays(&self) -> bool {
        self.data == Data::Wait
    }

    /// Whether data may be older than the names and attributes found after a crash.
    pub(super) fn data_may_be_older(&self) -> bool {
        self.delays() && !self.syncs()
    }

    /// Whether files map their space with extents (`fallocate` needs it).
    pub fn has_extents(&self) -> bool {
        self.preset == Preset::Ext4
    }

    /// Whether space is allocated in clusters of several blocks.
    pub(super) fn is_bigalloc(&self) -> bool {
        self.features.contains("bigalloc")
    }

    /// Granularity of collapse and insert, in bytes.
    pub(super) fn shift_bytes(&self) -> u64 {
        let blocks = if self.is_bigalloc() {
            CLUSTER_BLOCKS
        } else {
            1
        };
        u64::from(self.block_size) * blocks
    }

    /// Whether the log may have fast commits.
    pub(super) fn has_fast_commits(&self) -> bool {
        self.features.contains("fast_commit")
    }

    /// Whether hidden quota files hold the usage of each user.
    pub(super) fn has_quota(&self) -> bool {
        self.features.contains("quota")
    }

    /// Permitted e2fsck repairs after a crash. For an orphan with several value inodes, e2fsck 1.47
    /// frees only the first; `-p` then reports the others as unattached, also after a crash of the
    /// kernel.
    pub(super) fn repair(&self) -> Repair {
        if self.has_value_inodes() {
            Repair::Everything
        } else {
            Repair::Preen
        }
    }

    /// Whether values too large for a block get inodes of their own.
    pub(super) fn has_value_inodes(&self) -> bool {
        self.features.contains("ea_inode")
    }
}
