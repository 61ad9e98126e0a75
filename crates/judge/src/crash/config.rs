//! Kinds of file systems that are crashed, all small: a log of 1024 blocks, which is the least.

use uext4::format::Features;
use uext4::mkfs::{InodeCount, JournalSize, MkfsOptions, Preset};

const MIB: u64 = 1 << 20;
/// Least log that Linux accepts.
const LOG_BLOCKS: u32 = 1024;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name in the text of a case.
    pub name: &'static str,
    preset: Preset,
    /// On top of the preset, as `mke2fs -O` takes it.
    features: &'static str,
    /// Bytes of a block.
    pub block_size: u32,
    size_bytes: u64,
}

const fn config(
    name: &'static str,
    preset: Preset,
    features: &'static str,
    block_size: u32,
    size_mib: u64,
) -> Config {
    Config {
        name,
        preset,
        features,
        block_size,
        size_bytes: size_mib * MIB,
    }
}

impl Config {
    /// All kinds with a log.
    pub const ALL: [Config; 7] = [
        config("ext4", Preset::Ext4, "", 1024, 12),
        config("ext4-4k", Preset::Ext4, "", 4096, 24),
        config("orphan-list", Preset::Ext4, "^orphan_file", 1024, 12),
        config(
            "no-checksums",
            Preset::Ext4,
            "^metadata_csum,^metadata_csum_seed,^64bit",
            1024,
            12,
        ),
        config("ext3", Preset::Ext3, "", 1024, 12),
        config("inline", Preset::Ext4, "inline_data,ea_inode", 1024, 12),
        config("bigalloc", Preset::Ext4, "bigalloc", 1024, 24),
    ];

    /// A file system without a log: no promise but that a mount does not panic.
    pub const NO_JOURNAL: Config = config(
        "no-journal",
        Preset::Ext4,
        "^has_journal,^orphan_file",
        1024,
        12,
    );

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Config> {
        let all = Self::ALL.into_iter().chain([Self::NO_JOURNAL]);
        all.into_iter().find(|config| config.name == name)
    }

    /// Size of the device in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What to make; equal on every run.
    ///
    /// # Panics
    /// Never: the list of features is ours.
    pub fn mkfs(&self) -> MkfsOptions {
        let mut features: Features = self.preset.features();
        features
            .apply_list(self.features)
            .expect("the features of a configuration have known names");
        MkfsOptions {
            features,
            block_size: Some(self.block_size),
            inodes: InodeCount::AtLeast(1024),
            uuid: Some([0x42; 16]),
            hash_seed: Some([0x17; 16]),
            time: Some(1_000_000_000),
            journal: JournalSize::Blocks(LOG_BLOCKS),
            contents: uext4::mkfs::DeviceContents::Zeroed,
            ..MkfsOptions::new(self.preset)
        }
    }

    /// Whether files map their space with extents (`fallocate` needs it).
    pub fn has_extents(&self) -> bool {
        self.preset == Preset::Ext4
    }
}
