//! The dentry cache agrees with the directory after any change.

use super::*;
use crate::parts::dir::quick;
use std::time::{Duration, Instant};
use uext4_journal::Object;

/// Cached dentries among the possible names.
fn known(world: &World) -> Vec<(Vec<u8>, InodeNr)> {
    let cached = |name: Vec<u8>| {
        let found = quick::lookup_cached(&world.fs.fs, world.dir.arc(), &world.fs.fs.hashed(&name))
            .unwrap()?;
        Some((name, found.nr()))
    };
    let all = (0..world.range).map(|number| world.names.name_of(number));
    all.filter_map(cached).collect()
}

fn compare(world: &World) -> usize {
    let known = known(world);
    for (name, nr) in &known {
        assert_eq!(world.model.get(name), Some(nr), "{name:?}");
    }
    known.len()
}

fn exchange(world: &mut World) {
    let (one, two) = (world.name(), world.name());
    let flags = RenameFlags::Exchange;
    let answer = world
        .fs
        .rename(&world.dir, &one, &world.dir, &two, flags, &ROOT);
    if answer.is_ok() && one != two {
        let (was_one, was_two) = (world.model[&one], world.model[&two]);
        world.model.insert(one, was_two);
        world.model.insert(two, was_one);
    }
}

fn in_step(options: &[&str], names: Names) {
    let image = Image::new(64, options);
    let mut world = World::new(image.mount(), 11, names, 900);
    for percent in [85, 50, 20, 60, 5] {
        for _ in 0..12 {
            for _ in 0..100 {
                world.step(percent).unwrap();
                exchange(&mut world);
            }
            compare(&world);
        }
        for name in world.model.keys() {
            world.fs.lookup(&world.dir, name, &ROOT).unwrap();
        }
        let in_blocks = !world
            .dir
            .read()
            .disk
            .flags
            .contains(InodeFlags::INLINE_DATA);
        // About 95 of 100; the exact number depends on the random keys.
        let many = world.model.len() * 3 / 4;
        assert!(!in_blocks || compare(&world) >= many, "{many}");
    }
    world.finish(&image);
}

#[test]
fn indexed() {
    in_step(&["-b", "1024"], Names::Mixed);
}

#[test]
fn linear() {
    in_step(&["-b", "1024", "-O", "^dir_index"], Names::Short);
}

#[test]
fn inline_at_first() {
    let options = ["-b", "1024", "-O", "inline_data", "-I", "256"];
    in_step(&options, Names::Short);
}

/// Reused inode numbers: a file's as another file's, and a directory's as another directory's.
#[test]
fn numbers_that_were_others() {
    let image = Image::new(32, &["-b", "1024"]);
    let fs = image.mount();
    let root = fs.root().unwrap();
    let make = |name: &[u8]| fs.mkdir(&root, name, 0o755, &ROOT).unwrap();
    let first = make(b"first");
    let file = fs.create(&first, b"file", 0o644, &ROOT).unwrap().nr();
    assert_eq!(fs.lookup(&first, b"file", &ROOT).unwrap().nr(), file);
    fs.unlink(&first, b"file", &ROOT).unwrap();
    let nr = first.nr();
    drop(first);
    fs.rmdir(&root, b"first", &ROOT).unwrap();
    assert!(matches!(
        fs.lookup(&root, b"first", &ROOT),
        Err(Error::NotFound)
    ));
    let second = make(b"second");
    assert_eq!(second.nr(), nr, "the number is given again");
    for name in [&b"file"[..], b".", b".."] {
        let known = quick::lookup_cached(&fs.fs, second.arc(), &fs.fs.hashed(name)).unwrap();
        assert!(known.is_none());
    }
    let other = fs.create(&second, b"other", 0o644, &ROOT).unwrap();
    assert_eq!(other.nr(), file, "the number is given again");
    assert!(matches!(
        fs.lookup(&second, b"file", &ROOT),
        Err(Error::NotFound)
    ));
    drop((root, second, other));
    fs.unmount().unwrap();
}

/// The number is reused between the dentry lookup and the reference to the inode.
#[test]
fn a_number_that_becomes_anothers_meanwhile() {
    let image = Image::new(32, &["-b", "1024"]);
    let fs = image.mount();
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap().nr();
    let known = quick::lookup_cached_with(&root, &fs.fs.hashed(b"file"), |nr| {
        fs.unlink(&root, b"file", &ROOT).unwrap();
        let other = fs.create(&root, b"other", 0o600, &ROOT).unwrap();
        assert_eq!((other.nr(), nr), (file, file), "the number is given again");
        fs.inode(nr)
    });
    assert!(known.unwrap().is_none());
    drop(root);
    fs.unmount().unwrap();
}

/// A reader in the moving block may be about to cache dentries: until it leaves, the moved entries
/// do not change at their new place.
#[test]
fn a_merge_waits_for_the_readers_of_the_block_that_moves() {
    // A fixed hash seed: the first merge is one of leaves, which does not close the directory.
    let seed = "hash_seed=01234567-89ab-cdef-0123-456789abcdef";
    let image = Image::new(32, &["-b", "1024", "-E", seed]);
    let mut world = World::new(image.mount(), 5, Names::Mixed, 900);
    while world.model.len() < 300 {
        world.insert().unwrap();
    }
    let (block, kept) = {
        let dir = super::super::view::Dir::open(&world.fs.fs, world.dir.arc()).unwrap();
        let last = uext4_format::LogicalBlock(dir.blocks - 1);
        let block = dir.block_or_damage(last).unwrap();
        let image = block.image();
        let entries = dir.leaf(&image[..], block.nr());
        let names = entries.entries().map(|entry| entry.unwrap().name.to_vec());
        (block.clone(), names.collect::<Vec<_>>())
    };
    let gone = world.model.keys().filter(|name| !kept.contains(name));
    let gone: Vec<Vec<u8>> = gone.cloned().collect();
    let (size, version) = (world.dir.facts().size, world.dir.index.version());
    let inside = block.read();
    std::thread::scope(|scope| {
        let (fs, dir, gone) = (&world.fs, &world.dir, &gone);
        scope.spawn(move || {
            for name in gone {
                fs.unlink(dir, name, &ROOT).unwrap();
            }
        });
        // A try fails once a writer waits: the first merge needs the last block.
        let limit = Instant::now() + Duration::from_secs(60);
        while block.live().try_read().is_some() {
            assert!(Instant::now() < limit, "no merge waits for the reader");
            std::thread::yield_now();
        }
        assert_eq!(dir.index.version(), version, "a merge has moved a block");
        drop(inside);
    });
    assert!(world.dir.facts().size < size);
    world.model.retain(|name, _| !gone.contains(name));
    drop(block);
    world.finish(&image);
}

/// While names are created and removed, a lookup finds the file created under the name, or none.
#[test]
fn a_name_never_means_another_file() {
    let image = Image::new(64, &["-b", "1024"]);
    let fs = image.mount();
    let root = fs.root().unwrap();
    let dir = fs.mkdir(&root, b"dir", 0o755, &ROOT).unwrap();
    let done = AtomicBool::new(false);
    // The mode identifies the file: inode numbers are reused at once.
    let names: Vec<(String, u16)> = (0..200).map(|nr| (format!("name-{nr}"), nr + 1)).collect();
    let (fs_ref, dir_ref, names, done) = (&fs, &dir, &names, &done);
    let check = |(name, mode): &(String, u16)| match fs_ref.lookup(dir_ref, name.as_bytes(), &ROOT)
    {
        Ok(found) => assert_eq!(fs_ref.attr(&found).mode & 0o777, *mode, "{name}"),
        Err(Error::NotFound) => {}
        Err(error) => panic!("{name}: {error}"),
    };
    std::thread::scope(|scope| {
        let write = |worker: usize| {
            scope.spawn(move || {
                let mine = || names.iter().skip(worker).step_by(3);
                for round in 0..60 {
                    for (name, mode) in mine() {
                        let name = name.as_bytes();
                        drop(fs_ref.create(dir_ref, name, *mode, &ROOT).unwrap());
                    }
                    for (name, mode) in mine() {
                        let found = fs_ref.lookup(dir_ref, name.as_bytes(), &ROOT).unwrap();
                        assert_eq!(fs_ref.attr(&found).mode & 0o777, *mode);
                    }
                    for (name, mode) in mine() {
                        let (old, new) = (name.as_bytes(), format!("{name}-{mode}-moved"));
                        if round % 2 == 0 {
                            let (to, flags) = (new.as_bytes(), RenameFlags::NoReplace);
                            fs_ref
                                .rename(dir_ref, old, dir_ref, to, flags, &ROOT)
                                .unwrap();
                            fs_ref.unlink(dir_ref, to, &ROOT).unwrap();
                        } else {
                            fs_ref.unlink(dir_ref, old, &ROOT).unwrap();
                        }
                        let gone = fs_ref.lookup(dir_ref, old, &ROOT);
                        assert!(matches!(gone, Err(Error::NotFound)), "{name}");
                    }
                }
            })
        };
        let writers: Vec<_> = (0..3).map(write).collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        names.iter().for_each(check);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    drop((root, dir));
    fs.unmount().unwrap();
    assert_clean(&image.path);
}
