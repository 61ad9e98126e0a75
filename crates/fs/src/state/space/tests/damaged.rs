//! Damaged bitmaps of one group (`errors=continue`): its space is not promised to any file.

use super::*;
use crate::state::space::loaders::LookLoader;
use crate::types::options::Allocator;
use uext4_device::BlockDevice;
use uext4_format::{GroupNr, superblock};
use uext4_journal::Object;

/// Groups of 8 MiB.
const MIB: u64 = 48;
const BAD: GroupNr = GroupNr(3);
const ALLOCATORS: [Allocator; 3] = [
    Allocator::Linear,
    Allocator::Optimized,
    Allocator::FreespaceTree,
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Blocks,
    Inodes,
}

/// An image of mke2fs in which bits of one bitmap of a group are flipped.
fn damaged(which: Which) -> (Arc<MemDevice>, u64) {
    let made_with = ["-b", "1024", "-N", "480", "-m", "0", "-O", "^flex_bg"];
    let (_scratch, image) = oracle::mke2fs_image(MIB << 20, &made_with).expect("mke2fs");
    let bytes = std::fs::read(&image).expect("the image");
    let device = Arc::new(MemDevice::from_bytes(&bytes));
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("mounts");
    // The bitmaps are written when something is allocated there.
    let near = fs.fs.base.geometry.inode_at(BAD, 0);
    let handle = fs
        .fs
        .start(crate::types::credits::CREATE)
        .expect("a handle");
    let goal = Some(fs.fs.base.geometry.group_first_block(BAD));
    let reserve = crate::state::space::Reserve::MayUse;
    let space = &fs.fs.space;
    let block = space.allocate_block(&fs.fs.base, &handle, goal, near, reserve, None);
    let block = block.expect("a block");
    assert_eq!(fs.fs.base.geometry.group_of_block(block), BAD);
    let kind = uext4_format::FileType::Regular;
    space
        .take_inode(&fs.fs.base, &handle, near, kind)
        .expect("an inode");
    drop(handle);
    fs.sync().expect("syncs");
    let descriptor = space
        .raw
        .parse(BAD, &space.layout.geometry, &space.layout.checksums)
        .expect("a descriptor");
    let group = space.group(BAD).expect("the group");
    let (place, lost) = match which {
        Which::Blocks => {
            let lost = group.blocks.live().read().free_clusters;
            (descriptor.block_bitmap, lost)
        }
        Which::Inodes => (
            descriptor.inode_bitmap,
            fs.fs.base.geometry.inodes_per_group - 1,
        ),
    };
    fs.unmount().expect("unmounts");
    device.write_at(place.0 << 10, &[0x5A; 4]).expect("damages");
    (device, lost.into())
}

fn mount(device: &Arc<MemDevice>, allocator: Allocator, delalloc: bool) -> Filesystem {
    let options = MountOptions {
        delalloc: Some(delalloc),
        allocator,
        prefetch_bitmaps: false,
        ..MountOptions::default()
    };
    Filesystem::mount(device.clone(), options).expect("mounts")
}

fn survey(fs: &Filesystem) {
    let space = &fs.fs.space;
    space.engine.learn(&LookLoader { space }, &|| true);
}

/// Writes chunks until one fails; returns the bytes that were accepted.
fn fill(fs: &Filesystem, file: &InodeRef) -> u64 {
    let chunk = vec![0xC3; 256 << 10];
    let mut at = 0;
    loop {
        match fs.write(file, at, &chunk, &WriteContext::ROOT) {
            Ok(written) => at += written.len_bytes as u64,
            Err(Error::NoSpace) => return at,
            Err(error) => panic!("{error}"),
        }
    }
}

fn assert_holds(fs: &Filesystem, name: &str, len: u64) {
    let root = fs.root().expect("the root");
    let caller = Caller::root();
    let file = fs.lookup(&root, name.as_bytes(), &caller).expect("a file");
    assert_eq!(fs.attr(&file).size_bytes, len);
    let mut data = vec![0; 256 << 10];
    let mut at = 0;
    while at < len {
        let got = fs.read(&file, at, &mut data).expect("reads");
        assert!(got > 0 && data[..got].iter().all(|byte| *byte == 0xC3));
        at += got as u64;
    }
}

/// What the kernel stores of a file that it fills the image with.
fn kernel_fills(device: &MemDevice) -> u64 {
    use std::io::Write;
    let scratch = oracle::scratch_dir().expect("a scratch directory");
    let image = scratch.path().join("image.img");
    std::fs::write(&image, device.to_bytes()).expect("the image");
    let mount = oracle::KernelMount::new(&image, "errors=continue").expect("mounts");
    let mut file = std::fs::File::create(mount.path().join("all")).expect("a file");
    let chunk = vec![0xC3; 64 << 10];
    let (mut stored, mut failures) = (0, 0);
    // It loses data at first, and promises too much, so each chunk is synced.
    while stored < MIB << 20 && failures < 4 {
        let len = file.write(&chunk).unwrap_or(0);
        if len > 0 && file.sync_data().is_ok() {
            stored += len as u64;
        } else {
            failures += 1;
        }
    }
    drop(file);
    mount.unmount().expect("unmounts");
    stored
}

#[test]
fn space_of_a_damaged_bitmap_is_not_promised() {
    if !oracle::KernelMount::available_or_skip("damaged bitmaps") {
        return;
    }
    let (image, lost) = damaged(Which::Blocks);
    let bytes = image.to_bytes();
    let kernel_bytes = kernel_fills(&image);
    for (allocator, delalloc) in ALLOCATORS
        .into_iter()
        .flat_map(|it| [(it, false), (it, true)])
    {
        let what = format!("{allocator:?}, delalloc {delalloc}");
        let device = Arc::new(MemDevice::from_bytes(&bytes));
        let fs = mount(&device, allocator, delalloc);
        let before = fs.statfs().blocks_free;
        survey(&fs);
        assert_eq!(before - fs.statfs().blocks_free, lost, "{what}");
        let file = create(&fs, "all");
        let len = fill(&fs, &file);
        assert!(
            len + (256 << 10) > kernel_bytes,
            "{what}: {len} of {kernel_bytes}"
        );
        fs.fsync(&file).expect("all has its place");
        assert!(fs.statfs().blocks_available == 0, "{what}");
        assert_counts_agree(&fs);
        drop(file);
        fs.unmount().expect("unmounts");
        let fs = mount(&device, allocator, delalloc);
        assert_holds(&fs, "all", len);
        fs.unmount().expect("unmounts");
    }
}

/// As [`assert_counts`], where space on disk is lost.
fn assert_counts_agree(fs: &Filesystem) {
    fs.sync().expect("a commit gives freed space back");
    let space = &fs.fs.space;
    space.discard_preallocations();
    assert_eq!(space.engine.free_clusters(), space.claims.available());
}

/// Requests find the damage: they take other groups, and the data that were accepted before wait
/// until there is space.
#[test]
fn accepted_data_wait_for_space() {
    for allocator in ALLOCATORS {
        let (device, lost) = damaged(Which::Blocks);
        let fs = mount(&device, allocator, true);
        let old = create(&fs, "old");
        fs.write(
            &old,
            0,
            &vec![1; (lost as usize) << 10],
            &WriteContext::ROOT,
        )
        .expect("fits");
        fs.fsync(&old).expect("fits");
        // Whether the damage is found before or after the writes, nothing is lost.
        let all = create(&fs, "all");
        let len = fill(&fs, &all);
        let synced = fs.fsync(&all);
        assert!(matches!(synced, Ok(()) | Err(Error::NoSpace)), "{synced:?}");
        fs.truncate(&old, 0).expect("truncates");
        // The commit of the truncate returns the space; a sync that fails earlier does not wait for
        // it.
        let stored = (0..20).any(|_| {
            let synced = fs.sync().and_then(|()| fs.fsync(&all));
            assert!(matches!(synced, Ok(()) | Err(Error::NoSpace)), "{synced:?}");
            synced.is_ok()
        });
        assert!(stored, "{allocator:?}: space is there");
        drop((old, all));
        fs.unmount().expect("unmounts");
        let fs = mount(&device, allocator, true);
        assert_holds(&fs, "all", len);
        fs.unmount().expect("unmounts");
    }
}

#[test]
fn a_damaged_inode_bitmap_leaves_the_other_groups() {
    let (image, lost) = damaged(Which::Inodes);
    let bytes = image.to_bytes();
    for racing in [false, true] {
        let device = Arc::new(MemDevice::from_bytes(&bytes));
        let mut options = MountOptions::default();
        options.base_lines.racing_inodes = racing;
        let fs = Filesystem::mount(device.clone(), options).expect("mounts");
        let root = fs.root().expect("the root");
        let free = fs.statfs().inodes_free;
        let caller = Caller::root();
        let mut made = 0;
        let refused = loop {
            let name = format!("d{made}");
            let one = match made % 2 {
                0 => fs.mkdir(&root, name.as_bytes(), 0o755, &caller),
                _ => fs.create(&root, name.as_bytes(), 0o644, &caller),
            };
            match one {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoInodes), "{refused}");
        assert_eq!(made, free - lost);
        assert_eq!(fs.statfs().inodes_free, 0);
        assert!(!fs.incidents().is_empty(), "the damage is named");
        assert_eq!(u64::from(fs.fs.space.free_on_disk().1), lost);
        drop(root);
        fs.unmount().expect("unmounts");
    }
}

/// The survey alone finds the damage: the next operation records it and applies `errors=`.
#[test]
fn damage_that_the_survey_finds_is_recorded() {
    for allocator in ALLOCATORS {
        let (device, _) = damaged(Which::Blocks);
        let options = MountOptions {
            allocator,
            prefetch_bitmaps: false,
            on_error: crate::types::options::OnError::RemountReadOnly,
            ..MountOptions::default()
        };
        let fs = Filesystem::mount(device.clone(), options).expect("mounts");
        survey(&fs);
        let root = fs.root().expect("the root");
        let first = fs.mkdir(&root, b"first", 0o755, &Caller::root());
        let second = fs.mkdir(&root, b"second", 0o755, &Caller::root());
        assert!(first.is_err() || second.is_err(), "{allocator:?}");
        assert!(!fs.incidents().is_empty(), "{allocator:?}");
        drop(root);
        let _failed_over = fs.unmount();
        let disk = crate::state::superblock::read_superblock(&*device, None).expect("a superblock");
        assert!(disk.state & superblock::state::ERROR != 0, "{allocator:?}");
    }
}
