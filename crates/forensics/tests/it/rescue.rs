//! What is left of damaged images is copied.

use crate::base::{MODERN, OLD, WIDE, content, made, mount};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::format::InodeNr;
use uext4::{Caller, WriteContext};
use uext4_forensics::{Error, Image, Kind, Memory, Remains, Rescue};
use uext4_testkit::damage::{Checksums, Target, Wound};
use uext4_testkit::oracle;

/// Files with their contents, and how much is left of them.
type Tree = BTreeMap<String, (Vec<u8>, Remains)>;

fn rescued(path: &Path, with_log: bool) -> Tree {
    let memory = Memory::new(64 << 20);
    let device = Arc::new(FileDevice::open(path, Access::ReadOnly).expect("it is there"));
    let (mut image, _) = Image::open_with_backups(device, &memory).expect("a superblock");
    let mut ring = None;
    if with_log {
        ring = image.read_log(None, &memory).unwrap_or(None);
    }
    let mut rescue = Rescue::new(&image, ring.as_mut(), &memory).expect("memory");
    let mut tree = Tree::new();
    let walked = rescue.walk::<Error>(InodeNr::ROOT, &mut |image, met| {
        let path = String::from_utf8(met.path).expect("text");
        if let Kind::File(mut file) = met.kind {
            let mut bytes = vec![0; file.size as usize];
            file.read::<Error>(image, &mut |at, part| {
                bytes[at as usize..][..part.len()].copy_from_slice(part);
                Ok(())
            })?;
            tree.insert(path, (bytes, file.remains()));
        }
        Ok(())
    });
    walked.expect("memory");
    tree
}

fn assert_whole(tree: &Tree) {
    for i in (1..20).step_by(2) {
        let name = format!("file{i}");
        let (bytes, remains) = &tree[&format!("dir/{name}")];
        assert_eq!(*bytes, content(&name, 700 * (i + 1)));
        assert_eq!(*remains, Remains::Whole);
    }
    assert_eq!(tree.len(), 10, "{:?}", tree.keys());
}

#[test]
fn sound_images_are_whole() {
    for options in [MODERN, WIDE, OLD] {
        let made = made(options);
        assert_whole(&rescued(&made.clean, true));
        assert_whole(&rescued(&made.live, true));
    }
}

/// Runs are kept for one file at a time.
#[test]
fn memory_does_not_grow_with_the_files() {
    let dir = oracle::scratch_dir().expect("a directory");
    let path = dir.path().join("image");
    oracle::mke2fs(&path, 16 << 20, MODERN).expect("mke2fs");
    let fs = mount(&path);
    let root = fs.root().expect("it is there");
    for i in 0..40 {
        let name = format!("file{i}");
        let file = fs.create(&root, name.as_bytes(), 0o644, &Caller::root());
        let file = file.expect("there is space");
        for hole in 0..200 {
            let written = fs.write(&file, hole * 2048, b"x", &WriteContext::ROOT);
            written.expect("there is space");
        }
    }
    fs.unmount().expect("it closes");
    let memory = Memory::new(300 << 10);
    let device = FileDevice::open(&path, Access::ReadOnly).expect("it is there");
    let mut image = Image::open(Arc::new(device), None, &memory).expect("it is sound");
    let mut ring = image.read_log(None, &memory).expect("it is sound");
    let mut rescue = Rescue::new(&image, ring.as_mut(), &memory).expect("memory");
    let mut files = 0;
    let walked = rescue.walk::<Error>(InodeNr::ROOT, &mut |_, met| {
        files += usize::from(matches!(met.kind, Kind::File(_)));
        Ok(())
    });
    assert!(walked.is_ok() && files == 40, "{walked:?}, {files}");
}

#[test]
fn a_lost_superblock_and_descriptors_have_copies() {
    let made = made(MODERN);
    let image = std::fs::OpenOptions::new()
        .write(true)
        .open(&made.clean)
        .expect("it is there");
    image.write_all_at(&[0; 3072], 1024).expect("it is written");
    assert_whole(&rescued(&made.clean, true));
    assert_whole(&rescued(&made.clean, false));
}

#[test]
fn an_image_that_was_cut_is_read_up_to_its_end() {
    let made = made(MODERN);
    let image = std::fs::OpenOptions::new()
        .write(true)
        .open(&made.clean)
        .expect("it is there");
    image.set_len(15 << 20).expect("it is cut");
    assert_whole(&rescued(&made.clean, true));
}

#[test]
fn damage_costs_only_what_it_hits() {
    for options in [MODERN, WIDE, OLD] {
        let made = made(options);
        let (mut files, mut wounds) = (0, 0);
        for seed in 0..40 {
            let targets = [
                Target::Directory,
                Target::Inode,
                Target::Descriptor,
                Target::Superblock,
            ];
            let target = targets[seed as usize % targets.len()];
            // The image of large blocks has one group, so no copies.
            if options == WIDE && matches!(target, Target::Descriptor | Target::Superblock) {
                continue;
            }
            let wound = Wound::inflict(&made.clean, target, seed, Checksums::Left);
            let Some(wound) = wound.expect("a wound") else {
                continue;
            };
            let tree = rescued(&made.clean, true);
            let contents = (1..20)
                .step_by(2)
                .map(|i| content(&format!("file{i}"), 700 * (i + 1)));
            let left = contents
                .filter(|one| tree.values().any(|(bytes, _)| bytes == one))
                .count();
            assert!(
                left >= 8,
                "{options:?}, seed {seed}: {wound}: {left}, {:?}",
                tree.keys()
            );
            (files, wounds) = (files + left, wounds + 1);
            wound.heal(&made.clean).expect("it is there");
        }
        assert!(
            wounds >= 20 && files * 100 >= wounds * 950,
            "{files} of {wounds}"
        );
    }
}
