//! Images to repair: three kinds of file system with files, and faults in them.

use crate::check_faults::images::{INLINE, OLD, base};
use crate::check_faults::{Blow, blows, burst};
use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::format::{BlockNr, GroupDescriptor, GroupNr, Superblock};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_testkit::damage::Target;
use uext4_testkit::oracle;
use uext4_testkit::rng::Rng;

/// As the modern base of `check_faults`, without quota, whose usage no repair counts, and without
/// MMP, where each repair waits for other hosts.
const MODERN: &[&str] = &["-b", "1024", "-O", "ea_inode,project,orphan_file"];

/// Adds files with contents of their own, in an indexed directory and deep below it. Returns the
/// file system before the unmount, as a crash leaves it.
fn furnish(image: &Path) -> Vec<u8> {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite).expect("it is there"));
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device, options).expect("it is sound");
    let paths = fs.paths();
    for number in 0..FILES {
        let dir = format!("/files/{}/below", number % 5);
        paths.create_dir_all(&dir).expect("there is room");
        let bytes = vec![u8::try_from(number + 1).expect("few"); number * 97 + 1];
        let path = format!("{dir}/a file with a name of its own {number}");
        paths.write(&path, bytes).expect("there is room");
    }
    fs.sync().expect("there is room");
    let crashed = std::fs::read(image).expect("it is there");
    fs.unmount().expect("it closes");
    oracle::assert_clean(image);
    crashed
}

/// Number of these files.
const FILES: usize = 200;

/// Contents of all files that can be read.
pub(super) fn contents(image: &Path) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    let Ok(device) = FileDevice::open(image, Access::ReadOnly) else {
        return all;
    };
    let options = MountOptions {
        access: uext4::Access::ReadOnly,
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let Ok(fs) = Filesystem::mount(Arc::new(device), options) else {
        return all;
    };
    let paths = fs.paths();
    for entry in paths.walk("/").into_iter().flatten().flatten() {
        let found = entry.metadata();
        if !found.is_file() || !(1..FILE_BYTES_MAX).contains(&found.len()) {
            continue;
        }
        if let Ok(bytes) = paths.read(entry.full_path()) {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            all.insert(hasher.finish());
        }
    }
    all
}

/// Larger files have a wrong size.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// An image to damage, and older states of it: after a crash, and before its files.
pub(super) struct Base {
    image: PathBuf,
    crashed: Vec<u8>,
    older: Vec<u8>,
}

/// The three kinds of file system.
pub(super) fn bases(dir: &Path) -> Vec<Base> {
    let kinds = [MODERN, INLINE, OLD].into_iter().enumerate();
    kinds
        .map(|(at, options)| {
            let image = dir.join(format!("base{at}"));
            base(&image, options);
            let older = std::fs::read(&image).expect("it is there");
            let crashed = furnish(&image);
            assert!(contents(&image).len() > FILES, "they can be read");
            Base {
                image,
                crashed,
                older,
            }
        })
        .collect()
}

/// Damages a copy of the base of a seed; returns what was done, in words, which is nothing where
/// there is no such structure.
pub(super) fn damage(bases: &[Base], seed: u64, image: &Path) -> Vec<String> {
    let base = &bases[(seed / 7 % bases.len() as u64) as usize];
    match seed % CRASHED {
        0 => std::fs::write(image, &base.crashed).expect("there is room"),
        _ => drop(std::fs::copy(&base.image, image).expect("a copy")),
    }
    let all = Target::ALL.into_iter().chain(Target::RARE);
    let targets: Vec<_> = all.chain(Target::INNER).collect();
    match seed / 3 % 8 {
        5 if seed % 3 == 1 => lose_place(seed, image),
        6 => strike(&burst(&targets, seed, BURST), image),
        7 => lose_writes(base, seed, image),
        _ => strike(&blows(&targets, seed), image),
    }
}

/// One of so many images is as after a crash.
const CRASHED: u64 = 5;

/// Faults of a burst.
const BURST: u64 = 16;

fn strike(blows: &[Blow], image: &Path) -> Vec<String> {
    let mut wounds = Vec::new();
    for (at, blow) in blows.iter().enumerate() {
        match blow.strike(image) {
            // The first fault can make the second structure unreachable.
            Err(_) if at > 0 => {}
            wound => wounds.extend(wound.expect("a wound").map(|wound| wound.to_string())),
        }
    }
    wounds
}

/// Lets a descriptor lead outside, or to other metadata, with a wrong or a right checksum, and
/// wounds all its backups.
fn lose_place(seed: u64, image: &Path) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let mut bytes = std::fs::read(image).expect("it is there");
    let disk = Superblock::parse(&bytes[1024..2048]).expect("it is sound");
    let geometry = disk.geometry().expect("it is sound");
    let checksums = disk.checksums();
    let group = GroupNr(rng.below(geometry.group_count.into()) as u32);
    let byte = |block: BlockNr| (block.0 << geometry.block_bits) as usize;
    for holder in (1..geometry.group_count).map(GroupNr) {
        let Some((first, run)) = geometry.descriptor_run(holder) else {
            continue;
        };
        if run.start != geometry.descriptor_block(first) {
            let len = run.len_blocks as usize * geometry.block_size() as usize;
            bytes[byte(run.start)..][..len].fill(0xA5);
        }
    }
    let (block, at) = geometry.descriptor_location(group);
    let at = byte(block) + at as usize;
    let size = usize::from(geometry.desc_size);
    let mut descriptor = GroupDescriptor::parse_unverified(&bytes[at..][..size]);
    let other = GroupNr(rng.below(geometry.group_count.into()) as u32);
    let (block, at_other) = geometry.descriptor_location(other);
    let at_other = byte(block) + at_other as usize;
    let other = GroupDescriptor::parse_unverified(&bytes[at_other..][..size]);
    let fields = 1 + rng.below(7);
    for (nth, place) in [
        &mut descriptor.block_bitmap,
        &mut descriptor.inode_bitmap,
        &mut descriptor.inode_table,
    ]
    .into_iter()
    .enumerate()
    .filter(|(nth, _)| fields & 1 << nth != 0)
    {
        let places = [
            BlockNr(0),
            BlockNr(geometry.blocks_count),
            BlockNr(geometry.first_data_block.into()),
            other.block_bitmap,
            other.inode_bitmap,
            other.inode_table,
        ];
        // The last one of its kind may be its own.
        *place = places[(rng.below(places.len() as u64) as usize + nth) % places.len()];
    }
    let is_sealed = rng.below(2) == 0;
    let mut out = vec![0; size];
    descriptor.write_to(&mut out, group, &geometry, &checksums);
    if !is_sealed {
        out[0x1E] ^= 0x55;
    }
    bytes[at..][..size].copy_from_slice(&out);
    std::fs::write(image, bytes).expect("there is room");
    vec![format!("places of group {group} lost: {descriptor:?}")]
}

/// Brings blocks of the older state back, as if their last writes were lost.
fn lose_writes(base: &Base, seed: u64, image: &Path) -> Vec<String> {
    let mut bytes = std::fs::read(image).expect("it is there");
    let newer = bytes.chunks(LOST_BYTES).zip(base.older.chunks(LOST_BYTES));
    let changed: Vec<_> = newer
        .enumerate()
        .filter(|(_, (new, old))| new != old)
        .map(|(at, _)| at * LOST_BYTES)
        .collect();
    let mut rng = Rng::new(seed);
    let lost: Vec<_> = (0..=rng.below(LOST_MAX))
        .map(|_| changed[rng.below(changed.len() as u64) as usize])
        .collect();
    for at in &lost {
        let range = *at..at + LOST_BYTES;
        bytes[range.clone()].copy_from_slice(&base.older[range]);
    }
    std::fs::write(image, bytes).expect("there is room");
    lost.iter()
        .map(|at| format!("byte {at}: write lost"))
        .collect()
}

/// Size of a lost write, and most of them less one.
const LOST_BYTES: usize = 4096;
const LOST_MAX: u64 = 8;
