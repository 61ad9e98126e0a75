//! Kinds of file systems that grow.

use std::path::Path;
use std::sync::Arc;
use uext4::device::{BlockDevice, MemDevice};
use uext4::mkfs::{
    self, DeviceContents, ExternalJournal, InodeCount, JournalDeviceOptions, JournalSize,
    MkfsOptions, Preset,
};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::Manifest;
use uext4_testkit::oracle::{self, Verdict};
use uext4_testkit::rng::Rng;

const FILE_SYSTEM_UUID: [u8; 16] = [0x42; 16];
const JOURNAL_UUID: [u8; 16] = [0x24; 16];
/// Shortest log that Linux accepts, in blocks.
const LOG_BLOCKS: u32 = 1024;

/// A kind of file system.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    preset: Preset,
    features: &'static str,
    pub(crate) block_size: u32,
    pub(crate) blocks_per_group: Option<u32>,
    /// Blocks before it grows.
    pub(crate) blocks: u64,
    resize_max_blocks: Option<u64>,
    inode_bytes: Option<u16>,
    has_other_log: bool,
}

const EXT4: Kind = Kind {
    name: "ext4",
    preset: Preset::Ext4,
    features: "",
    block_size: 1024,
    blocks_per_group: None,
    blocks: 12 << 10,
    resize_max_blocks: None,
    inode_bytes: None,
    has_other_log: false,
};

const fn with(name: &'static str, features: &'static str) -> Kind {
    Kind {
        name,
        features,
        ..EXT4
    }
}

/// With many groups, and an end inside of a flexible one.
const fn small_groups(kind: Kind) -> Kind {
    Kind {
        blocks_per_group: Some(512),
        ..kind
    }
}

impl Kind {
    pub(crate) const ALL: [Kind; 22] = [
        EXT4,
        Kind {
            name: "ext4-4k",
            block_size: 4096,
            blocks: 6 << 10,
            ..EXT4
        },
        small_groups(with("small-groups", "")),
        small_groups(with("no-flex", "^flex_bg")),
        with("no-checksums", "^metadata_csum,^metadata_csum_seed,^64bit"),
        with("uninit", "^metadata_csum,^metadata_csum_seed,uninit_bg"),
        Kind {
            preset: Preset::Ext3,
            inode_bytes: Some(128),
            ..with("ext3", "")
        },
        Kind {
            preset: Preset::Ext2,
            ..with("ext2", "")
        },
        Self::NO_JOURNAL,
        Kind {
            blocks: 24 << 10,
            ..with("bigalloc", "bigalloc")
        },
        small_groups(with("meta-bg", "meta_bg,^resize_inode")),
        with("no-reserve", "^resize_inode"),
        Self::SHORT_RESERVE,
        with("sparse2", "sparse_super2"),
        Kind {
            blocks: 8 << 10,
            ..with("sparse2-one-group", "sparse_super2")
        },
        small_groups(with("all-backups", "^sparse_super,^resize_inode")),
        with("fast-commit", "fast_commit"),
        with("quota", "quota,project"),
        with("inline", "inline_data"),
        with("values-in-inodes", "ea_inode"),
        Kind {
            has_other_log: true,
            ..with("external-journal", "")
        },
        Kind {
            block_size: 65536,
            blocks: 2000,
            ..with("ext4-64k", "")
        },
    ];

    pub(crate) const NO_JOURNAL: Kind = with("no-journal", "^has_journal,^orphan_file");

    /// On a shared device: each claim of it waits for seconds, so it is not among all kinds.
    pub(crate) const MMP: Kind = with("mmp", "mmp");

    /// Reserved descriptor blocks for little more than its size.
    pub(crate) const SHORT_RESERVE: Kind = Kind {
        resize_max_blocks: Some(30 << 10),
        ..small_groups(with("short-reserve", ""))
    };

    /// The kind of that name.
    pub(crate) fn named(name: &str) -> Kind {
        let found = Self::ALL.into_iter().find(|kind| kind.name == name);
        found.expect("a kind of that name")
    }

    /// The same with inodes of this many bytes.
    pub(crate) fn with_inodes(self, bytes: u16) -> Kind {
        Kind {
            inode_bytes: Some(bytes),
            ..self
        }
    }

    /// The same with this many blocks.
    pub(crate) fn with_blocks(self, blocks: u64) -> Kind {
        Kind { blocks, ..self }
    }

    /// A fresh file system at the start of a device of `device_bytes`.
    pub(crate) fn make(&self, device_bytes: u64) -> Image {
        let main = Arc::new(MemDevice::new(device_bytes));
        let mut options = self.options();
        let journal = self.has_other_log.then(|| self.make_log(&mut options));
        mkfs::format(&*main, &options).expect("mkfs");
        Image {
            kind: *self,
            main,
            journal,
        }
    }

    fn options(&self) -> MkfsOptions {
        let mut features = self.preset.features();
        features.apply_list(self.features).expect("known features");
        MkfsOptions {
            features,
            block_size: Some(self.block_size),
            blocks_count: Some(self.blocks),
            blocks_per_group: self.blocks_per_group,
            inodes: InodeCount::AtLeast(1024),
            inode_size: self.inode_bytes,
            uuid: Some(FILE_SYSTEM_UUID),
            hash_seed: Some([0x17; 16]),
            time: Some(1_000_000_000),
            journal: match self.block_size {
                65536 => JournalSize::Auto,
                _ => JournalSize::Blocks(LOG_BLOCKS),
            },
            resize_max_blocks: self.resize_max_blocks,
            contents: DeviceContents::Zeroed,
            ..MkfsOptions::new(self.preset)
        }
    }

    fn make_log(&self, options: &mut MkfsOptions) -> Arc<MemDevice> {
        let blocks = u64::from(LOG_BLOCKS) + 2;
        let device = MemDevice::new(blocks * u64::from(self.block_size));
        let log = JournalDeviceOptions {
            block_size: self.block_size,
            uuid: Some(JOURNAL_UUID),
            label: Vec::new(),
            time: Some(1_000_000_000),
            contents: DeviceContents::Zeroed,
        };
        mkfs::format_journal_device(&device, &log).expect("mkfs of the journal");
        mkfs::add_journal_user(&device, FILE_SYSTEM_UUID).expect("a journal");
        options.external_journal = Some(ExternalJournal {
            uuid: JOURNAL_UUID,
            device_number: 0,
        });
        Arc::new(device)
    }

    pub(crate) fn has_journal(&self) -> bool {
        let features = self.options().features;
        features.has(uext4::format::Feature::HAS_JOURNAL)
    }

    /// Whether the kernel can mount it from a file of its own.
    pub(crate) fn has_kernel(&self) -> bool {
        let quota = self.features.contains("quota") && !oracle::KernelMount::has_quota();
        self.block_size <= 4096 && !self.has_other_log && !quota
    }
}

/// A file system in memory.
pub(crate) struct Image {
    pub(crate) kind: Kind,
    pub(crate) main: Arc<MemDevice>,
    pub(crate) journal: Option<Arc<MemDevice>>,
}

impl Image {
    /// Options for runs that repeat exactly.
    pub(crate) fn options(&self) -> MountOptions {
        let journal = self.journal.clone();
        MountOptions {
            threads: Threads::Inline,
            journal_device: journal.map(|journal| journal as Arc<dyn BlockDevice>),
            ..MountOptions::default()
        }
    }

    pub(crate) fn mount(&self) -> uext4::Result<Filesystem> {
        Filesystem::mount(self.main.clone(), self.options())
    }

    pub(crate) fn blocks(&self) -> u64 {
        let disk = uext4::read_superblock(&*self.main, None).expect("a superblock");
        disk.blocks_count
    }

    /// Bytes of an inode.
    pub(crate) fn inode_size(&self) -> u16 {
        let disk = uext4::read_superblock(&*self.main, None).expect("a superblock");
        disk.inode_size
    }

    /// Runs `work` on a mount.
    pub(crate) fn mounted<T>(&self, work: impl FnOnce(&Filesystem) -> T) -> T {
        let fs = self.mount().expect("a mount");
        let answer = work(&fs);
        fs.unmount().expect("an unmount");
        answer
    }

    pub(crate) fn tree(&self) -> Manifest {
        self.mounted(|fs| Manifest::of(&EngineTarget::new(fs)).expect("a tree"))
    }

    /// Files, directories and links of about `bytes` below `dir`.
    pub(crate) fn fill(&self, dir: &str, bytes: u64, seed: u64) {
        self.mounted(|fs| fill(fs, dir, bytes, &mut Rng::new(seed)).expect("room for files"));
    }

    /// The verdict of `e2fsck -fn`.
    pub(crate) fn e2fsck(&self) -> Verdict {
        let (_dir, path) = crate::image::on_disk(&self.main);
        match &self.journal {
            None => oracle::e2fsck(&path).expect("e2fsck runs"),
            Some(journal) => {
                let (_dir, journal) = crate::image::on_disk(journal);
                oracle::e2fsck_of_pair(&path, &journal, None).expect("e2fsck runs")
            }
        }
    }

    #[track_caller]
    pub(crate) fn assert_clean(&self, what: &str) {
        let verdict = self.e2fsck();
        assert!(verdict.is_clean(), "{what}: {verdict}");
        let limits = uext4::check::Limits::default();
        let report = uext4::check::check(self.main.clone(), self.options(), &limits);
        let report = report.expect("a check");
        assert!(report.is_clean(), "{what}: {report:?}");
    }

    /// The tree as the kernel shows it; it writes into a new directory, too.
    pub(crate) fn kernel_tree(&self, path: &Path) -> Manifest {
        let mounted = oracle::KernelMount::new(path, "").expect("the kernel mounts it");
        let tree = Manifest::of_dir(mounted.path()).expect("a tree");
        let dir = mounted.path().join("by the kernel");
        std::fs::create_dir(&dir).expect("a new directory");
        for at in 0..16 {
            std::fs::write(dir.join(at.to_string()), [at; 3000]).expect("a new file");
        }
        mounted.unmount().expect("unmount");
        oracle::assert_clean(path);
        tree
    }
}

/// Files, directories and links of about `bytes` below `dir`.
pub(super) fn fill(fs: &Filesystem, dir: &str, bytes: u64, rng: &mut Rng) -> uext4::Result<()> {
    let paths = fs.paths();
    let mut left = bytes;
    for at in 0.. {
        let sub = format!("{dir}/{}", at % 7);
        paths.create_dir_all(&sub)?;
        let len = rng.below(200_000).min(left);
        paths.write(format!("{sub}/file {at}"), rng.bytes(len as usize))?;
        if at % 7 == 0 {
            paths.symlink(format!("file {at}"), format!("{sub}/link {at}"))?;
        }
        left -= len;
        if left == 0 {
            break;
        }
    }
    Ok(())
}
