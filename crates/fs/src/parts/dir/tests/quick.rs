//! The lock-free path to a leaf agrees with the index after any change.

use super::shrink::{RANGE, empty, fill};
use super::*;
use crate::parts::dir::index::{Probe, Target, probe};
use crate::parts::dir::view::Dir;
use crate::parts::dir::{DirError, LockMode, lookup_entry, quick, remove_at};
use crate::types::credits;

/// Number of names whose leaf is found by the lock-free path.
fn known(world: &World) -> usize {
    let dir = Dir::open(&world.fs.fs, world.dir.arc()).unwrap();
    let is_known = |name: &&Vec<u8>| quick::leaf_of(&dir, &dir.fs.hashed(name)).is_some();
    world.model.keys().filter(is_known).count()
}

/// Checks that both paths lead every name to the same leaf; afterwards all are cached.
fn compare(world: &World) {
    compare_paths(world);
    assert_eq!(known(world), world.model.len(), "{} blocks", world.blocks());
}

/// As [`compare`], if the cache of blocks is too small for all leaves.
fn compare_paths(world: &World) {
    let dir = Dir::open(&world.fs.fs, world.dir.arc()).unwrap();
    for name in world.model.keys() {
        let name = &dir.fs.hashed(name);
        let before = quick::leaf_of(&dir, name);
        let Probe::Path(path) = probe(&dir, Target::Name(name)).unwrap() else {
            panic!("the index is sound");
        };
        let leaf = dir.block_or_damage(path.leaf).unwrap();
        for found in [before, quick::leaf_of(&dir, name)].into_iter().flatten() {
            assert!(Arc::ptr_eq(&found, &leaf));
        }
    }
    let is_led = |name: &Vec<u8>| quick::prefetch_leaf(&dir, &dir.fs.hashed(name)).is_some();
    assert!(world.model.keys().all(is_led), "{} blocks", world.blocks());
}

fn in_step(options: &[&str]) {
    let image = Image::new(96, options);
    let mut world = World::new(image.mount(), 5, Names::Mixed, RANGE);
    for count in [400, 1200, 3000] {
        fill(&mut world, count);
        compare(&world);
    }
    let split = |world: &mut World| {
        let blocks = world.blocks();
        while world.blocks() == blocks {
            world.insert().unwrap();
        }
    };
    let carried = (0..20).any(|_| {
        compare(&world);
        split(&mut world);
        known(&world) == world.model.len()
    });
    assert!(carried, "a split forgets what it did not change");
    let version = world.dir.index.version();
    while world.dir.index.version() == version {
        world.insert().unwrap();
    }
    compare_paths(&world);
    for left in [2000, 700, 100] {
        empty(&mut world, left);
        compare(&world);
    }
    world.compare();
}

#[test]
fn with_two_levels() {
    in_step(&["-b", "4096"]);
}

#[test]
fn with_three_levels() {
    in_step(&["-b", "1024", "-O", "large_dir"]);
}

#[test]
fn another_version_is_not_known() {
    let image = Image::new(64, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 6, Names::Short, RANGE);
    fill(&mut world, 500);
    compare(&world);
    drop(world.dir.index.write());
    assert_eq!(known(&world), 0);
    compare(&world);
}

/// An unlink by a dentry checks the inode again in the leaf.
#[test]
fn a_name_that_changed_hands_is_not_removed() {
    let image = Image::new(64, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 7, Names::Short, RANGE);
    fill(&mut world, 500);
    compare(&world);
    let mut names = world.model.keys();
    let (name, other) = (names.next().unwrap(), names.next().unwrap());
    let (fs, dir) = (&world.fs, &world.dir);
    // A new name may have been evicted from the table.
    assert_eq!(fs.lookup(dir, name, &ROOT).unwrap().nr(), world.model[name]);
    let hashed = fs.fs.hashed(name);
    let (_target, location) = lookup_entry(&fs.fs, dir.arc(), &hashed).unwrap().unwrap();
    let location = location.unwrap();
    assert!(location.seen.is_none(), "the leaf was not looked at");
    fs.rename(dir, other, dir, name, RenameFlags::Replace, &ROOT)
        .unwrap();

    let index = LockMode::Optimistic(dir.index.version().unwrap());
    let handle = fs.fs.start(credits::REMOVE).unwrap();
    let removed = remove_at(&fs.fs, &handle, dir.arc(), &hashed, &location, index);
    drop(handle);
    assert!(matches!(removed, Err(DirError::Fs(Error::NotFound))));
    let found = fs.lookup(dir, name, &ROOT).unwrap();
    assert_eq!(found.nr(), world.model[other]);
}

/// A rename into a full leaf splits it concurrently with lock-free readers.
#[test]
fn a_rename_closes_nothing() {
    let image = Image::new(64, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 8, Names::Long, RANGE);
    fill(&mut world, 500);
    compare(&world);
    let (blocks, mut carried) = (world.blocks(), 0);
    for nr in 0..400 {
        let before = world.blocks();
        let from = world.model.keys().next().unwrap().clone();
        let to = Names::Long.name_of(RANGE + nr);
        let (fs, dir) = (&world.fs, &world.dir);
        fs.rename(dir, &from, dir, &to, RenameFlags::NoReplace, &ROOT)
            .unwrap();
        let child = world.model.remove(&from).unwrap();
        world.model.insert(to, child);
        if world.blocks() > before {
            carried += usize::from(known(&world) == world.model.len());
        }
    }
    assert!(world.blocks() > blocks && carried > 30, "{carried} splits");
    world.finish(&image);
}

#[test]
fn an_rmdir_closes_nothing() {
    let image = Image::new(64, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 9, Names::Short, RANGE);
    fill(&mut world, 500);
    let (fs, dir) = (&world.fs, &world.dir);
    for nr in 0..20 {
        fs.mkdir(dir, format!("sub {nr}").as_bytes(), 0o755, &ROOT)
            .unwrap();
    }
    compare(&world);
    let version = dir.index.version().unwrap();
    for nr in 0..20 {
        fs.rmdir(dir, format!("sub {nr}").as_bytes(), &ROOT)
            .unwrap();
    }
    assert!(dir.index.is_still(version));
    world.finish(&image);
}
