//! `uext4 mkfs`: makes a file system.

use super::journal_words::LogWords;
use super::mkfs_extended::Extended;
use super::mkfs_report::Made;
use super::mkfs_target::Target;
use crate::failure::{At, Failure, Result};
use crate::location::Location;
use crate::numbers::{self, FsSize};
use crate::reproducible::Epoch;
use clap::ValueEnum;
use std::path::PathBuf;
use std::str::FromStr;
use uext4::mkfs::{InodeCount, JournalSize, MkfsOptions, MkfsReport, Preset};

/// Create an ext2, ext3 or ext4 file system, as mke2fs does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 mkfs disk.img 2G -L data
  uext4 mkfs disk.img --size 64M --type ext2 -O ^resize_inode
  uext4 mkfs -n /dev/sdb1                  print the backup superblocks, write nothing
  uext4 mkfs disk.img --size 1G -U 01234567-89ab-cdef-0123-456789abcdef \\
      --hash-seed 01234567-89ab-cdef-0123-456789abcdef --time 0     a reproducible image

A new file is sparse. An existing file system or partition table is overwritten only with --force.
Disabling a feature also disables the features that depend on it. Without root the root directory is
owned by the caller; -E root_owner=0:0 makes root the owner. The environment variable
SOURCE_DATE_EPOCH sets the time to write, unless --time is given.")]
pub(crate) struct Args {
    /// File (created if it does not exist) or block device
    image: PathBuf,
    #[command(flatten)]
    place: Location,
    /// Size of the file system, as for mke2fs: with suffix K, M, G or T, with s in sectors of 512
    /// bytes, without suffix in KiB, or in blocks if -b is given. Default: size of the existing
    /// file or device
    #[arg(value_name = "SIZE", value_parser = FsSize::from_str)]
    fs_size: Option<FsSize>,
    /// Size of the file system in bytes, or with suffix K, M, G or T
    #[arg(long, value_parser = numbers::size, conflicts_with = "fs_size")]
    size: Option<u64>,
    /// Write nothing, and print what would be made
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Block size: 1K to 64K
    #[arg(short, long, value_parser = numbers::size)]
    block_size: Option<u64>,
    /// Cluster size, with -O bigalloc
    #[arg(short = 'C', long, value_parser = numbers::size)]
    cluster_size: Option<u64>,
    /// Features to enable, or with ^ to disable, by their names in mke2fs
    #[arg(
        short = 'O',
        long = "features",
        value_name = "LIST",
        allow_hyphen_values = true
    )]
    features: Option<String>,
    /// Volume label, up to 16 bytes
    #[arg(short = 'L', long)]
    label: Option<String>,
    /// UUID; default: random
    #[arg(short = 'U', long, value_parser = numbers::uuid)]
    uuid: Option<[u8; 16]>,
    /// Type of the file system, which selects its defaults
    #[arg(short = 't', long = "type", value_enum, default_value = "ext4")]
    kind: FileSystemKind,
    /// Number of inodes
    #[arg(short = 'N', long, conflicts_with = "inode_ratio")]
    inodes: Option<u32>,
    /// Bytes per inode
    #[arg(short = 'i', long, value_name = "BYTES", value_parser = numbers::size)]
    inode_ratio: Option<u64>,
    /// Inode size in bytes: 128 up to the block size
    #[arg(short = 'I', long, value_name = "BYTES")]
    inode_size: Option<u16>,
    /// Percentage of blocks reserved for the superuser
    #[arg(short = 'm', long, value_name = "PERCENT", default_value_t = 5.0)]
    reserved: f64,
    /// Journal options: size=MIB, fast_commit_size=KIB, location=BLOCK (or in bytes, as 1G)
    #[arg(short = 'J', long, value_name = "LIST")]
    journal: Option<LogWords>,
    /// Blocks per group
    #[arg(short = 'g', long)]
    blocks_per_group: Option<u32>,
    /// Groups per flex_bg group
    #[arg(short = 'G', long, default_value_t = 16)]
    flex_groups: u32,
    /// Extended options: stride=N, stripe_width=N, resize=BLOCKS, lazy_itable_init=0|1,
    /// root_owner[=UID:GID],
    /// hash_seed=UUID, orphan_file_size=BLOCKS, packed_meta_blocks=0|1
    #[arg(
        short = 'E',
        long = "extended",
        value_name = "LIST",
        verbatim_doc_comment
    )]
    extended: Vec<Extended>,
    /// Seed of directory hashes; default: random
    #[arg(long, value_name = "UUID", value_parser = numbers::uuid)]
    hash_seed: Option<[u8; 16]>,
    /// Time for all timestamps, in seconds since 1970; default: now
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
    /// Overwrite an existing file system or partition table
    #[arg(short = 'F', long)]
    force: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FileSystemKind {
    Ext2,
    Ext3,
    Ext4,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let mut options = self.options()?;
        let name = self.image.display().to_string();
        let target = Target {
            path: &self.image,
            place: &self.place,
            size_bytes: self.size_bytes()?,
            force: self.force,
        };
        let report = if self.dry_run {
            let device = target.imagined(&mut options)?;
            uext4::mkfs::format(&device, &options).at(&name)?
        } else {
            self.make(&target, &mut options, &name)?
        };
        let made = Made {
            name: &name,
            report: &report,
            root_owner: options.root_owner,
            dry_run: self.dry_run,
        };
        match (self.json, self.quiet) {
            (true, _) => made.json(),
            (false, true) => Ok(()),
            (false, false) => made.say(),
        }
    }

    fn make(
        &self,
        target: &Target<'_>,
        options: &mut MkfsOptions,
        name: &str,
    ) -> Result<MkfsReport> {
        let is_new = std::fs::symlink_metadata(&self.image).is_err();
        let made = target
            .device(options)
            .and_then(|device| uext4::mkfs::format(&*device, options).at(name));
        made.inspect_err(|_| {
            if is_new {
                // An incomplete file system is useless. The file may not exist.
                let _ = std::fs::remove_file(&self.image);
            }
        })
    }

    fn size_bytes(&self) -> Result<Option<u64>> {
        match (self.size, self.fs_size) {
            (Some(bytes), _) => Ok(Some(bytes)),
            (None, Some(size)) => {
                let unit = self.block_size.unwrap_or(1024);
                let bytes = size.bytes(unit);
                bytes
                    .map(Some)
                    .ok_or_else(|| Failure::usage("SIZE: too large"))
            }
            (None, None) => Ok(None),
        }
    }

    fn options(&self) -> Result<MkfsOptions> {
        let preset = match self.kind {
            FileSystemKind::Ext2 => Preset::Ext2,
            FileSystemKind::Ext3 => Preset::Ext3,
            FileSystemKind::Ext4 => Preset::Ext4,
        };
        let mut options = MkfsOptions::new(preset);
        if let Some(list) = &self.features {
            let applied = options.apply_features(list);
            applied.map_err(|error| Failure::usage(format!("-O {list}: {error}")))?;
        }
        options.block_size = self
            .block_size
            .map(|bytes| small(bytes, "--block-size"))
            .transpose()?;
        options.cluster_size = self
            .cluster_size
            .map(|bytes| small(bytes, "--cluster-size"))
            .transpose()?;
        options.inode_size = self.inode_size;
        options.inodes = match (self.inodes, self.inode_ratio) {
            (Some(count), _) => InodeCount::AtLeast(count),
            (None, Some(bytes)) => InodeCount::BytesPerInode(bytes),
            (None, None) => InodeCount::Usage,
        };
        if !(0.0..=50.0).contains(&self.reserved) {
            return Err(Failure::usage(
                "-m: between 0 and 50 percent can be reserved",
            ));
        }
        options.reserved_permyriad = permyriad(self.reserved);
        options.label = self.label.clone().unwrap_or_default().into_bytes();
        options.uuid = self.uuid;
        options.hash_seed = self.hash_seed;
        let epoch = Epoch::given(self.time)?.time();
        options.time = epoch.and_then(|time| u64::try_from(time.seconds).ok());
        let journal = self.journal.unwrap_or_default();
        options.journal = journal.mib.map_or(JournalSize::Auto, JournalSize::Mib);
        options.fast_commit_kib = journal.fast_commit_kib;
        options.journal_place = journal.place;
        options.blocks_per_group = self.blocks_per_group;
        options.groups_per_flex = self.flex_groups;
        if !rustix::process::geteuid().is_root() {
            options.root_owner = super::mkfs_extended::caller();
        }
        for list in &self.extended {
            list.apply(&mut options);
        }
        Ok(options)
    }
}

/// A share up to 100 percent, in hundredths of a percent.
#[expect(clippy::as_conversions, reason = "no other conversion rounds")]
fn permyriad(percent: f64) -> u32 {
    (percent * 100.0).round() as u32
}

fn small(bytes: u64, option: &str) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Failure::usage(format!("{option}: too large")))
}
