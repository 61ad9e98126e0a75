//! Larger inodes. The judges: e2fsck, the kernel, debugfs, a manifest.

use super::kind::{Image, Kind};
use crate::image::on_disk;
use uext4::format::Feature;
use uext4::resize::set_inode_size;
use uext4::{Error, ResizeError, SetMode};
use uext4_testkit::manifest::Policy;
use uext4_testkit::oracle::{self, KernelMount};

const MIB: u64 = 1 << 20;

/// A file system with files, and attributes of which some are in blocks of their own.
pub(super) fn made(kind: Kind) -> Image {
    let image = kind.make(kind.blocks * u64::from(kind.block_size));
    image.fill("/before", MIB, 11);
    image.mounted(|fs| {
        let paths = fs.paths();
        paths.write("/plain", b"data").expect("a file");
        for (at, len) in [5, 60, 300].into_iter().enumerate() {
            let path = format!("/with attribute {at}");
            paths.write(&path, b"data").expect("a file");
            let set = paths.set_xattr(&path, "user.before", vec![at as u8; len], SetMode::Any);
            set.expect("an attribute");
        }
    });
    image
}

/// Sets an attribute by the kernel, which only the larger inode has room for.
fn assert_kernel_uses_room(image: &Image, len: usize) {
    let (_dir, path) = on_disk(&image.main);
    let mounted = KernelMount::new(&path, "").expect("the kernel mounts it");
    let file = mounted.path().join("plain");
    let flags = rustix::fs::XattrFlags::CREATE;
    rustix::fs::setxattr(&file, "user.room", &vec![7; len], flags).expect("an attribute");
    mounted.unmount().expect("unmount");
    oracle::assert_clean(&path);
    let told = oracle::debugfs_one(&path, "stat /plain").expect("debugfs");
    assert!(told.contains("File ACL: 0"), "{}: {told}", image.kind.name);
}

fn enlarge(image: &Image, inode_bytes: u16) -> uext4::Result<()> {
    set_inode_size(image.main.clone(), image.options(), inode_bytes)
}

/// What debugfs says about a path.
fn told(image: &Image, path: &str) -> String {
    let (_dir, file) = on_disk(&image.main);
    oracle::debugfs_one(&file, &format!("stat {path}")).expect("debugfs runs")
}

fn has(image: &Image, feature: Feature) -> bool {
    let disk = uext4::read_superblock(&*image.main, None).unwrap();
    disk.features().has(feature)
}

/// Twice as large, and then of at most 1,024 bytes.
fn enlarge_in_turn(kind: Kind) {
    let image = made(kind);
    if !has(&image, Feature::HAS_JOURNAL) {
        return;
    }
    let tree = image.tree();
    let from = image.inode_size();
    for wanted in [2 * from, (8 * from).min(1024)] {
        let what = format!("{}, from {from} to {wanted} bytes", kind.name);
        match enlarge(&image, wanted) {
            Ok(()) => {}
            // Tables have to be in their groups, which are full of the journal.
            Err(Error::Resize(ResizeError::OwnTables { .. })) if kind.name == "no-flex" => break,
            Err(error) => panic!("{what}: {error}"),
        }
        assert_eq!(image.inode_size(), wanted, "{what}");
        image.assert_clean(&what);
        tree.assert_same(&image.tree(), &Policy::default());
        let has_kernel = kind.has_kernel() && KernelMount::available_or_skip("inode_size");
        if has_kernel && wanted == 2 * from {
            assert_kernel_uses_room(&image, usize::from(from) - 80);
        }
        if has_kernel && wanted == 1024 {
            let (_dir, path) = on_disk(&image.main);
            tree.assert_same(&image.kernel_tree(&path), &Policy::default());
        }
    }
    image.fill("/after", MIB / 2, 12);
    image.assert_clean(kind.name);
}

#[test]
fn all_kinds_get_larger_inodes() {
    Kind::ALL.into_iter().for_each(enlarge_in_turn);
}

#[test]
fn old_inodes_of_many_kinds_get_larger() {
    for name in [
        "ext4",
        "ext4-4k",
        "small-groups",
        "no-flex",
        "no-checksums",
        "uninit",
    ] {
        enlarge_in_turn(Kind::named(name).with_inodes(128));
    }
}

/// A directory made afterwards has all fields, one from before at once or when it changes.
#[test]
fn the_room_is_used() {
    let image = made(Kind::named("ext3"));
    assert!(!told(&image, "/before").contains("crtime"));
    enlarge(&image, 256).expect("larger inodes");
    image.mounted(|fs| fs.paths().create_dir_all("/new").expect("a directory"));
    let text = told(&image, "/new");
    assert!(text.contains("crtime"), "{text}");
    image.assert_clean("with larger inodes");
}

#[test]
fn what_cannot_be_is_refused_without_a_write() {
    let cases: [(&str, u16, &str); 5] = [
        ("ext4", 128, "smaller"),
        ("ext4", 300, "power of two"),
        ("ext4", 2048, "to one block"),
        ("ext4", 0, "power of two"),
        ("no-journal", 512, "journal"),
    ];
    for (name, wanted, reason) in cases {
        let image = made(Kind::named(name));
        let before = image.main.to_bytes();
        let error = enlarge(&image, wanted).expect_err("a refusal").to_string();
        assert!(error.contains(reason), "{name}, {wanted}: {error}");
        assert!(image.main.to_bytes() == before, "{name}, {wanted}");
    }
}

#[test]
fn a_full_file_system_has_no_runs_for_tables() {
    for name in ["ext4", "no-flex"] {
        let image = made(Kind::named(name));
        image.mounted(|fs| {
            let mut at = 0;
            while fs
                .paths()
                .write(format!("/fill {at}"), vec![1; 50_000])
                .is_ok()
            {
                at += 1;
            }
        });
        let (tree, before) = (image.tree(), image.main.to_bytes());
        match enlarge(&image, 512) {
            Err(Error::Resize(ResizeError::TableSpace { .. })) => {}
            other => panic!("{name}: {other:?}"),
        }
        assert!(image.main.to_bytes() == before, "{name}");
        tree.assert_same(&image.tree(), &Policy::default());
        image.assert_clean(name);
    }
}

#[test]
fn the_same_size_is_no_change() {
    let image = made(Kind::named("ext4"));
    let before = image.main.to_bytes();
    enlarge(&image, 256).expect("no change");
    assert!(image.main.to_bytes() == before);
}
