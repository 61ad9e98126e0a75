//! Quota accounting: usage as counted by us, by e2fsck and by the kernel.

use crate::image;
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::Arc;
use uext4::device::MemDevice;
use uext4::format::quota::{QuotaEntry, QuotaKind};
use uext4::{Caller, FallocateMode, Filesystem, InodeRef, SetAttr, SetMode, WriteContext};
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::rng::Rng;
use uext4_testkit::skip;

const ROOT: Caller = Caller::root();
const OWNERS: u64 = 40;

/// Operations that change usage, by many owners.
struct Work<'a> {
    fs: &'a Filesystem,
    rng: Rng,
    made: Vec<(Vec<u8>, InodeRef)>,
    dir: InodeRef,
    has_projects: bool,
}

impl<'a> Work<'a> {
    fn new(fs: &'a Filesystem, seed: u64) -> Self {
        let dir = fs.root().unwrap();
        Self {
            fs,
            rng: Rng::new(seed),
            made: Vec::new(),
            dir,
            has_projects: true,
        }
    }

    fn id(&mut self) -> u32 {
        // IDs are far apart, so that the quota trees branch.
        (self.rng.below(OWNERS) as u32).wrapping_mul(0x0101_8001)
    }

    fn create(&mut self) {
        let name = format!("file {}", self.rng.below(1 << 40)).into_bytes();
        let file = self.fs.create(&self.dir, &name, 0o644, &ROOT).unwrap();
        self.made.push((name, file));
    }

    fn pick(&mut self) -> InodeRef {
        let slot = self.rng.below(self.made.len() as u64) as usize;
        self.made[slot].1.clone()
    }

    fn step(&mut self) {
        let kind = if self.made.len() < 4 {
            0
        } else {
            self.rng.below(12)
        };
        match kind {
            0 | 1 => self.create(),
            2..=4 => {
                let (file, at) = (self.pick(), self.rng.below(1 << 20));
                let len = self.rng.below(100_000) as usize;
                let data = self.rng.bytes(len);
                self.fs
                    .write(&file, at, &data, &WriteContext::ROOT)
                    .unwrap();
            }
            5 | 6 => {
                let (file, set) = (self.pick(), self.owner());
                self.fs.set_attr(&file, &set, &ROOT).unwrap();
            }
            7 => {
                let (file, size) = (self.pick(), self.rng.below(1 << 20));
                self.fs.truncate(&file, size).unwrap();
            }
            8 => {
                let (file, at) = (self.pick(), self.rng.below(1 << 20));
                let _no_extents = self.fs.fallocate(
                    &file,
                    FallocateMode::AllocateKeepSize,
                    at..at + 60_000,
                    &WriteContext::ROOT,
                );
            }
            9 => self.attribute(),
            10 => {
                let name = format!("dir {}", self.rng.below(1 << 40)).into_bytes();
                let dir = self.fs.mkdir(&self.dir, &name, 0o755, &ROOT).unwrap();
                let set = self.owner();
                self.fs.set_attr(&dir, &set, &ROOT).unwrap();
            }
            _ => {
                let slot = self.rng.below(self.made.len() as u64) as usize;
                let (name, file) = self.made.swap_remove(slot);
                self.fs.unlink(&self.dir, &name, &ROOT).unwrap();
                drop(file);
            }
        }
    }

    fn owner(&mut self) -> SetAttr {
        SetAttr {
            uid: Some(self.id()),
            gid: Some(self.id()),
            project: (self.has_projects && self.rng.chance(50)).then(|| self.id()),
            ..SetAttr::default()
        }
    }

    /// An attribute stored in the inode, in a block, or in a value inode.
    fn attribute(&mut self) {
        let file = self.pick();
        let name = [&b"user.a"[..], b"user.b"][self.rng.below(2) as usize];
        let len = [10, 900, 9000][self.rng.below(3) as usize];
        let value = self.rng.bytes(len);
        let set = self.fs.set_xattr(&file, name, &value, SetMode::Any, &ROOT);
        if set.is_err() || self.rng.chance(20) {
            let _none = self.fs.remove_xattr(&file, name, &ROOT);
        }
    }
}

fn shapes() -> [Vec<&'static str>; 4] {
    [
        vec!["-b", "1024", "-I", "256", "-O", "quota,project"],
        vec!["-I", "256", "-O", "quota,project,ea_inode,inline_data"],
        vec!["-I", "256", "-O", "quota,project,bigalloc"],
        vec!["-O", "quota,^extents,^64bit", "-b", "2048"],
    ]
}

#[test]
fn e2fsck_counts_the_same() {
    for (shape, options) in shapes().into_iter().enumerate() {
        let device = image::mke2fs(64, &options);
        for seed in 0..3 {
            let fs = image::mount(&device);
            let mut work = Work::new(&fs, seed << 8 | shape as u64);
            work.has_projects = options.iter().any(|word| word.contains("project"));
            (0..150).for_each(|_| work.step());
            drop(work);
            fs.unmount().unwrap();
            eprintln!("{options:?}, seed {seed}");
            image::assert_clean(&device);
        }
    }
}

/// Accounting continues from the kernel's counts, and the kernel continues from ours.
#[test]
fn the_kernel_goes_on_where_we_stopped() {
    if !KernelMount::has_quota() {
        skip::record(
            "the_kernel_goes_on_where_we_stopped",
            "the quota format (CONFIG_QFMT_V2)",
        );
        return;
    }
    let device = image::mke2fs(64, &["-I", "256", "-O", "quota,project"]);
    for round in 0..2u32 {
        let fs = image::mount(&device);
        let mut work = Work::new(&fs, u64::from(round));
        (0..100).for_each(|_| work.step());
        drop(work);
        fs.unmount().unwrap();
        drop(fs);
        let (_dir, path) = image::on_disk(&device);
        let kernel = KernelMount::new(&path, "usrquota,grpquota,prjquota").unwrap();
        for nr in 0..60 {
            let file = kernel.path().join(format!("of the kernel {round} {nr}"));
            std::fs::write(&file, vec![7; 5000 * nr as usize]).unwrap();
            chown(&file, Some(nr * 77_777), Some(nr % 3)).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        kernel.unmount().unwrap();
        oracle::assert_clean(&path);
        let bytes = std::fs::read(&path).unwrap();
        let again = Arc::new(MemDevice::from_bytes(&bytes));
        let fs = image::mount(&again);
        let mut work = Work::new(&fs, 100 + u64::from(round));
        (0..100).for_each(|_| work.step());
        drop(work);
        fs.unmount().unwrap();
        image::assert_clean(&again);
    }
}

/// The `nr`-th of many projects whose numbers are far apart.
fn project(nr: u32) -> u32 {
    nr.wrapping_mul(0x0101_8003)
}

fn move_to(fs: &Filesystem, file: &InodeRef, project: u32) {
    let set = SetAttr {
        project: Some(project),
        ..SetAttr::default()
    };
    fs.set_attr(file, &set, &ROOT).unwrap();
}

/// A file takes one project after the other: those that own nothing more are forgotten, in memory
/// and in the quota file, unless they have limits.
#[test]
fn owners_of_nothing_are_forgotten() {
    const MOVES: u32 = 6000;
    let device = image::mke2fs(64, &["-I", "256", "-O", "quota,project"]);
    let fs = image::mount(&device);
    let file = fs
        .create(&fs.root().unwrap(), b"file", 0o644, &ROOT)
        .unwrap();
    let limits = QuotaEntry {
        id: project(MOVES + 1),
        space_hard_kib: 800,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::Project, &limits).unwrap();
    let before = fs.statfs();
    let mut most = 0;
    for nr in 1..=MOVES {
        move_to(&fs, &file, project(nr));
        if nr % 250 == 0 {
            fs.sync().unwrap();
            most = most.max(fs.quota(QuotaKind::Project).unwrap().len());
        }
    }
    assert!((1000..2600).contains(&most), "{most} owners");
    let used_blocks = before.blocks_free - fs.statfs().blocks_free;
    let used_bytes = used_blocks * u64::from(before.block_size);
    assert!(used_bytes < 9 << 20, "a quota file of {used_bytes} bytes");
    let report = fs.quota(QuotaKind::Project).unwrap();
    let of = |id: u32| report.iter().find(|entry| entry.id == id);
    assert_eq!(of(project(MOVES)).map(|entry| entry.inodes), Some(1));
    assert_eq!(of(limits.id), Some(&limits));
    drop(file);
    fs.unmount().unwrap();
    image::assert_clean(&device);
    // The next mount goes on with the free slots and blocks.
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    for nr in 0..500 {
        let name = format!("{nr}").into_bytes();
        let file = fs.create(&root, &name, 0o644, &ROOT).unwrap();
        move_to(&fs, &file, project(7 * MOVES + nr));
    }
    drop(root);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// Owners are forgotten while other threads charge them again.
#[test]
fn threads_charge_owners_that_others_forget() {
    const MOVES: u32 = 1500;
    let device = image::mke2fs(64, &["-I", "256", "-O", "quota,project"]);
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (fs, root) = (&fs, &root);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let name = format!("{thread}").into_bytes();
                let file = fs.create(root, &name, 0o644, &ROOT).unwrap();
                for nr in 0..MOVES {
                    let len = rng.below(9000) as usize;
                    fs.write(&file, 0, &vec![1; len], &WriteContext::ROOT)
                        .unwrap();
                    move_to(fs, &file, project(rng.below(2500) as u32));
                    if nr % 100 == 0 {
                        fs.sync().unwrap();
                    }
                }
            });
        }
    });
    drop(root);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
