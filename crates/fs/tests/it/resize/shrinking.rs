//! Shrinking of file systems that are not mounted. The judges: e2fsck, the kernel, a manifest.

use super::kind::{Image, Kind};
use super::seeds;
use crate::image::on_disk;
use uext4::device::BlockDevice;
use uext4::mkfs::DeviceContents;

use uext4::resize::{Least, grow, plan_shrink, shrink};
use uext4::{Caller, Destination, Error, Filesystem, ResizeError, SetMode};
use uext4_testkit::manifest::Policy;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rng::Rng;

/// Files, directories, attributes and links in fragments up to the end of the file system.
pub(super) fn scatter(image: &Image, seed: u64) {
    let size = image.blocks() * u64::from(image.kind.block_size);
    let free = image.mounted(|fs| fs.statfs().blocks_free) * u64::from(image.kind.block_size);
    let mut rng = Rng::new(seed);
    image.fill("/filler", free * 6 / 10, seed);
    image.mounted(|fs| add_kinds(fs, &mut rng).expect("room for kinds"));
    image.mounted(|fs| fs.paths().remove_dir_all("/filler").expect("removes"));
    image.fill("/files", free / 10, seed + 1);
    image.mounted(|fs| spread(fs, "/files", size, &mut rng).expect("moves"));
}

/// A directory with an index, long links, and attributes in blocks.
fn add_kinds(fs: &Filesystem, rng: &mut Rng) -> uext4::Result<()> {
    let (paths, caller) = (fs.paths(), Caller::root());
    paths.create_dir_all("/odd/dir")?;
    for at in 0..fs.statfs().inodes_free.min(400) / 5 {
        let name = format!("/odd/dir/{at:03} with a name that is not short at all");
        paths.write(&name, b"")?;
    }
    for at in 0..fs.statfs().inodes_free.min(200) / 10 {
        let file = format!("/odd/attributes {at}");
        paths.write(&file, rng.bytes(3000))?;
        let value = vec![b'a' + (at % 3) as u8; 700];
        let inode = paths.inode(&file)?;
        fs.set_xattr(&inode, b"user.value", &value, SetMode::Any, &caller)?;
        paths.symlink("long/".repeat(40), format!("/odd/link {at}"))?;
    }
    Ok(())
}

/// Moves parts of the files in `dir` to random places.
fn spread(fs: &Filesystem, dir: &str, size: u64, rng: &mut Rng) -> uext4::Result<()> {
    for sub in fs.paths().read_dir(dir)? {
        let sub = format!("{dir}/{}", String::from_utf8_lossy(&sub?.name));
        for file in fs.paths().read_dir(&sub)? {
            let path = format!("{sub}/{}", String::from_utf8_lossy(&file?.name));
            let found = fs.paths().symlink_metadata(&path)?;
            let inode = fs.paths().symlink_inode(&path)?;
            let step = 40_000;
            for at in (0..found.len()).step_by(step).filter(|_| found.is_file()) {
                let to = Destination::Near(rng.below(size));
                fs.relocate(&inode, at..at + step as u64 / 2, to)?;
            }
        }
    }
    Ok(())
}

/// Shrinks to at most `blocks`; answers how many there are.
fn shrink_to(image: &Image, blocks: u64) -> uext4::Result<u64> {
    let bytes = blocks * u64::from(image.kind.block_size);
    let plan = shrink(image.main.clone(), image.options(), Least::Bytes(bytes))?;
    assert_eq!(plan.after.blocks_count, image.blocks());
    Ok(plan.after.blocks_count)
}

pub(super) fn minimum(image: &Image) -> u64 {
    let before = image.main.to_bytes();
    let plan = plan_shrink(image.main.clone(), image.options(), Least::Possible);
    assert!(image.main.to_bytes() == before, "a plan wrote");
    plan.expect("a minimum").after.blocks_count
}

#[track_caller]
fn assert_refused(image: &Image, blocks: u64, minimum: u64) {
    let before = image.main.to_bytes();
    match shrink_to(image, blocks) {
        Err(Error::Resize(ResizeError::TooSmall { min_blocks, .. })) => {
            assert_eq!(min_blocks, minimum);
        }
        other => panic!("{blocks} blocks, minimum {minimum}: {other:?}"),
    }
    assert!(image.main.to_bytes() == before, "a refused size wrote");
}

/// One file system, shrunk to a size between, to its minimum, and grown again.
fn shrink_in_turn(kind: &Kind, seed: u64) {
    let what = format!("{}, seed {seed}", kind.name);
    let image = kind.make(kind.blocks * u64::from(kind.block_size));
    scatter(&image, seed);
    image.assert_clean(&what);
    let (tree, before) = (image.tree(), image.blocks());
    let least = minimum(&image);
    assert!(least < before, "{what}: {least}");
    assert_refused(&image, least - 1, least);
    let between = least + Rng::new(seed).below(before - least);
    let found = shrink_to(&image, between).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found <= between, "{what}: {found}, not {between}");
    image.assert_clean(&format!("{what}, {before} to {between}"));
    tree.assert_same(&image.tree(), &Policy::default());
    let least = minimum(&image);
    shrink_to(&image, least).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(image.blocks(), least, "{what}");
    image.assert_clean(&format!("{what}, the minimum {least} of {before}"));
    tree.assert_same(&image.tree(), &Policy::default());
    if kind.has_kernel() && KernelMount::available_or_skip("shrink_in_turn") {
        let (_dir, path) = on_disk(&image.main);
        let mounted = KernelMount::new(&path, "").expect("the kernel mounts it");
        let found = uext4_testkit::manifest::Manifest::of_dir(mounted.path()).expect("a tree");
        mounted.unmount().expect("unmount");
        tree.assert_same(&found, &Policy::default());
    }
    let size = image.main.size_bytes();
    grow(
        image.main.clone(),
        image.options(),
        size,
        DeviceContents::Unknown,
    )
    .expect("grows");
    image.assert_clean(&format!("{what}, grown again"));
    tree.assert_same(&image.tree(), &Policy::default());
    image.fill("/after", size / 20, seed);
    image.assert_clean(&format!("{what}, used again"));
}

#[test]
fn all_kinds_shrink() {
    for seed in seeds() {
        for kind in &Kind::ALL {
            shrink_in_turn(kind, seed);
        }
    }
}
