//! Deleted files come back with their names and contents.

use crate::base::{MODERN, OLD, WIDE, content, made, mount, open};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use uext4::format::GroupNr;
use uext4::{Caller, WriteContext};
use uext4_forensics::{Content, Deleted, Memory, Owner, Owners, Remains, deleted, fast_commits};
use uext4_testkit::oracle::{self, Access, KernelMount};

/// The deleted files of an image with their contents; what is lost is zero.
fn found(path: &Path) -> Vec<(Deleted, Vec<u8>)> {
    let memory = Memory::new(64 << 20);
    let (image, mut ring) = open(path, &memory).expect("it is sound");
    let all = deleted(&image, ring.as_mut(), &memory).expect("memory");
    all.into_iter()
        .map(|mut one| {
            let mut content: Content = one.content.clone();
            let mut bytes = vec![0; one.content.size as usize];
            let read = content.read::<()>(&image, &mut |at, part| {
                bytes[at as usize..][..part.len()].copy_from_slice(part);
                Ok(())
            });
            read.expect("it goes on");
            one.content = content;
            (one, bytes)
        })
        .collect()
}

fn named<'a>(all: &'a [(Deleted, Vec<u8>)], path: &str) -> &'a (Deleted, Vec<u8>) {
    let named = all
        .iter()
        .find(|(one, _)| one.path.as_deref() == Some(path.as_bytes()));
    let paths: Vec<_> = all.iter().map(|(one, _)| one.path.clone()).collect();
    named.unwrap_or_else(|| panic!("{path} is not in {paths:?}"))
}

#[test]
fn files_of_the_engine_come_back_from_the_log() {
    for options in [MODERN, WIDE, OLD] {
        let made = made(options);
        for path in [&made.live, &made.clean] {
            let all = found(path);
            for i in (0..20).step_by(2) {
                let name = format!("file{i}");
                let (one, bytes) = named(&all, &format!("dir/{name}"));
                assert_eq!(one.content.remains(), Remains::Whole, "{one:?}");
                assert_eq!(*bytes, content(&name, 700 * (i + 1)), "{one:?}");
                assert!(one.deleted.is_some() && one.transaction.is_some());
            }
            let (one, bytes) = named(&all, "gone/inner");
            assert_eq!(one.content.remains(), Remains::Whole, "{one:?}");
            assert_eq!(*bytes, content("inner", 5000));
            let (one, bytes) = named(&all, "dir/holes");
            assert_eq!(one.content.remains(), Remains::Whole, "{options:?} {one:?}");
            assert_eq!(bytes[199 * 8192..], content("holes", 600));
            assert_eq!(bytes[600..8192], [0; 8192 - 600]);
            assert!(
                !all.iter()
                    .any(|(one, _)| one.path.as_deref() == Some(b"dir/file1"))
            );
        }
    }
}

#[test]
fn what_was_overwritten_is_marked() {
    let made = made(MODERN);
    let path = &made.clean;
    let (one, _) = named(&found(path), "dir/file18").clone();
    let before = one.content.lost_bytes().count();
    assert_eq!(before, 0);
    // A new file takes blocks of deleted ones.
    let host = path.with_extension("new");
    std::fs::write(&host, vec![0xAA; 12 << 20]).expect("there is space");
    let write = format!("write {} new", host.display());
    oracle::debugfs(path, Access::Write, &[write]).expect("debugfs");
    let all = found(path);
    let states: Vec<Remains> = all.iter().map(|(one, _)| one.content.remains()).collect();
    assert!(states.contains(&Remains::Lost), "{states:?}");
    for (one, bytes) in &all {
        for lost in one.content.lost_bytes() {
            let lost = lost.start as usize..lost.end as usize;
            assert!(bytes[lost].iter().all(|byte| *byte == 0), "{one:?}");
        }
        assert!(!bytes.windows(64).any(|part| part == [0xAA; 64]), "{one:?}");
    }
}

#[test]
fn a_lost_bitmap_proves_nothing() {
    let made = made(MODERN);
    let (image, _) = open(&made.clean, &Memory::new(64 << 20)).expect("it is sound");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&made.clean)
        .expect("it is there");
    for group in (0..image.geometry().group_count).map(GroupNr) {
        let bitmap = image.descriptor(group).block_bitmap.0 * 1024;
        file.write_all_at(&[0; 1024], bitmap)
            .expect("it is written");
    }
    let all = found(&made.clean);
    assert!(all.len() >= 11, "{}", all.len());
    for (one, _) in &all {
        assert_eq!(one.content.remains(), Remains::Lost, "{one:?}");
    }
}

#[test]
fn an_inode_that_keeps_its_map_comes_back() {
    for options in [MODERN, OLD] {
        let (_dir, path) = oracle::mke2fs_image(16 << 20, options).expect("mke2fs");
        let host = path.with_extension("host");
        std::fs::write(&host, content("host", 300_000)).expect("there is space");
        let write = format!("write {} name", host.display());
        oracle::debugfs(&path, Access::Write, &[write]).expect("debugfs");
        assert_eq!(found(&path).len(), 0);
        oracle::debugfs(&path, Access::Write, &["rm name"]).expect("debugfs");
        let all = found(&path);
        assert_eq!(all.len(), 1, "{options:?}");
        assert_eq!(all[0].1, content("host", 300_000));
        assert_eq!(all[0].0.content.remains(), Remains::Whole);
        assert_eq!(all[0].0.transaction, None);
    }
}

#[test]
fn a_table_in_a_used_block_is_lost() {
    for wiped in [false, true] {
        let (_dir, path) = oracle::mke2fs_image(16 << 20, OLD).expect("mke2fs");
        let host = path.with_extension("host");
        std::fs::write(&host, content("host", 200_000)).expect("there is space");
        let write = format!("write {} name", host.display());
        oracle::debugfs(&path, Access::Write, &[write]).expect("debugfs");
        let table = {
            let memory = Memory::new(64 << 20);
            let (image, _) = open(&path, &memory).expect("it is sound");
            let all: Vec<u64> = (0..image.geometry().blocks_count).collect();
            let owners = Owners::find(&image, all.clone(), &memory).expect("memory");
            let is_table = |block: &&u64| matches!(owners.of(**block), Owner::Map(nr) if nr.0 > 11);
            *all.iter().find(is_table).expect("a table")
        };
        oracle::debugfs(&path, Access::Write, &["rm name"]).expect("debugfs");
        if wiped {
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            let file = file.expect("it is there");
            file.write_all_at(&[0; 1024], table * 1024).expect("space");
        } else {
            let used = format!("setb {table}");
            oracle::debugfs(&path, Access::Write, &[used]).expect("debugfs");
        }
        let all = found(&path);
        assert_eq!(all[0].0.content.remains(), Remains::Part);
        let lost: Vec<_> = all[0].0.content.lost_bytes().collect();
        assert!(
            lost.len() == 1 && lost[0] == (12 * 1024..200_000),
            "{lost:?}"
        );
    }
}

#[test]
fn blocks_of_fast_commits_are_in_use() {
    let dir = oracle::scratch_dir().expect("a directory");
    let (path, copy) = (dir.path().join("image"), dir.path().join("copy"));
    let options = ["-b", "1024", "-J", "size=4", "-O", "fast_commit"];
    oracle::mke2fs(&path, 16 << 20, &options).expect("mke2fs");
    let fs = mount(&path);
    let (root, caller) = (fs.root().expect("it is there"), Caller::root());
    let make = |name: &str, len: usize| {
        let file = fs.create(&root, name.as_bytes(), 0o644, &caller)?;
        fs.write(&file, 0, &vec![7; len], &WriteContext::ROOT)?;
        Ok::<_, uext4::Error>(file)
    };
    for i in 0..10 {
        make(&format!("old{i}"), 200_000).expect("there is space");
    }
    fs.sync().expect("it is written");
    for i in 0..10 {
        fs.unlink(&root, format!("old{i}").as_bytes(), &caller)
            .expect("it is there");
    }
    fs.sync().expect("it is written");
    let new = make("new", 8 << 20).expect("there is space");
    fs.fsync(&new).expect("it is written");
    std::fs::copy(&path, &copy).expect("a copy");
    let memory = Memory::new(64 << 20);
    let (image, ring) = open(&copy, &memory).expect("it is sound");
    let mut ring = ring.expect("there is a journal");
    let fast = fast_commits(&mut ring, image.geometry().inode_size, &memory).expect("memory");
    assert!(fast.expect("there are some").is_waiting());
    let all = found(&copy);
    let states: Vec<Remains> = all.iter().map(|(one, _)| one.content.remains()).collect();
    assert!(
        states.iter().any(|state| *state != Remains::Whole),
        "{states:?}"
    );
}

#[test]
fn files_of_the_kernel_come_back() {
    if !KernelMount::available_or_skip("files_of_the_kernel_come_back") {
        return;
    }
    for options in [MODERN, WIDE, OLD] {
        let (_dir, path) = oracle::mke2fs_image(32 << 20, options).expect("mke2fs");
        let mount = KernelMount::new(&path, "").expect("a mount");
        let sub = mount.path().join("a/b");
        let sync = || {
            let sync = Command::new("sync").arg("-f").arg(mount.path()).status();
            assert!(sync.expect("sync").success());
        };
        std::fs::create_dir_all(&sub).expect("there is space");
        for i in 0..12 {
            let name = format!("name{i}");
            std::fs::write(sub.join(&name), content(&name, 9000 * i + 5)).expect("space");
        }
        sync();
        for i in 0..12 {
            std::fs::remove_file(sub.join(format!("name{i}"))).expect("it is there");
        }
        sync();
        std::fs::remove_dir(&sub).expect("it is empty");
        mount.unmount().expect("it closes");
        let all = found(&path);
        for i in 0..12 {
            let name = format!("name{i}");
            let (one, bytes) = named(&all, &format!("a/b/{name}"));
            assert_eq!(one.content.remains(), Remains::Whole, "{options:?} {one:?}");
            assert_eq!(*bytes, content(&name, 9000 * i + 5), "{name}");
        }
    }
}
