//! Growth of mounted file systems: beside writers, of full ones, of files; refusals. The judges:
//! e2fsck, the kernel, debugfs, models of the writers.

use super::kind::{Image, Kind};
use super::{MIB, change_superblock, sizes};
use crate::image::{assert_clean, on_disk};
use crate::threads;
use crate::worker::Worker;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use uext4::device::{
    Access, BlockDevice, Cause, Fault, Faulty, FileDevice, MemDevice, Operation, When,
};
use uext4::format::{Geometry, superblock};
use uext4::mkfs::{self, DeviceContents, InodeCount, MkfsOptions, Preset};
use uext4::resize::NewSize;
use uext4::{Caller, Error, Filesystem, MountOptions, ResizeError, WriteContext};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{Manifest, Policy};
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::rng::Rng;
use uext4_testkit::wait;

const THREADS: u64 = 16;

fn tree_of(fs: &Filesystem) -> Manifest {
    Manifest::of(&EngineTarget::new(fs)).unwrap()
}

fn grow_to(fs: &Filesystem, image: &Image, blocks: u64) -> uext4::Result<Geometry> {
    let size = NewSize::Bytes(blocks * u64::from(image.kind.block_size));
    fs.grow(size).map(|plan| plan.after)
}

/// One mount, grown several times, and filled to more than fitted before.
fn grow_in_turn(kind: &Kind, seed: u64) {
    let image = kind.make(kind.blocks * u64::from(kind.block_size) * 8);
    let mut rng = Rng::new(seed);
    let sizes = sizes(&image, &mut rng);
    let fs = image.mount().unwrap();
    for (at, blocks) in sizes.into_iter().enumerate() {
        let what = format!("{}, seed {seed}, to {blocks} blocks", kind.name);
        let dir = format!("/before {at}");
        super::kind::fill(&fs, &dir, MIB / 2, &mut rng).unwrap();
        let (tree, free) = (tree_of(&fs), fs.statfs().blocks_free);
        let after = grow_to(&fs, &image, blocks).unwrap_or_else(|error| panic!("{what}: {error}"));
        tree.assert_same(&tree_of(&fs), &Policy::default());
        let now = fs.statfs();
        assert!(now.blocks_free >= free, "{what}");
        assert_eq!(now.inodes, u64::from(after.inodes_count), "{what}");
        assert_eq!(after.blocks_count, image.blocks(), "{what}");
    }
    let bytes = (image.blocks() - kind.blocks) * u64::from(kind.block_size) / 2;
    super::kind::fill(&fs, "/after", bytes.min(12 * MIB), &mut rng).unwrap();
    let tree = tree_of(&fs);
    fs.unmount().unwrap();
    image.assert_clean(kind.name);
    tree.assert_same(&image.tree(), &Policy::default());
    if kind.has_kernel() && KernelMount::available_or_skip("grow_in_turn") {
        let (_dir, path) = on_disk(&image.main);
        let ours = image.tree();
        ours.assert_same(&image.kernel_tree(&path), &Policy::default());
    }
}

#[test]
fn all_kinds_grow_while_mounted() {
    for seed in super::seeds() {
        for kind in &Kind::ALL {
            grow_in_turn(kind, seed);
        }
    }
}

#[test]
fn a_shared_device_keeps_its_claim() {
    let image = Kind::MMP.make(48 * MIB);
    let fs = image.mount().unwrap();
    grow_to(&fs, &image, 40 << 10).unwrap();
    fs.paths().write("/file", [1; 5000]).unwrap();
    fs.unmount().unwrap();
    image.assert_clean("mmp");
}

/// A file system of 160 MiB, in groups of 8 MiB whose last one is short, on a device of 1 GiB.
fn small_on_large() -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(1 << 30));
    let mut options = MkfsOptions {
        block_size: Some(1024),
        blocks_count: Some(160 * 1024 + 300),
        inodes: InodeCount::AtLeast(16 << 10),
        contents: DeviceContents::Zeroed,
        ..MkfsOptions::new(Preset::Ext4)
    };
    options.features.apply_list("quota,project").unwrap();
    mkfs::format(&*device, &options).unwrap();
    device
}

/// Within the last group, over some groups, within one, many groups, twice a block.
const STEPS_KIB: [u64; 8] = [1000, 8 << 10, 20 << 10, 333, 4000, 300 << 10, 1, 1];

/// Each writer has a model; one thread makes everything durable meanwhile.
fn grow_under_writers(list: &str) {
    let device = small_on_large();
    let options = MountOptions::default().parse(list).unwrap();
    let fs = Arc::new(Filesystem::mount(device.clone(), options).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let run = |id| {
        let (worker, done) = (Worker::new(&fs, id, id).unwrap(), done.clone());
        thread::spawn(move || worker.work(|_| !done.load(Ordering::SeqCst)).0)
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    let synced = Arc::new(AtomicU64::new(0));
    let syncer = {
        let (fs, done, synced) = (fs.clone(), done.clone(), synced.clone());
        thread::spawn(move || sync_often(&fs, &done, &synced))
    };
    let start = superblock_of(&device).blocks_count;
    for more in STEPS_KIB {
        let plan = fs.grow(NewSize::More(more << 10)).unwrap();
        let (before, after) = (plan.before.blocks_count, plan.after.blocks_count);
        assert_eq!(after, before + more, "{list}");
        let wanted = synced.load(Ordering::SeqCst) + 5;
        let goes_on = || synced.load(Ordering::SeqCst) >= wanted;
        wait::until_true("the writers go on", goes_on);
    }
    done.store(true, Ordering::SeqCst);
    syncer.join().unwrap();
    let grown = superblock_of(&device).blocks_count - start;
    assert_eq!(grown, STEPS_KIB.iter().sum::<u64>());
    threads::finish(workers, &fs, &device);
}

fn sync_often(fs: &Filesystem, done: &AtomicBool, synced: &AtomicU64) {
    let file = fs.paths().create("/synced").unwrap();
    for at in 0.. {
        if done.load(Ordering::SeqCst) {
            return;
        }
        file.write_all_at(at * 5000, &[at as u8; 5000]).unwrap();
        file.sync_all().unwrap();
        let _beside_a_growth = fs.statfs();
        fs.free_fragments(10).unwrap();
        synced.fetch_add(1, Ordering::SeqCst);
    }
}

fn superblock_of(device: &MemDevice) -> uext4::format::Superblock {
    uext4::read_superblock(device, None).unwrap()
}

#[test]
fn it_grows_beside_sixteen_writers() {
    for engine in ["linear", "optimized", "freespace-tree"] {
        for delayed in ["delalloc", "nodelalloc"] {
            grow_under_writers(&format!("allocator={engine},{delayed}"));
        }
    }
}

/// The control of the judges: a growth that a mount does not take over is noticed.
#[test]
fn a_growth_that_the_mount_forgets_is_noticed() {
    let image = Kind::named("ext4").make(36 * MIB);
    let fs = image.mount().unwrap();
    fs.freeze().unwrap();
    // Below the mount, whose memory stays as it was.
    let copy = Arc::new(image.main.snapshot());
    let grown = uext4::resize::grow(
        copy.clone(),
        image.options(),
        15 * MIB,
        DeviceContents::Zeroed,
    );
    grown.unwrap();
    let mut bytes = vec![0; 36 << 20];
    copy.read_at(0, &mut bytes).unwrap();
    image.main.write_at(0, &bytes).unwrap();
    fs.thaw().unwrap();
    let filled = fs.paths().write("/large", vec![2; 5 << 20]);
    let closed = fs.unmount();
    let verdict = image.e2fsck();
    let is_noticed = filled.is_err() || closed.is_err() || !verdict.is_clean();
    assert!(is_noticed, "{verdict}");
}

#[test]
fn a_full_file_system_gets_room() {
    for kind in ["ext4", "bigalloc", "no-checksums", "inline"].map(Kind::named) {
        let image = kind.make(kind.blocks * u64::from(kind.block_size) * 4);
        let fs = image.mount().unwrap();
        let root = fs.root().unwrap();
        let file = fs.create(&root, b"all", 0o644, &Caller::root()).unwrap();
        let data = vec![0x5A; 1 << 16];
        let mut end = 0;
        while let Ok(written) = fs.write(&file, end, &data, &WriteContext::ROOT) {
            end += written.len_bytes as u64;
        }
        let refused = fs.paths().write("/more", vec![1; 1 << 20]);
        assert!(
            matches!(refused.unwrap_err().error(), Error::NoSpace),
            "{}",
            kind.name
        );
        fs.grow(NewSize::Device).unwrap();
        let more = (image.blocks() - kind.blocks) * u64::from(kind.block_size) * 3 / 4;
        let data: Vec<u8> = Rng::new(3).bytes(more as usize);
        fs.paths().write("/more", &data).unwrap();
        fs.sync().unwrap();
        assert!(fs.paths().read("/more").unwrap() == data, "{}", kind.name);
        assert_eq!(fs.attr(&file).size_bytes, end);
        drop((root, file));
        fs.unmount().unwrap();
        image.assert_clean(kind.name);
        assert!(image.mounted(|fs| fs.paths().read("/more").unwrap()) == data);
    }
}

#[test]
fn a_file_without_a_name_stays_open() {
    let image = Kind::named("ext4").make(48 * MIB);
    let fs = image.mount().unwrap();
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"gone", 0o644, &Caller::root()).unwrap();
    fs.write(&file, 0, &[9; 9000], &WriteContext::ROOT).unwrap();
    fs.unlink(&root, b"gone", &Caller::root()).unwrap();
    fs.grow(NewSize::Device).unwrap();
    let mut read = vec![0; 9000];
    assert_eq!(fs.read(&file, 0, &mut read).unwrap(), 9000);
    assert!(read == [9; 9000]);
    fs.write(&file, 9000, &[8; 9000], &WriteContext::ROOT)
        .unwrap();
    drop((root, file));
    fs.unmount().unwrap();
    image.assert_clean("an orphan");
}

/// The file behind the mount gets longer; debugfs and the kernel see the size.
#[test]
fn the_file_of_a_mount_is_lengthened() {
    let dir = oracle::scratch_dir().unwrap();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, 20 * MIB).unwrap();
    mkfs::format(&device, &MkfsOptions::new(Preset::Ext4)).unwrap();
    drop(device);
    let device = Arc::new(FileDevice::open(&path, Access::ReadWrite).unwrap());
    let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
    let planned = fs.plan_growth(NewSize::More(100 * MIB)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 20 * MIB);
    let done = fs.grow(NewSize::More(100 * MIB)).unwrap();
    assert_eq!(done.report(), planned.report());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 120 * MIB);
    fs.paths().write("/large", vec![7; 80 << 20]).unwrap();
    // Another program makes it longer, too.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(150 * MIB).unwrap();
    let last = fs.grow(NewSize::Device).unwrap().report().after;
    assert_eq!(last.size_bytes, 150 * MIB);
    fs.unmount().unwrap();
    drop(fs);
    oracle::assert_clean(&path);
    let stats = Command::new("debugfs")
        .args(["-R", "stats -h"])
        .arg(&path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&stats.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.starts_with("Block count:"))
        .unwrap();
    assert!(line.ends_with(&format!(" {}", last.blocks)), "{text}");
    if KernelMount::available_or_skip("the_file_of_a_mount_is_lengthened") {
        let kernel = KernelMount::new(&path, "minixdf").unwrap();
        let found = rustix::fs::statvfs(kernel.path()).unwrap();
        assert_eq!(
            (found.f_blocks, found.f_files),
            (last.blocks, u64::from(last.inodes))
        );
        assert_eq!(
            std::fs::metadata(kernel.path().join("large"))
                .unwrap()
                .len(),
            80 << 20
        );
        kernel.unmount().unwrap();
    }
}

#[track_caller]
fn refusal(fs: &Filesystem, size: NewSize) -> ResizeError {
    match (fs.plan_growth(size), fs.grow(size)) {
        (Err(Error::Resize(planned)), Err(Error::Resize(why))) if planned == why => why,
        (Ok(_), Err(Error::Resize(why @ ResizeError::Device { .. }))) => why,
        answers => panic!("{answers:?}"),
    }
}

#[test]
fn what_cannot_be_is_refused_and_the_mount_goes_on() {
    let image = Kind::named("ext4").make(24 * MIB);
    let fs = image.mount().unwrap();
    let smaller = refusal(&fs, NewSize::Bytes(11 * MIB));
    assert!(matches!(smaller, ResizeError::SmallerMounted { now_bytes } if now_bytes == 12 * MIB));
    assert!(
        smaller.to_string().contains("unmount it first"),
        "{smaller}"
    );
    let device = refusal(&fs, NewSize::Bytes(30 * MIB));
    assert!(matches!(device, ResizeError::Device { .. }), "{device}");
    // Two groups of 8 MiB, sixteen times.
    let limit = refusal(&fs, NewSize::Bytes(300 * MIB));
    let ResizeError::GrowthLimit { limit_bytes } = limit else {
        panic!("{limit}");
    };
    assert_eq!(limit_bytes, 2 * 16 * (8 * MIB) + 1024);
    assert!(limit.to_string().contains("growth_limit"), "{limit}");
    fs.freeze().unwrap();
    assert!(matches!(fs.grow(NewSize::Device), Err(Error::Busy)));
    fs.thaw().unwrap();
    fs.paths().write("/file", [1; 5000]).unwrap();
    assert_eq!(
        fs.grow(NewSize::More(0)).unwrap().after.blocks_count,
        12 << 10
    );
    fs.remount("ro").unwrap();
    assert!(matches!(fs.grow(NewSize::Device), Err(Error::ReadOnly)));
    fs.unmount().unwrap();
    assert_eq!(image.blocks(), 12 << 10);
    image.assert_clean("refused");
    change_superblock(&image.main, |disk| disk.state |= superblock::state::ERROR);
    let fs = image.mount().unwrap();
    assert!(matches!(refusal(&fs, NewSize::Device), ResizeError::Errors));
    fs.abandon();
}

#[test]
fn the_limit_is_an_option() {
    let image = Kind::named("ext4").make(600 * MIB);
    let options = image.options().parse("growth_limit=400M").unwrap();
    let fs = Filesystem::mount(image.main.clone(), options).unwrap();
    fs.grow(NewSize::Bytes(400 * MIB)).unwrap();
    assert!(matches!(
        refusal(&fs, NewSize::Device),
        ResizeError::GrowthLimit { .. }
    ));
    assert!(matches!(
        fs.remount("growth_limit=1G"),
        Err(Error::Remount(_))
    ));
    fs.paths().write("/large", vec![3; 100 << 20]).unwrap();
    fs.unmount().unwrap();
    assert_clean(&image.main);
}

/// Write `nr` of a growth fails, and only that.
fn grow_with_a_failed_write(nr: u64) -> bool {
    let image = Kind::named("small-groups").make(36 * MIB);
    image.fill("/before", MIB / 4, nr);
    let (tree, faulty) = (image.tree(), Arc::new(Faulty::new(image.main.clone())));
    let fs = Filesystem::mount(faulty.clone(), image.options()).unwrap();
    faulty.arm(Fault {
        operation: Operation::Write,
        when: When::Counted {
            after: nr,
            count: 1,
        },
        cause: Cause::Io,
    });
    let grown = fs.grow(NewSize::Device);
    let is_hit = faulty.injected() > 0;
    assert_eq!(grown.is_err(), is_hit, "write {nr}: {grown:?}");
    faulty.disarm();
    match fs.check_writable() {
        Ok(()) => {
            tree.assert_same(&tree_of(&fs), &Policy::default());
            fs.paths().write("/later", [1; 5000]).unwrap();
            fs.unmount().unwrap();
            let blocks = if is_hit { image.kind.blocks } else { 36 << 10 };
            assert_eq!(image.blocks(), blocks, "write {nr}");
        }
        Err(_) => {
            assert!(fs.unmount().is_err() && is_hit, "write {nr}");
            tree.assert_same(&image.tree(), &Policy::default());
            assert!(
                [image.kind.blocks, 36 << 10].contains(&image.blocks()),
                "write {nr}"
            );
        }
    }
    image.assert_clean(&format!("write {nr}"));
    is_hit
}

#[test]
fn a_failed_write_leaves_one_of_both_sizes() {
    let count = (0..1000)
        .take_while(|nr| grow_with_a_failed_write(*nr))
        .count();
    assert!(count > 10, "{count} writes");
}
