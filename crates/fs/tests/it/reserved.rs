//! Directory entries of forbidden inodes: reserved numbers, internal files, value inodes; and of
//! free inodes.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use uext4::check::{CheckReport, Limits, check};
use uext4::device::{Access, FileDevice};
use uext4::format::InodeNr;
use uext4::{Caller, Error, Filesystem, MountOptions, RenameFlags, SetMode, Threads};
use uext4_testkit::oracle::{self, KernelMount};

const EUCLEAN: i32 = 117;
const EPERM: i32 = 1;
const ESTALE: i32 = 116;

fn mount(path: &Path) -> uext4::Result<Filesystem> {
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    Filesystem::mount(
        Arc::new(FileDevice::open(path, Access::ReadWrite)?),
        options,
    )
}

fn checked(path: &Path) -> CheckReport {
    let device = Arc::new(FileDevice::open(path, Access::ReadOnly).expect("it is there"));
    check(device, MountOptions::default(), &Limits::default()).expect("it can be read")
}

/// A file system with every kind of unnamed inode, and `/d` and `/file`.
fn image(path: &Path, options: &[&str]) -> Vec<(u32, &'static str)> {
    oracle::mke2fs(path, 32 << 20, options).expect("mke2fs");
    let fs = mount(path).expect("it is sound");
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    fs.mkdir(&root, b"d", 0o755, &caller).unwrap();
    let file = fs.create(&root, b"file", 0o644, &caller).unwrap();
    let value = vec![7; 20_000];
    fs.set_xattr(&file, b"user.large", &value, SetMode::Any, &caller)
        .unwrap();
    fs.unmount().unwrap();
    oracle::assert_clean(path);
    let mut hidden: Vec<_> = (1..=10)
        .filter(|nr| *nr != 2)
        .map(|nr| (nr, "reserved"))
        .collect();
    let header = oracle::dumpe2fs(path).unwrap();
    for label in ["Project quota inode", "Orphan file inode", "Journal inode"] {
        if let Ok(nr) = header.number(label) {
            hidden.push((nr as u32, label));
        }
    }
    hidden.push((value_inode(path), "value of an attribute"));
    hidden
}

/// The inode whose flags mark it as a value inode.
fn value_inode(path: &Path) -> u32 {
    let is_value = |nr: &u32| {
        let said = oracle::debugfs_one(path, &format!("stat <{nr}>")).unwrap();
        said.contains("Flags: 0x280000") || said.contains("Flags: 0x200000")
    };
    (11..40).find(is_value).expect("a value in an inode")
}

fn inject(path: &Path, command: &str) {
    oracle::debugfs(path, oracle::Access::Write, &[command]).expect("debugfs writes");
}

fn errno<T, E: Into<uext4::Error>>(answer: Result<T, E>) -> i32 {
    let refused = answer.map(drop).map_err(Into::into);
    refused.expect_err("it is refused").errno()
}

/// All operations by name and by number must fail.
fn assert_refused(path: &Path, nr: u32, what: &str, expected: i32) {
    let fs = mount(path).expect("it mounts");
    let caller = Caller::root();
    let root = fs.root().unwrap();
    let dir = fs
        .lookup(&root, b"d", &caller)
        .expect("the directory itself is sound");
    let refused = [
        errno(fs.lookup(&dir, b"evil", &caller)),
        errno(fs.lookup(&dir, b"evil", &caller)),
        errno(fs.unlink(&dir, b"evil", &caller)),
        errno(fs.rename(&dir, b"evil", &root, b"good", RenameFlags::Replace, &caller)),
        errno(fs.rename(&root, b"file", &dir, b"evil", RenameFlags::Replace, &caller)),
        errno(fs.paths().write("/d/evil", "data")),
        errno(fs.paths().read("/d/evil")),
        errno(fs.paths().metadata("/d/evil")),
        errno(fs.paths().remove_file("/d/evil")),
    ];
    assert!(
        refused.iter().all(|found| *found == expected),
        "{what} {nr}: {refused:?}"
    );
    assert_eq!(
        errno(fs.inode(InodeNr(nr))),
        ESTALE,
        "{what} {nr} by number"
    );
    fs.unmount().expect("it closes");
}

#[test]
fn no_name_leads_to_an_inode_of_the_file_system_itself() {
    let dir = oracle::scratch_dir().expect("there is room");
    let (base, path) = (dir.path().join("base"), dir.path().join("image"));
    let features = "orphan_file,quota,project,ea_inode";
    let hidden = image(
        &base,
        &["-O", features, "-E", "quotatype=usrquota:grpquota:prjquota"],
    );
    assert!(hidden.len() >= 13, "{hidden:?}");
    for (nr, what) in hidden {
        std::fs::copy(&base, &path).unwrap();
        inject(&path, &format!("link <{nr}> /d/evil"));
        let report = checked(&path);
        let named = |finding: &uext4::check::Finding| finding.to_string().contains("evil");
        assert!(report.findings.iter().any(named), "{what} {nr}: {report:?}");
        assert_refused(&path, nr, what, EUCLEAN);
    }
}

/// `..` of a directory is a name as well.
#[test]
fn the_parent_of_a_directory_is_no_inode_of_the_file_system_itself() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    image(&path, &["-O", "ea_inode,^metadata_csum", "-b", "1024"]);
    // The number of ".." in the first block of the directory.
    inject(&path, "zap_block -f /d -o 12 -l 1 -p 0x08 0");
    assert!(!checked(&path).is_clean());
    let fs = mount(&path).expect("it mounts");
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    let below = fs.lookup(&root, b"d", &caller).unwrap();
    assert_eq!(errno(fs.lookup(&below, b"..", &caller)), EUCLEAN);
    fs.unmount().expect("it closes");
}

/// `tune2fs -j` on a mounted file system keeps the journal in a named file, which e2fsck and the
/// kernel accept. It is no damage, but access to the file is refused.
#[test]
fn a_journal_with_a_name_is_closed_and_sound() {
    if !KernelMount::available_or_skip("a_journal_with_a_name_is_closed_and_sound") {
        return;
    }
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    oracle::mke2fs(&path, 32 << 20, &["-O", "^has_journal", "-b", "1024"]).unwrap();
    let mounted = KernelMount::new(&path, "").unwrap();
    let tune2fs = Command::new("tune2fs")
        .args(["-j", mounted.loop_device()])
        .output();
    assert!(tune2fs.expect("tune2fs runs").status.success());
    mounted.unmount().unwrap();
    let report = checked(&path);
    assert!(report.is_clean(), "{report:?}");
    let fs = mount(&path).expect("it mounts");
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    assert_eq!(errno(fs.lookup(&root, b".journal", &caller)), EPERM);
    fs.unmount().expect("it closes");
    assert!(checked(&path).is_clean());
    inject(&path, "link /.journal /second");
    assert!(!checked(&path).is_clean());
}

/// The inode number of a removed file.
fn freed(path: &Path) -> InodeNr {
    let fs = mount(path).expect("it mounts");
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    let nr = fs.create(&root, b"gone", 0o644, &caller).unwrap().nr();
    fs.unlink(&root, b"gone", &caller).unwrap();
    fs.unmount().unwrap();
    nr
}

/// An entry of a free inode is damage, and the message names its place.
#[test]
fn a_name_of_a_free_inode_is_damage() {
    for block_size in ["1024", "4096"] {
        for inline in [false, true] {
            let dir = oracle::scratch_dir().expect("there is room");
            let path = dir.path().join("image");
            let features = if inline {
                "inline_data"
            } else {
                "^inline_data"
            };
            oracle::mke2fs(&path, 32 << 20, &["-b", block_size, "-O", features]).unwrap();
            inject(&path, "mkdir /d");
            let nr = freed(&path);
            inject(&path, &format!("link <{nr}> /d/lost"));
            let fs = mount(&path).expect("it mounts");
            let (root, caller) = (fs.root().unwrap(), Caller::root());
            let below = fs.lookup(&root, b"d", &caller).unwrap();
            for _ in 0..2 {
                let error = fs.lookup(&below, b"lost", &caller).expect_err("it is free");
                let Error::Corrupt(corrupt) = &error else {
                    panic!("{error}")
                };
                let place = corrupt.place.to_string();
                assert!(inline || place.contains("block"), "{place}");
            }
            let refused = [
                errno(fs.unlink(&below, b"lost", &caller)),
                errno(fs.paths().remove_dir_all("/d")),
                errno(fs.paths().write("/d/lost", "data")),
            ];
            assert_eq!(refused, [EUCLEAN; 3]);
            fs.unmount().expect("it closes");
        }
    }
}

#[test]
fn a_root_that_is_free_or_no_directory_is_damage() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    for wound in ["links_count 0", "mode 0100644", "mode 0"] {
        oracle::mke2fs(&path, 32 << 20, &["-b", "1024"]).unwrap();
        inject(&path, &format!("set_inode_field <2> {wound}"));
        assert!(!checked(&path).is_clean(), "{wound}");
        let error = mount(&path).map(drop).expect_err(wound);
        assert!(matches!(error, Error::Corrupt(_)), "{wound}: {error}");
        std::fs::remove_file(&path).unwrap();
    }
}
