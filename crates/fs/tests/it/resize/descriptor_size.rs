//! Descriptors of another size. The judges: e2fsck, the kernel, a manifest.

use super::inode_size::made;
use super::kind::{Image, Kind};
use crate::image::on_disk;
use std::sync::Arc;
use uext4::device::{BlockDevice, MemDevice};
use uext4::format::Feature;
use uext4::mkfs::DeviceContents;
use uext4::resize::{DescriptorSize, grow, set_descriptor_size};
use uext4::{Error, ResizeError};
use uext4_testkit::manifest::Policy;
use uext4_testkit::oracle::KernelMount;

const MIB: u64 = 1 << 20;

/// Groups whose wide descriptors take two blocks more than narrow ones.
pub(super) fn of_many_groups(name: &str) -> Kind {
    Kind::named(name).with_blocks(40 << 10)
}

pub(super) fn set(image: &Image, wanted: DescriptorSize) -> uext4::Result<()> {
    set_descriptor_size(image.main.clone(), image.options(), wanted)
}

/// The size that the image has not.
pub(super) fn other(image: &Image) -> DescriptorSize {
    let disk = uext4::read_superblock(&*image.main, None).expect("a superblock");
    if disk.features().has(Feature::SIXTY_FOUR_BIT) {
        DescriptorSize::Narrow
    } else {
        DescriptorSize::Wide
    }
}

/// Bytes of a descriptor.
pub(super) fn bytes(image: &Image) -> u16 {
    let disk = uext4::read_superblock(&*image.main, None).expect("a superblock");
    disk.geometry().expect("a geometry").desc_size
}

/// Changes the size and checks the file system; false: the kind cannot have it.
fn change(image: &Image, wanted: DescriptorSize) -> bool {
    let what = format!("{}, {wanted:?}", image.kind.name);
    let (tree, before) = (image.tree(), image.main.to_bytes());
    match set(image, wanted) {
        Ok(()) => {}
        Err(Error::NotSupported(_) | Error::Resize(ResizeError::ReservedDescriptors { .. })) => {
            assert!(image.main.to_bytes() == before, "{what}");
            return false;
        }
        Err(error) => panic!("{what}: {error}"),
    }
    assert_ne!(other(image), wanted, "{what}");
    image.assert_clean(&what);
    tree.assert_same(&image.tree(), &Policy::default());
    if image.kind.has_kernel() && KernelMount::available_or_skip("descriptor_size") {
        let (_dir, path) = on_disk(&image.main);
        tree.assert_same(&image.kernel_tree(&path), &Policy::default());
    }
    true
}

/// To the other size and back, with files that come meanwhile, and a growth behind it.
fn there_and_back(kind: Kind) -> bool {
    let image = made(kind);
    if !change(&image, other(&image)) {
        return false;
    }
    image.fill("/between", MIB, 12);
    image.assert_clean(kind.name);
    let is_back = change(&image, other(&image));
    image.fill("/after", MIB / 2, 13);
    let mut bytes = image.main.to_bytes();
    bytes.resize(bytes.len() * 3, 0);
    let image = Image {
        main: Arc::new(MemDevice::from_bytes(&bytes)),
        ..image
    };
    let size = image.main.size_bytes();
    let contents = DeviceContents::Zeroed;
    grow(image.main.clone(), image.options(), size, contents).expect("a growth");
    image.assert_clean(kind.name);
    is_back
}

#[test]
fn all_kinds_get_descriptors_of_another_size() {
    // Without extents or an internal journal, and where descriptors have no reserve or are in their
    // groups.
    let not = [
        "ext3",
        "ext2",
        "no-journal",
        "meta-bg",
        "all-backups",
        "ext4-64k",
        "external-journal",
    ];
    for kind in Kind::ALL {
        assert_eq!(
            there_and_back(kind),
            !not.contains(&kind.name),
            "{}",
            kind.name
        );
    }
}

#[test]
fn the_table_gets_shorter_and_longer() {
    for (name, is_back) in [
        ("small-groups", true),
        ("no-flex", true),
        ("all-backups", false),
    ] {
        assert_eq!(there_and_back(of_many_groups(name)), is_back, "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused_without_a_write() {
    let cases = [
        ("ext3", "needs the feature extent"),
        ("no-journal", "add a journal first"),
        ("meta-bg", "meta_bg"),
        ("external-journal", "external journal"),
        ("mmp", "turn mmp off"),
    ];
    for (name, reason) in cases {
        let kind = match name {
            "mmp" => Kind::MMP,
            _ => Kind::named(name),
        };
        let image = made(kind);
        let before = image.main.to_bytes();
        let error = set(&image, other(&image))
            .expect_err("a refusal")
            .to_string();
        assert!(error.contains(reason), "{name}: {error}");
        // A claim of a shared device is written.
        let is_same = name == "mmp" || image.main.to_bytes() == before;
        assert!(is_same, "{name}");
    }
}

/// e2fsck leaves the mark of a crash before the commit.
#[test]
fn the_size_that_it_has_lets_linux_in() {
    let image = made(Kind::named("ext4"));
    let mut disk = uext4::read_superblock(&*image.main, None).expect("a superblock");
    disk.journal_dev = 1;
    let start = 1024;
    image
        .main
        .write_at(start, &disk.to_bytes())
        .expect("a write");
    set(&image, DescriptorSize::Wide).expect("nothing to change");
    let disk = uext4::read_superblock(&*image.main, None).expect("a superblock");
    assert_eq!(disk.journal_dev, 0);
    image.assert_clean("let in");
}
