//! The kinds of file system that hold a tree, each made by us and by mke2fs.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use uext4::device::FileDevice;
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4_testkit::manifest::Manifest;
use uext4_testkit::oracle::{KernelMount, Program};
use uext4_testkit::tree::{Shape, Time};

/// Counts what each owner uses.
const QUOTA: &str = "quota";
/// Seconds that 32 bits can hold: the times of small inodes.
const TIME_FIRST: i64 = i32::MIN as i64;
const TIME_LAST: i64 = i32::MAX as i64;

/// Inode size that leaves room for whole seconds only.
const SMALL_INODE_BYTES: u16 = 128;

/// One kind of file system.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// For `--config` and for messages.
    pub name: &'static str,
    preset: Preset,
    /// As after `mke2fs -O`.
    features: &'static str,
    block_size_bytes: u32,
    cluster_size_bytes: Option<u32>,
    inode_size_bytes: u16,
    /// Of the orphan file, where it is not the usual.
    orphan_file_blocks: Option<u32>,
    /// Most bytes of extended attributes of one inode, where it is not the usual.
    xattr_max_bytes: Option<usize>,
}

const DEFAULT: Config = Config {
    name: "default",
    preset: Preset::Ext4,
    features: "",
    block_size_bytes: 4096,
    cluster_size_bytes: None,
    inode_size_bytes: 256,
    orphan_file_blocks: None,
    xattr_max_bytes: None,
};

const fn with(name: &'static str, features: &'static str) -> Config {
    Config {
        name,
        features,
        ..DEFAULT
    }
}

const fn blocks(name: &'static str, block_size_bytes: u32) -> Config {
    Config {
        name,
        block_size_bytes,
        ..DEFAULT
    }
}

impl ValueEnum for Config {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name))
    }
}

impl Config {
    /// All kinds.
    pub const ALL: [Config; 17] = [
        DEFAULT,
        blocks("blocks-1k", 1024),
        blocks("blocks-64k", 65536),
        with("no-journal", "^has_journal,^orphan_file"),
        Config {
            name: "ext2",
            preset: Preset::Ext2,
            ..DEFAULT
        },
        Config {
            name: "ext3",
            preset: Preset::Ext3,
            ..DEFAULT
        },
        with("uninit-bg", "^metadata_csum,^metadata_csum_seed,uninit_bg"),
        with("meta-bg", "^resize_inode,meta_bg"),
        with("inline-data", "inline_data"),
        with("orphan-file", "orphan_file"),
        with("no-orphan-file", "^orphan_file"),
        // 254 orphans, and then the list.
        Config {
            features: "orphan_file",
            orphan_file_blocks: Some(1),
            ..blocks("few-orphans", 1024)
        },
        with(QUOTA, "quota,project"),
        with("large-dir", "large_dir"),
        Config {
            xattr_max_bytes: Some(20_000),
            ..with("ea-inode", "ea_inode")
        },
        Config {
            cluster_size_bytes: Some(16384),
            ..with("bigalloc", "bigalloc,^resize_inode")
        },
        Config {
            name: "inodes-128",
            inode_size_bytes: SMALL_INODE_BYTES,
            features: "^extra_isize",
            ..DEFAULT
        },
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Config> {
        Self::ALL.into_iter().find(|config| config.name == name)
    }

    /// The usual kind, which the kernel mounts everywhere.
    pub fn usual() -> Config {
        DEFAULT
    }

    /// Whether the kernel of this machine mounts it: not blocks larger than a page, and quota only
    /// if it knows the format.
    pub fn fits_kernel(&self) -> bool {
        self.block_size_bytes as usize <= rustix::param::page_size()
            && (!self.has_quota() || KernelMount::has_quota())
    }

    /// Whether a crash leaves what was synced: not without a journal.
    pub fn survives_crashes(&self) -> bool {
        self.preset != Preset::Ext2 && !self.features.contains("^has_journal")
    }

    /// Whether it counts what each owner uses.
    pub fn has_quota(&self) -> bool {
        self.name == QUOTA
    }

    /// A tree of `entries` names that fits in.
    pub fn shape(&self, entries: usize) -> Shape {
        let mut shape = Shape::new(entries).for_block_size(self.block_size_bytes as usize);
        if let Some(xattr_max_bytes) = self.xattr_max_bytes {
            shape.xattr_max_bytes = xattr_max_bytes;
        }
        shape
    }

    /// Size of an image that holds a tree of `entries` names. The file is sparse.
    pub fn size_bytes(&self, entries: usize) -> u64 {
        let unit = self.cluster_size_bytes.unwrap_or(self.block_size_bytes);
        let tails = entries as u64 * 3 * u64::from(unit);
        (256 << 20) + tails + 2 * Shape::new(entries).data_max_bytes
    }

    /// What is left of a tree in this kind: small inodes keep whole seconds of 32 bits.
    pub fn kept(&self, mut manifest: Manifest) -> Manifest {
        if self.inode_size_bytes == SMALL_INODE_BYTES {
            for entry in manifest.entries.values_mut() {
                for time in [&mut entry.atime, &mut entry.mtime, &mut entry.ctime] {
                    let seconds = time.seconds.clamp(TIME_FIRST, TIME_LAST);
                    *time = Time { seconds, nanos: 0 };
                }
            }
        }
        manifest
    }

    /// Makes it with our mkfs.
    ///
    /// # Errors
    /// The file cannot be made, or mkfs refuses.
    pub fn make(&self, image: &Path, entries: usize) -> Result<()> {
        let device = FileDevice::create(image, self.size_bytes(entries))?;
        let mut options = MkfsOptions::new(self.preset);
        options.block_size = Some(self.block_size_bytes);
        options.cluster_size = self.cluster_size_bytes;
        options.inode_size = Some(self.inode_size_bytes);
        options.orphan_file_blocks = self.orphan_file_blocks;
        options.inodes = mkfs::InodeCount::AtLeast(entries as u32 + 1000);
        if !self.features.is_empty() {
            options.features.apply_list(self.features)?;
        }
        mkfs::format(&device, &options).with_context(|| format!("mkfs of {}", self.name))?;
        Ok(())
    }

    /// Makes it with mke2fs.
    ///
    /// # Errors
    /// The file cannot be made, or mke2fs refuses.
    pub fn make_reference(&self, image: &Path, entries: usize) -> Result<()> {
        self.mke2fs(image, entries)?.arg(image).run_ok()?;
        Ok(())
    }

    /// As [`Config::make_reference`], filled with the tree below `source`.
    ///
    /// # Errors
    /// As [`Config::make_reference`].
    pub fn make_filled(&self, image: &Path, entries: usize, source: &Path) -> Result<()> {
        self.mke2fs(image, entries)?
            .arg("-d")
            .arg(source)
            .arg(image)
            .run_ok()?;
        Ok(())
    }

    fn mke2fs(&self, image: &Path, entries: usize) -> Result<Program> {
        std::fs::File::create(image)?.set_len(self.size_bytes(entries))?;
        let kind = match self.preset {
            Preset::Ext2 => "ext2",
            Preset::Ext3 => "ext3",
            Preset::Ext4 => "ext4",
        };
        let mut program = Program::new("mke2fs")?
            .args(["-q", "-F", "-t", kind])
            .args(["-b", &self.block_size_bytes.to_string()])
            .args(["-I", &self.inode_size_bytes.to_string()])
            .args(["-N", &(entries + 1000).to_string()]);
        if let Some(cluster_size_bytes) = self.cluster_size_bytes {
            program = program.args(["-C", &cluster_size_bytes.to_string()]);
        }
        if let Some(blocks) = self.orphan_file_blocks {
            program = program.args(["-E", &format!("orphan_file_size={blocks}")]);
        }
        if !self.features.is_empty() {
            program = program.args(["-O", self.features]);
        }
        Ok(program)
    }
}
