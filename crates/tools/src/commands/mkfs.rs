//! `uext4 mkfs`: makes a file system.

use super::mkfs_extended::Extended;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::Place;
use crate::{numbers, show};
use clap::ValueEnum;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::device::{self, BlockDevice, FileDevice};
use uext4::format::Support;
use uext4::mkfs::{DeviceContents, InodeCount, JournalSize, MkfsOptions, Preset, Report};

/// Make an ext2, ext3 or ext4 file system, as mke2fs does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 mkfs disk.img --size 2G -L data
  uext4 mkfs disk.img --size 64M --type ext2 -O ^resize_inode
  uext4 mkfs disk.img --size 1G -U 01234567-89ab-cdef-0123-456789abcdef \\
      --hash-seed 01234567-89ab-cdef-0123-456789abcdef --time 0     the same bytes every time

A new file is sparse. What holds a file system or partition table is left alone without --force.")]
pub(crate) struct Args {
    /// File (made if missing) or block device
    image: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Size of the file system; default: all of an existing file or device
    #[arg(long, value_parser = numbers::size)]
    size: Option<u64>,
    /// Bytes of a block: 1K to 64K
    #[arg(short, long, value_parser = numbers::size)]
    block_size: Option<u64>,
    /// Bytes of a cluster, with -O bigalloc
    #[arg(short = 'C', long, value_parser = numbers::size)]
    cluster_size: Option<u64>,
    /// Features to add, or with ^ to leave out, as mke2fs names them
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
    /// Which defaults
    #[arg(short = 't', long = "type", value_enum, default_value = "ext4")]
    kind: Kind,
    /// Number of inodes
    #[arg(short = 'N', long, conflicts_with = "inode_ratio")]
    inodes: Option<u32>,
    /// One inode for every so many bytes
    #[arg(short = 'i', long, value_name = "BYTES", value_parser = numbers::size)]
    inode_ratio: Option<u64>,
    /// Bytes of an inode: 128 to the block size
    #[arg(short = 'I', long, value_name = "BYTES")]
    inode_size: Option<u16>,
    /// Percent of the blocks for the superuser
    #[arg(short = 'm', long, value_name = "PERCENT", default_value_t = 5.0)]
    reserved: f64,
    /// Journal: size=MIB
    #[arg(short = 'J', long, value_name = "size=MIB")]
    journal: Option<String>,
    /// Blocks of a group
    #[arg(short = 'g', long)]
    blocks_per_group: Option<u32>,
    /// Groups of a flexible group
    #[arg(short = 'G', long, default_value_t = 16)]
    flex_groups: u32,
    /// More: stride=N, stripe_width=N, resize=BLOCKS, lazy_itable_init=0|1, root_owner=UID:GID,
    /// hash_seed=UUID, orphan_file_size=BLOCKS
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
    /// The time to write everywhere, in seconds since 1970; default: now
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
    /// Overwrite what is there
    #[arg(short = 'F', long)]
    force: bool,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Ext2,
    Ext3,
    Ext4,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let mut options = self.options()?;
        let name = self.image.display().to_string();
        let is_new = std::fs::symlink_metadata(&self.image).is_err();
        let made = self
            .device(&mut options)
            .and_then(|device| uext4::mkfs::format(&*device, &options).at(&name));
        let report = made.inspect_err(|_| {
            if is_new {
                // Half a file system is of no use to anybody; there may be none.
                let _ = std::fs::remove_file(&self.image);
            }
        })?;
        if !self.quiet {
            say(&name, &report)?;
        }
        Ok(())
    }

    fn options(&self) -> Result<MkfsOptions> {
        let preset = match self.kind {
            Kind::Ext2 => Preset::Ext2,
            Kind::Ext3 => Preset::Ext3,
            Kind::Ext4 => Preset::Ext4,
        };
        let mut options = MkfsOptions::new(preset);
        if let Some(list) = &self.features {
            let applied = options.features.apply_list(list);
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
        options.reserved_permyriad = (self.reserved * 100.0).round() as u32;
        options.label = self.label.clone().unwrap_or_default().into_bytes();
        options.uuid = self.uuid;
        options.hash_seed = self.hash_seed;
        options.time = self.time;
        options.journal = self.journal_size()?;
        options.blocks_per_group = self.blocks_per_group;
        options.groups_per_flex = self.flex_groups;
        for list in &self.extended {
            list.apply(&mut options);
        }
        Ok(options)
    }

    fn journal_size(&self) -> Result<JournalSize> {
        let Some(text) = &self.journal else {
            return Ok(JournalSize::Auto);
        };
        let size = text
            .strip_prefix("size=")
            .and_then(|mib| mib.trim_end_matches(['M', 'm']).parse().ok());
        size.map(JournalSize::Mib).ok_or_else(|| {
            Failure::usage(format!(
                "-J {text}: the size of the journal is given as size=MIB"
            ))
        })
    }

    /// Opens or makes what the file system goes to, once it is sure that nothing is lost there.
    fn device(&self, options: &mut MkfsOptions) -> Result<Arc<dyn BlockDevice>> {
        let path = &self.image;
        let name = path.display().to_string();
        let Ok(there) = std::fs::metadata(path) else {
            let size = self.size.ok_or_else(|| no_size(path))?;
            if self.place.is_part() {
                return Err(Failure::new(Exit::Failed, format!("{name}: no such file")));
            }
            options.contents = DeviceContents::Zeroed;
            return Ok(Arc::new(FileDevice::create(path, size).at(&name)?));
        };
        let is_device = there.file_type().is_block_device();
        if is_device || self.place.is_part() {
            let device = self.place.open(path, device::Access::ReadWrite).at(&name)?;
            self.check_unused(&*device)?;
            options.contents = DeviceContents::Unknown;
            options.blocks_count = self.blocks_count(options)?;
            return Ok(device);
        }
        let reader = self.place.open(path, device::Access::ReadOnly).at(&name)?;
        self.check_unused(&*reader)?;
        let size = self.size.unwrap_or(there.len());
        if size == 0 {
            return Err(no_size(path));
        }
        options.contents = DeviceContents::Zeroed;
        Ok(Arc::new(FileDevice::create(path, size).at(&name)?))
    }

    fn blocks_count(&self, options: &MkfsOptions) -> Result<Option<u64>> {
        let Some(size) = self.size else {
            return Ok(None);
        };
        let usage = uext4::mkfs::Usage::of_size(size);
        let usual = if usage == uext4::mkfs::Usage::Default {
            4096
        } else {
            1024
        };
        let block_size = u64::from(options.block_size.unwrap_or(usual));
        Ok(Some(size / block_size.max(1)))
    }

    fn check_unused(&self, device: &dyn BlockDevice) -> Result<()> {
        let name = device.describe();
        match found(device).at(&name)? {
            Some(what) if !self.force => {
                let text = format!("{name}: holds {what} already, and nothing was written");
                Err(Failure::new(Exit::Failed, text).hint("--force overwrites it"))
            }
            _ => Ok(()),
        }
    }
}

fn no_size(path: &Path) -> Failure {
    Failure::usage(format!(
        "{}: how large? Add --size, for example --size 2G",
        path.display()
    ))
}

fn small(bytes: u64, option: &str) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Failure::usage(format!("{option}: too large")))
}

/// What people would not like to lose: where its mark stands, the mark, what it is.
const SIGNATURES: &[(u64, &[u8], &str)] = &[
    (1080, b"\x53\xEF", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (65600, b"_BHRfS_M", "a Btrfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (0, b"hsqs", "a squashfs"),
    (1024, b"\xE2\xE1\xF5\xE0", "an EROFS"),
    (1024, b"\x10\x20\xF5\xF2", "an F2FS"),
    (32769, b"CD001", "an ISO 9660 file system"),
    (0, b"LUKS\xBA\xBE", "an encrypted volume"),
    (512, b"EFI PART", "a partition table"),
    (536, b"LVM2 001", "an LVM volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (510, b"\x55\xAA", "a partition table or boot sector"),
];

fn found(device: &dyn BlockDevice) -> std::result::Result<Option<&'static str>, device::Error> {
    for (offset, mark, what) in SIGNATURES {
        let mut bytes = vec![0; mark.len()];
        if offset + mark.len() as u64 > device.size_bytes() {
            continue;
        }
        device.read_at(*offset, &mut bytes)?;
        if bytes == *mark {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

fn say(name: &str, report: &Report) -> Result<()> {
    let (geometry, disk) = (&report.geometry, &report.superblock);
    let journal = match report.journal_blocks {
        0 => "no journal".to_string(),
        blocks => {
            let bytes = u64::from(blocks) * u64::from(geometry.block_size());
            format!("a journal of {}", numbers::readable_size(bytes))
        }
    };
    show::line(format_args!(
        "{name}: {}, {} blocks of {}, {} inodes, {journal}\nUUID {}",
        numbers::readable_size(geometry.size_bytes()),
        geometry.blocks_count,
        numbers::readable_size(u64::from(geometry.block_size())),
        geometry.inodes_count,
        numbers::show_uuid(&disk.uuid),
    ))?;
    let dropped: Vec<String> = report
        .dropped_features
        .iter()
        .map(|f| f.to_string())
        .collect();
    if !dropped.is_empty() {
        eprintln!(
            "uext4: note: made without {}, which it has no room or use for",
            dropped.join(", ")
        );
    }
    for feature in disk.features().iter() {
        let can = match uext4::support(feature) {
            Support::ReadWrite => continue,
            Support::ReadOnly => "can only read it",
            Support::Refused => "cannot mount it",
        };
        eprintln!("uext4: note: {feature}: Linux can use it, uext4 {can}");
    }
    Ok(())
}
