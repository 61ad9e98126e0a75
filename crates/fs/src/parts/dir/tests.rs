//! Tests of directories against a map in memory, in many configurations, checked by e2fsck.

use crate::ops::RenameFlags;
use crate::ops::filesystem::Filesystem;
use crate::state::inode::InodeRef;
use crate::types::attr::Caller;
use crate::types::error::Error;
use crate::types::options::{MountOptions, Threads};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use uext4_device::{Access, FileDevice};
use uext4_format::{InodeFlags, InodeNr};
use uext4_sync::Rng;
use uext4_testkit::oracle::{assert_clean, mke2fs_image};

mod divide;
mod names;
mod noted;
mod quick;
mod shrink;

use super::Visit;

const ROOT: Caller = Caller::root();

/// An image that mke2fs made.
struct Image {
    _dir: TempDir,
    path: PathBuf,
}

impl Image {
    fn new(size_mib: u64, options: &[&str]) -> Self {
        let (dir, path) = mke2fs_image(size_mib << 20, options).expect("mke2fs is installed");
        Self { _dir: dir, path }
    }

    fn with_hash(self, version: &str) -> Self {
        let hash = format!("hash_alg={version}");
        let status = Command::new("/usr/sbin/tune2fs")
            .args(["-E", &hash])
            .arg(&self.path)
            .output();
        assert!(status.expect("tune2fs is installed").status.success());
        self
    }

    fn mount(&self) -> Filesystem {
        mount(&self.path)
    }
}

fn mount(path: &Path) -> Filesystem {
    let device = FileDevice::open(path, Access::ReadWrite).expect("the image is there");
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    Filesystem::mount(Arc::new(device), options).expect("mounts")
}

/// Shape of the names.
#[derive(Clone, Copy)]
enum Names {
    Short,
    Long,
    Mixed,
}

impl Names {
    fn make(self, rng: &mut Rng, range: u64) -> Vec<u8> {
        self.name_of(rng.below(range))
    }

    fn name_of(self, number: u64) -> Vec<u8> {
        let length = match self {
            Names::Short => 0,
            Names::Long => 250,
            Names::Mixed => (number * 7919 % 251) as usize,
        };
        let mut name = format!("{number:x}").into_bytes();
        // Bytes above 0x7F tell signed hashes from unsigned ones.
        name.resize(length.max(name.len()), 0xE4);
        name
    }
}

/// A directory with its expected contents.
struct World {
    fs: Filesystem,
    dir: InodeRef,
    files: Vec<InodeRef>,
    model: BTreeMap<Vec<u8>, InodeNr>,
    rng: Rng,
    names: Names,
    range: u64,
}

impl World {
    fn new(fs: Filesystem, seed: u64, names: Names, range: u64) -> Self {
        let root = fs.root().unwrap();
        let dir = fs.mkdir(&root, b"dir", 0o755, &ROOT).unwrap();
        let file = |i| {
            fs.create(&root, format!("file{i}").as_bytes(), 0o644, &ROOT)
                .unwrap()
        };
        let files = (0..4).map(file).collect();
        let (model, rng) = (BTreeMap::new(), Rng::new(seed));
        Self {
            fs,
            dir,
            files,
            model,
            rng,
            names,
            range,
        }
    }

    fn name(&mut self) -> Vec<u8> {
        self.names.make(&mut self.rng, self.range)
    }

    fn insert(&mut self) -> Result<(), Error> {
        let name = self.name();
        let file = self.files[self.rng.below(self.files.len() as u64) as usize].clone();
        let answer = self.fs.link(&file, &self.dir, &name, &ROOT).map(drop);
        match (self.model.contains_key(&name), answer) {
            (true, Err(Error::Exists)) => {}
            (false, Ok(())) => drop(self.model.insert(name, file.nr())),
            (false, Err(error)) => return Err(error),
            (there, answer) => panic!("insert of {name:?}, there: {there}: {answer:?}"),
        }
        Ok(())
    }

    fn remove(&mut self) {
        let name = self.name();
        let answer = self.fs.unlink(&self.dir, &name, &ROOT);
        match (self.model.remove(&name).is_some(), answer) {
            (true, Ok(())) | (false, Err(Error::NotFound)) => {}
            (there, answer) => panic!("remove of {name:?}, there: {there}: {answer:?}"),
        }
    }

    fn rename(&mut self) {
        let (from, to) = (self.name(), self.name());
        let answer = self.fs.rename(
            &self.dir,
            &from,
            &self.dir,
            &to,
            RenameFlags::Replace,
            &ROOT,
        );
        match (self.model.get(&from).copied(), answer) {
            (None, Err(Error::NotFound)) => {}
            // Two names of one file: nothing happens, as in rename(2).
            (Some(child), Ok(())) if self.model.get(&to) == Some(&child) => {}
            (Some(child), Ok(())) => {
                self.model.remove(&from);
                self.model.insert(to, child);
            }
            (there, answer) => panic!("rename of {from:?} ({there:?}): {answer:?}"),
        }
    }

    fn lookup_once(&mut self) {
        let name = self.name();
        let found = self
            .fs
            .lookup(&self.dir, &name, &ROOT)
            .map(|found| found.nr());
        match (self.model.get(&name), found) {
            (Some(child), Ok(found)) => assert_eq!(*child, found),
            (None, Err(Error::NotFound)) => {}
            (there, found) => panic!("lookup of {name:?} ({there:?}): {found:?}"),
        }
    }

    fn step(&mut self, inserts_percent: u64) -> Result<(), Error> {
        match self.rng.below(100) {
            n if n < inserts_percent => return self.insert(),
            n if n < 92 => self.remove(),
            n if n < 96 => self.rename(),
            _ => self.lookup_once(),
        }
        Ok(())
    }

    fn compare(&self) {
        let seen = list(&self.fs, &self.dir, 37);
        let mut names = BTreeMap::new();
        for (name, inode) in seen {
            if name != b"." && name != b".." {
                assert_eq!(names.insert(name, inode), None, "listed once");
            }
        }
        assert_eq!(names, self.model);
    }

    fn is_indexed(&self) -> bool {
        self.dir.read().disk.flags.contains(InodeFlags::INDEX)
    }

    fn blocks(&self) -> u64 {
        self.dir.read().disk.size / self.fs.fs.block_size() as u64
    }

    /// Unmounts and runs e2fsck; returns the names.
    fn unmount(self, image: &Image) -> BTreeMap<Vec<u8>, InodeNr> {
        drop((self.dir, self.files));
        self.fs.unmount().unwrap();
        drop(self.fs);
        assert_clean(&image.path);
        self.model
    }

    /// Unmounts, runs e2fsck, mounts and compares again.
    fn finish(self, image: &Image) {
        self.compare();
        let model = self.unmount(image);
        let fs = image.mount();
        let root = fs.root().unwrap();
        let dir = fs.lookup(&root, b"dir", &ROOT).unwrap();
        for (name, inode) in &model {
            assert_eq!(fs.lookup(&dir, name, &ROOT).unwrap().nr(), *inode);
        }
        drop((root, dir));
        fs.unmount().unwrap();
    }
}

/// Lists in pieces of `piece` entries, each continued by cookie.
fn list(fs: &Filesystem, dir: &InodeRef, piece: usize) -> Vec<(Vec<u8>, InodeNr)> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let before = all.len();
        fs.read_dir(dir, cookie, &mut |entry| {
            all.push((entry.name.to_vec(), entry.inode));
            cookie = entry.next_cookie;
            if all.len() - before == piece {
                Visit::Stop
            } else {
                Visit::Continue
            }
        })
        .unwrap();
        if all.len() == before {
            return all;
        }
    }
}

/// Grows, changes and shrinks the directory, and compares on the way.
fn churn(image: &Image, names: Names, range: u64, steps: u64) -> World {
    let mut world = World::new(image.mount(), 7, names, range);
    for (phase, percent) in [(0, 80), (1, 46), (2, 65), (3, 20)] {
        for _ in 0..steps / 4 {
            world
                .step(percent)
                .unwrap_or_else(|error| panic!("phase {phase}: {error}"));
        }
        world.compare();
    }
    world
}

#[test]
fn one_kib_blocks_with_long_names() {
    let image = Image::new(64, &["-b", "1024"]);
    let world = churn(&image, Names::Long, 4000, 12_000);
    assert!(world.is_indexed());
    world.finish(&image);
}

#[test]
fn four_kib_blocks_with_mixed_names() {
    let image = Image::new(64, &["-b", "4096"]);
    let world = churn(&image, Names::Mixed, 30_000, 50_000);
    assert!(world.is_indexed() && world.blocks() > 100);
    world.finish(&image);
}

#[test]
fn sixty_four_kib_blocks() {
    let image = Image::new(256, &["-b", "65536", "-O", "^resize_inode"]);
    let world = churn(&image, Names::Mixed, 20_000, 40_000);
    assert!(world.is_indexed());
    world.finish(&image);
}

#[test]
fn without_checksums_and_extents() {
    let image = Image::new(64, &["-b", "1024", "-O", "^metadata_csum,^extents,^64bit"]);
    let world = churn(&image, Names::Mixed, 4000, 12_000);
    assert!(world.is_indexed());
    world.finish(&image);
}

#[test]
fn without_index_and_file_types() {
    let image = Image::new(64, &["-b", "1024", "-O", "^dir_index,^filetype"]);
    let world = churn(&image, Names::Mixed, 700, 4000);
    assert!(!world.is_indexed() && world.blocks() > 10);
    world.finish(&image);
}

#[test]
fn every_hash() {
    for version in ["legacy", "half_md4", "tea"] {
        let image = Image::new(32, &["-b", "1024"]).with_hash(version);
        let world = churn(&image, Names::Short, 6000, 12_000);
        assert!(world.is_indexed());
        world.finish(&image);
    }
}

#[test]
fn inline_directories_grow_into_blocks() {
    let image = Image::new(32, &["-b", "1024", "-O", "inline_data", "-I", "256"]);
    for range in [3, 8, 40, 400] {
        let mut world = World::new(image.mount(), range, Names::Short, range);
        for _ in 0..200 {
            world.step(50).unwrap();
            world.compare();
        }
        let inline = world
            .dir
            .read()
            .disk
            .flags
            .contains(InodeFlags::INLINE_DATA);
        assert_eq!(inline, range <= 8, "{range} names");
        let names: Vec<_> = world.model.keys().cloned().collect();
        for name in names {
            world.fs.unlink(&world.dir, &name, &ROOT).unwrap();
        }
        world.model.clear();
        world.compare();
        let root = world.fs.root().unwrap();
        for i in 0..4 {
            world
                .fs
                .unlink(&root, format!("file{i}").as_bytes(), &ROOT)
                .unwrap();
        }
        world.fs.rmdir(&root, b"dir", &ROOT).unwrap();
        drop(root);
        let World { fs, dir, files, .. } = world;
        drop((dir, files));
        fs.unmount().unwrap();
        drop(fs);
        assert_clean(&image.path);
    }
}

/// A third level where the features allow it, "no space" elsewhere.
#[test]
fn full_indexes_grow_or_refuse() {
    for (large, option) in [(true, "large_dir"), (false, "^large_dir")] {
        let image = Image::new(160, &["-b", "1024", "-O", option]);
        let mut world = World::new(image.mount(), 3, Names::Long, u64::MAX);
        let mut refused = false;
        for _ in 0..56_000 {
            match world.insert() {
                Ok(()) => {}
                Err(Error::NoSpace) if !large => refused = true,
                Err(error) => panic!("{error}"),
            }
            if refused {
                break;
            }
        }
        assert_eq!(refused, !large, "{} names", world.model.len());
        for _ in 0..2000 {
            let name = world.model.keys().next().unwrap().clone();
            world.fs.unlink(&world.dir, &name, &ROOT).unwrap();
            world.model.remove(&name);
        }
        world.finish(&image);
    }
}

#[test]
fn the_largest_size_is_kept() {
    let image = Image::new(32, &["-b", "1024"]);
    let device = FileDevice::open(&image.path, Access::ReadWrite).unwrap();
    let options = MountOptions {
        threads: Threads::Inline,
        max_dir_size_kib: Some(16),
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(Arc::new(device), options).unwrap();
    let mut world = World::new(fs, 3, Names::Long, 1000);
    let refused = (0..1000).find_map(|_| world.insert().err());
    assert!(matches!(refused, Some(Error::NoSpace)));
    assert!(world.blocks() <= 16 && world.model.len() > 20);
    world.finish(&image);
}

/// While threads insert, remove and rename, a listing contains each unchanged name once.
#[test]
fn listings_are_stable_while_the_directory_changes() {
    let image = Image::new(64, &["-b", "1024"]);
    let fs = image.mount();
    let root = fs.root().unwrap();
    let dir = fs.mkdir(&root, b"dir", 0o755, &ROOT).unwrap();
    let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
    // Few enough that the directory is still one block when the listings begin.
    for i in 0..20 {
        fs.link(&file, &dir, format!("stays-{i}").as_bytes(), &ROOT)
            .unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (fs, dir, file, done) = (&fs, &dir, &file, &done);
        let writers: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || change(fs, dir, file, thread)))
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        check_listing(fs, dir, 3 + thread * 20);
                    }
                })
            })
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
    assert!(dir.read().disk.flags.contains(InodeFlags::INDEX));
    drop((root, dir, file));
    fs.unmount().unwrap();
    assert_clean(&image.path);
}

fn change(fs: &Filesystem, dir: &InodeRef, file: &InodeRef, thread: u64) {
    let mut rng = Rng::new(thread);
    let mut there: Vec<String> = Vec::new();
    for i in 0..2500 {
        match rng.below(10) {
            0..6 => {
                let name = format!("{thread}-{i}-{}", "x".repeat(rng.below(60) as usize));
                fs.link(file, dir, name.as_bytes(), &ROOT).unwrap();
                there.push(name);
            }
            6..9 if !there.is_empty() => {
                let name = there.swap_remove(rng.below(there.len() as u64) as usize);
                fs.unlink(dir, name.as_bytes(), &ROOT).unwrap();
            }
            _ if !there.is_empty() => {
                let at = rng.below(there.len() as u64) as usize;
                let new = format!("{thread}-{i}-moved");
                let (old, to) = (there[at].as_bytes(), new.as_bytes());
                // A rename between names of one file would do nothing, so the new name must be
                // absent.
                fs.rename(dir, old, dir, to, RenameFlags::NoReplace, &ROOT)
                    .unwrap();
                there[at] = new;
            }
            _ => {}
        }
    }
    for name in there {
        assert_eq!(
            fs.lookup(dir, name.as_bytes(), &ROOT).unwrap().nr(),
            file.nr()
        );
    }
}

fn check_listing(fs: &Filesystem, dir: &InodeRef, piece: usize) {
    let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
    for (name, _) in list(fs, dir, piece) {
        *seen.entry(name).or_default() += 1;
    }
    for i in 0..20 {
        let name = format!("stays-{i}");
        assert_eq!(seen.get(name.as_bytes()), Some(&1), "{name}");
    }
    assert!(seen.values().all(|&times| times == 1));
}

/// Concurrent creators of the same names: exactly one wins each name.
#[test]
fn one_thread_wins_a_name() {
    let image = Image::new(32, &["-b", "1024"]);
    let fs = image.mount();
    let root = fs.root().unwrap();
    let made: u32 = std::thread::scope(|scope| {
        let make = |_| {
            scope.spawn(|| {
                let made = |i: &u32| match fs.create(
                    &root,
                    format!("name-{i}").as_bytes(),
                    0o600,
                    &ROOT,
                ) {
                    Ok(_) => true,
                    Err(Error::Exists) => false,
                    Err(error) => panic!("{error}"),
                };
                (0..500).filter(made).count() as u32
            })
        };
        let threads: Vec<_> = (0..4).map(make).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(made, 500);
    drop(root);
    fs.unmount().unwrap();
    assert_clean(&image.path);
}

/// Two long names of one hash, and two around them: a leaf of 1 KiB holds three.
fn colliding(fs: &Filesystem) -> [Vec<u8>; 4] {
    let hasher = fs.fs.dirs.hasher;
    let name = |i: u32| format!("{}{i}", "x".repeat(245)).into_bytes();
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let (one, two, major) = (0..)
        .find_map(|i| {
            let major = hasher.hash(&name(i)).major;
            seen.insert(major, i).map(|before| (before, i, major))
        })
        .unwrap();
    let below = seen.iter().find(|(found, _)| **found < major).unwrap().1;
    let above = seen.iter().find(|(found, _)| **found > major).unwrap().1;
    [*below, one, two, *above].map(name)
}

#[test]
fn names_of_one_hash_in_two_leaves() {
    let image = Image::new(32, &["-b", "1024"]).with_hash("legacy");
    let mut world = World::new(image.mount(), 1, Names::Short, 10);
    let names = colliding(&world.fs);
    let file = world.files[0].clone();
    for name in &names {
        world.fs.link(&file, &world.dir, name, &ROOT).unwrap();
        world.model.insert(name.clone(), file.nr());
    }
    {
        let _shared = world.dir.index.read();
        let dir = super::view::Dir::open(&world.fs.fs, world.dir.arc()).unwrap();
        let name = dir.fs.hashed(&names[1]);
        let path = match super::index::probe(&dir, super::index::Target::Name(&name)).unwrap() {
            super::index::Probe::Path(path) => path,
            super::index::Probe::Broken(corrupt) => panic!("{corrupt}"),
        };
        assert!(path.continues(), "the two names are in two leaves");
    }
    for name in &names {
        assert_eq!(
            world.fs.lookup(&world.dir, name, &ROOT).unwrap().nr(),
            file.nr()
        );
        let again = world.fs.link(&file, &world.dir, name, &ROOT);
        assert!(matches!(again, Err(Error::Exists)));
    }
    assert_eq!(list(&world.fs, &world.dir, 1).len(), 6);
    world.compare();
    world
        .fs
        .rename(
            &world.dir,
            &names[1],
            &world.dir,
            b"new",
            RenameFlags::Replace,
            &ROOT,
        )
        .unwrap();
    // Another name of the same file: no change until it is gone.
    assert!(world.fs.lookup(&world.dir, &names[1], &ROOT).is_err());
    world.fs.unlink(&world.dir, &names[2], &ROOT).unwrap();
    world.model.remove(&names[1]);
    world.model.remove(&names[2]);
    world.model.insert(b"new".to_vec(), file.nr());
    world.finish(&image);
}

#[test]
fn exchanges_and_whiteouts() {
    for features in ["inline_data", "^inline_data"] {
        let image = Image::new(32, &["-b", "1024", "-I", "256", "-O", features]);
        let fs = image.mount();
        let root = fs.root().unwrap();
        let one = fs.mkdir(&root, b"one", 0o755, &ROOT).unwrap();
        let two = fs.mkdir(&root, b"two", 0o755, &ROOT).unwrap();
        let file = fs.create(&one, b"file", 0o644, &ROOT).unwrap();
        let sub = fs.mkdir(&two, b"sub", 0o755, &ROOT).unwrap();
        fs.rename(&one, b"file", &two, b"sub", RenameFlags::Exchange, &ROOT)
            .unwrap();
        assert_eq!(fs.lookup(&one, b"file", &ROOT).unwrap().nr(), sub.nr());
        assert_eq!(fs.lookup(&two, b"sub", &ROOT).unwrap().nr(), file.nr());
        {
            let _shared = sub.index.read();
            assert_eq!(super::parent_of(&fs.fs, sub.arc()).unwrap(), one.nr());
        }
        fs.rename(&two, b"sub", &one, b"moved", RenameFlags::Whiteout, &ROOT)
            .unwrap();
        let whiteout = fs.lookup(&two, b"sub", &ROOT).unwrap();
        assert_eq!(whiteout.kind(), uext4_format::FileType::CharDevice);
        assert_eq!(fs.lookup(&one, b"moved", &ROOT).unwrap().nr(), file.nr());
        drop((root, one, two, file, sub, whiteout));
        fs.unmount().unwrap();
        drop(fs);
        assert_clean(&image.path);
    }
}

/// An index with an unknown hash: names are still found, and an insert drops the index.
#[test]
fn a_broken_index_is_done_without() {
    let image = Image::new(32, &["-b", "1024", "-O", "^metadata_csum"]);
    let mut world = churn(&image, Names::Mixed, 200, 800);
    assert!(world.is_indexed());
    let root_block = {
        let _shared = world.dir.index.read();
        let dir = super::view::Dir::open(&world.fs.fs, world.dir.arc()).unwrap();
        dir.block(uext4_format::LogicalBlock(0))
            .unwrap()
            .unwrap()
            .nr()
    };
    world.fs.unmount().unwrap();
    let mut bytes = std::fs::read(&image.path).unwrap();
    bytes[root_block.0 as usize * 1024 + 28] = 77;
    drop((world.files, world.dir, world.fs));
    std::fs::write(&image.path, bytes).unwrap();
    let fs = image.mount();
    let root = fs.root().unwrap();
    world.dir = fs.lookup(&root, b"dir", &ROOT).unwrap();
    world.files = vec![fs.lookup(&root, b"file0", &ROOT).unwrap()];
    drop(root);
    world.fs = fs;
    world.compare();
    for _ in 0..200 {
        world.lookup_once();
        world.remove();
    }
    assert!(world.is_indexed(), "removing needs no index");
    for _ in 0..200 {
        world.step(70).unwrap();
    }
    assert!(!world.is_indexed());
    world.finish(&image);
}
