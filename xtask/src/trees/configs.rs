//! Kinds of file systems for the tree test, each created by our mkfs and by mke2fs.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use uext4::device::FileDevice;
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4_testkit::manifest::Manifest;
use uext4_testkit::oracle::{KernelMount, Program};
use uext4_testkit::tree::{Shape, Time};

/// Name of the kind with quota.
const QUOTA: &str = "quota";
/// Range of 32-bit seconds: the times of small inodes.
const TIME_FIRST: i64 = i32::MIN as i64;
const TIME_LAST: i64 = i32::MAX as i64;

/// Inode size without space for nanoseconds.
const SMALL_INODE_BYTES: u16 = 128;

/// One kind of file system.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Name for `--config` and messages.
    pub name: &'static str,
    preset: Preset,
    /// Feature list, as for `mke2fs -O`.
    features: &'static str,
    block_size_bytes: u32,
    cluster_size_bytes: Option<u32>,
    inode_size_bytes: u16,
    /// Size of the orphan file; `None` for the default.
    orphan_file_blocks: Option<u32>,
    /// Limit of extended attributes per inode, in bytes; `None` for the default.
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
    pub const ALL: [Config; 18] = [
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
        // The orphan file holds 254 orphans; further ones go to the orphan list.
        Config {
            features: "orphan_file",
            orphan_file_blocks: Some(1),
            ..blocks("few-orphans", 1024)
        },
        with(QUOTA, "quota,project"),
        with("large-dir", "large_dir"),
        with("fast-commit", "fast_commit"),
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

    /// The default kind, which every kernel mounts.
    pub fn usual() -> Config {
        DEFAULT
    }

    /// True if the kernel of this machine can mount it: its blocks fit a page, and the kernel
    /// supports quota if the kind has it.
    pub fn fits_kernel(&self) -> bool {
        self.block_size_bytes as usize <= rustix::param::page_size()
            && (!self.has_quota() || KernelMount::has_quota())
    }

    /// True if synced data survive a crash: the kind has a journal.
    pub fn survives_crashes(&self) -> bool {
        self.preset != Preset::Ext2 && !self.features.contains("^has_journal")
    }

    /// True if the kind counts usage per owner.
    pub fn has_quota(&self) -> bool {
        self.name == QUOTA
    }

    /// Shape of a tree with `entries` names for this kind.
    pub fn shape(&self, entries: usize) -> Shape {
        let mut shape = Shape::new(entries).for_block_size(self.block_size_bytes as usize);
        if let Some(xattr_max_bytes) = self.xattr_max_bytes {
            shape.xattr_max_bytes = xattr_max_bytes;
        }
        shape
    }

    /// Size in bytes of an image for a tree of `entries` names. The file is sparse.
    pub fn size_bytes(&self, entries: usize) -> u64 {
        let unit = self.cluster_size_bytes.unwrap_or(self.block_size_bytes);
        let tails = entries as u64 * 3 * u64::from(unit);
        (256 << 20) + tails + 2 * Shape::new(entries).data_max_bytes
    }

    /// The part of a tree that this kind preserves: small inodes keep 32-bit seconds only.
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

    /// Creates the file system with our mkfs.
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

    /// Creates the file system with mke2fs.
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
