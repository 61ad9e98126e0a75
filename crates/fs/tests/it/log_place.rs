//! Location of the log: journals whose map has holes or points at other metadata are refused
//! without a write. Also: error fields of the superblock survive every crash of a replay.

use crate::image;
use std::sync::Arc;
use uext4::device::{BlockDevice, MemDevice, Recorder, Survivors};
use uext4::format::{Feature, GroupDescriptor, GroupNr, superblock};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Caller, Error, Filesystem, MountOptions};

const BLOCK: u64 = 4096;
/// Byte offset of the map in an inode.
const MAP_AT: u64 = 40;
/// Byte offsets in the map of the only extent's length and start (low half), after the header of 12
/// bytes.
const EXTENT_LEN_AT: u64 = 12 + 4;
const EXTENT_START_AT: u64 = 12 + 8;

/// Byte offset of the journal inode's map, and the descriptor of the first group.
fn journal_map(device: &MemDevice) -> (u64, GroupDescriptor) {
    let disk = uext4::read_superblock(device, None).unwrap();
    let geometry = disk.geometry().unwrap();
    let mut bytes = vec![0; geometry.desc_size.into()];
    let (block, offset) = geometry.descriptor_location(GroupNr(0));
    device
        .read_at(block.0 * BLOCK + u64::from(offset), &mut bytes)
        .unwrap();
    let descriptor = GroupDescriptor::parse_unverified(&bytes);
    let index = disk.journal_inum - 1;
    let (block, offset) = geometry.inode_location(descriptor.inode_table, index);
    (block.0 * BLOCK + u64::from(offset) + MAP_AT, descriptor)
}

fn get(device: &MemDevice, at: u64) -> u32 {
    let mut bytes = [0; 4];
    device.read_at(at, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

fn set(device: &MemDevice, at: u64, value: u32) {
    device.write_at(at, &value.to_le_bytes()).unwrap();
}

#[track_caller]
fn assert_refused(device: &Arc<MemDevice>, what: &str) {
    let before = device.to_bytes();
    match image::mount_with(device, "") {
        Err(Error::Corrupt(corrupt)) => assert_eq!(corrupt.structure, "journal inode", "{what}"),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: mounted"),
    }
    assert!(device.to_bytes() == before, "{what}: written");
}

#[test]
fn a_block_table_with_holes_or_over_metadata_is_no_journal() {
    let shape = ["-b", "4096", "-O", "^extents,^metadata_csum,^64bit"];
    let device = image::mke2fs(48, &shape);
    let fs = image::mount(&device);
    drop(fs.create(&fs.root().unwrap(), b"file", 0o644, &Caller::root()));
    fs.unmount().unwrap();
    let (map, group) = journal_map(&device);
    let table = u64::from(get(&device, map + 12 * 4)) * BLOCK;
    assert!(table > 0, "the journal has an indirect block");
    let places = [map + 3 * 4, map + 12 * 4, table + 100 * 4, table];
    let direct = get(&device, map + 5 * 4);
    let values = [
        (0, "hole"),
        (1, "descriptors"),
        (group.block_bitmap.0 as u32, "block bitmap"),
        (group.inode_bitmap.0 as u32, "inode bitmap"),
        (group.inode_table.0 as u32 + 2, "inode table"),
        ((table / BLOCK) as u32, "its own table"),
        (direct, "a block of the log"),
        (u32::MAX, "outside"),
    ];
    for at in places {
        let was = get(&device, at);
        for (value, what) in values.iter().filter(|(value, _)| *value != was) {
            set(&device, at, *value);
            assert_refused(&device, &format!("{what} at byte {at}"));
            set(&device, at, was);
        }
    }
    image::mount(&device).unmount().unwrap();
    image::assert_clean(&device);
}

/// The superblock's copy of the inode stands in for what the log brings home, and for nothing else.
#[test]
fn a_damaged_journal_inode_is_told_before_and_behind_a_replay() {
    let device = image::mke2fs(48, &["-b", "4096"]);
    let fs = image::mount(&device);
    let name = |nr: u32| format!("/{nr}");
    (0..40).for_each(|nr| fs.paths().write(name(nr), b"old").unwrap());
    fs.unmount().unwrap();
    // The block of the journal's inode is not in the log.
    let fs = image::mount(&device);
    fs.paths().write(name(39), b"changed").unwrap();
    fs.sync().unwrap();
    fs.abandon();
    let (map, _) = journal_map(&device);
    device.write_at(map, &[0xFF; 60]).unwrap();
    for _ in 0..2 {
        let answer = image::mount_with(&device, "").map(drop);
        assert!(matches!(answer, Err(Error::Corrupt(_))), "{answer:?}");
    }
}

/// A node of the journal's map that a crash left half written: the log holds it whole, and is found
/// although the checksum of the node is wrong.
#[test]
fn a_torn_node_of_the_map_does_not_hide_the_log() {
    const SIZE: u64 = 256 << 30;
    let device = Arc::new(MemDevice::new(SIZE));
    uext4::mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4)).unwrap();
    let fs = image::mount(&device);
    fs.paths().write("/file", b"in the log").unwrap();
    fs.sync().unwrap();
    fs.abandon();
    let (map, _) = journal_map(&device);
    assert_eq!(get(&device, map + 4) & 0xFFFF_0000, 1 << 16, "depth");
    let node = u64::from(get(&device, map + 12 + 4)) * BLOCK;
    let checksum = node + BLOCK - 4;
    set(&device, checksum, get(&device, checksum) ^ 1);
    let fs = image::mount(&device);
    assert_eq!(fs.paths().read("/file").unwrap(), b"in the log");
    fs.unmount().unwrap();
}

/// All pointers of three levels of tables name one table, so a few blocks claim to map 2^30.
#[test]
fn tables_that_name_themselves_are_no_journal() {
    const LARGE: u64 = 3 << 40;
    let shape = ["-b", "4096", "-O", "^extents,^metadata_csum,^64bit"];
    let device = image::mke2fs(48, &shape);
    let (map, _) = journal_map(&device);
    let table = u64::from(get(&device, map + 12 * 4)) * BLOCK;
    let own = (table / BLOCK) as u32;
    for at in (0..BLOCK).step_by(4) {
        set(&device, table + at, own);
    }
    // The size field begins 36 bytes before the map, its upper half 68 bytes behind it.
    set(&device, map - MAP_AT + 4, LARGE as u32);
    set(&device, map - MAP_AT + 108, (LARGE >> 32) as u32);
    for level in 0..3 {
        set(&device, map + (12 + level) * 4, own);
    }
    assert_refused(&device, "tables in a circle");
}

#[test]
fn an_extent_over_metadata_is_no_journal() {
    let shape = ["-b", "4096", "-O", "^metadata_csum,^64bit"];
    let device = image::mke2fs(48, &shape);
    let (map, group) = journal_map(&device);
    let (start_at, len_at) = (map + EXTENT_START_AT, map + EXTENT_LEN_AT);
    let (start, len) = (get(&device, start_at), get(&device, len_at));
    let values = [
        0,
        1,
        group.block_bitmap.0 as u32,
        group.inode_table.0 as u32 + 2,
    ];
    for value in values {
        set(&device, start_at, value);
        assert_refused(&device, &format!("extent from {value}"));
    }
    set(&device, start_at, start);
    // A length above 32768 means unwritten.
    set(&device, len_at, len + 0x8000);
    assert_refused(&device, "unwritten");
    set(&device, len_at, len);
    image::mount(&device).unmount().unwrap();
    image::assert_clean(&device);
}

/// A log that contains a superblock image, and an on-disk superblock with error fields.
fn with_noted_errors() -> Arc<MemDevice> {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.features.remove(Feature::ORPHAN_FILE);
    let device = image::fresh(32, &options);
    let fs = image::mount(&device);
    let (root, user) = (fs.root().unwrap(), Caller::root());
    let file = fs.create(&root, b"open", 0o644, &user).unwrap();
    fs.unlink(&root, b"open", &user).unwrap();
    // The superblock is the head of the orphan list.
    fs.sync().unwrap();
    fs.abandon();
    drop(file);
    drop(fs);
    let mut disk = uext4::read_superblock(&*device, None).unwrap();
    assert_eq!(disk.last_orphan, 0, "the image is in the log only");
    disk.state |= superblock::state::ERROR;
    disk.error_count = 3;
    disk.last_error_time = 1_700_000_000;
    let bytes: [u8; 1024] = disk.to_bytes();
    device.write_at(1024, &bytes).unwrap();
    device.flush().unwrap();
    device
}

#[test]
fn a_note_of_errors_survives_each_crash_of_a_replay() {
    let recorder = Arc::new(Recorder::new(with_noted_errors()));
    let fs = Filesystem::mount(recorder.clone(), MountOptions::default()).unwrap();
    fs.unmount().unwrap();
    drop(fs);
    let mut log = recorder.log();
    log.keep_whole(1024..2048);
    assert!(log.len() > 5);
    for cut in 0..=log.len() {
        for survivors in [Survivors::All, Survivors::None] {
            let image = log.image(cut, survivors);
            let disk = uext4::read_superblock(&image, None).unwrap();
            let what = format!("cut {cut}, {survivors:?}");
            assert_ne!(disk.state & superblock::state::ERROR, 0, "{what}");
            assert_eq!(disk.error_count, 3, "{what}");
        }
    }
}
