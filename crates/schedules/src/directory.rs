//! Creates that split leaves, unlinks that empty and merge them, renames, look-ups, listings and
//! eviction in one directory.

use crate::explore::explore;
use crate::rig::{
    Flat, dir, fall_behind, image, image_with_directory, join, mount, names, together, unmount,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use uext4::{Caller, Error, Filesystem, RenameFlags, Visit, WriteContext};
use uext4_sync::thread;

const STAY: u32 = 10;
const GO: u32 = 10;
const MOVE: u32 = 3;
const COME: u32 = 8;

/// Long names, so that a leaf holds eight.
fn name(kind: &str, nr: u32) -> Vec<u8> {
    format!("{kind} {nr:02} {:x>90}", "").into_bytes()
}

fn fill(fs: &Filesystem) {
    let (root, caller) = (fs.root().expect("a root"), Caller::root());
    let dir = fs.mkdir(&root, b"d", 0o755, &caller).expect("a directory");
    for (kind, count) in [("stay", STAY), ("go", GO), ("move", MOVE)] {
        for nr in 0..count {
            let made = fs.create(&dir, &name(kind, nr), 0o644, &caller);
            made.expect("a new name");
        }
    }
}

fn create(fs: &Filesystem) {
    create_named(fs, "come");
}

fn create_named(fs: &Filesystem, kind: &str) {
    let dir = dir(fs, b"d");
    for nr in 0..COME {
        let made = fs.create(&dir, &name(kind, nr), 0o644, &Caller::root());
        made.expect("a new name");
    }
}

fn remove(fs: &Filesystem) {
    let dir = dir(fs, b"d");
    for nr in 0..GO {
        let gone = fs.unlink(&dir, &name("go", nr), &Caller::root());
        gone.expect("a name that is there");
    }
}

fn rename(fs: &Filesystem) {
    let (dir, flags) = (dir(fs, b"d"), RenameFlags::NoReplace);
    for nr in 0..MOVE {
        let (from, to) = (name("move", nr), name("moved", nr));
        let moved = fs.rename(&dir, &from, &dir, &to, flags, &Caller::root());
        moved.expect("a name that is there");
        fs.reclaim_memory();
    }
}

/// Permanent names are found, and occur once in each listing, also in one resumed after a pause.
fn check_listing(fs: &Filesystem) {
    let dir = dir(fs, b"d");
    for nr in 0..STAY {
        let found = fs.lookup(&dir, &name("stay", nr), &Caller::root());
        found.expect("a name that stays");
    }
    let (mut cookie, mut seen) = (0, Vec::new());
    loop {
        let before = cookie;
        let mut left = 5;
        fs.read_dir(&dir, before, &mut |entry| {
            seen.push(entry.name.to_vec());
            cookie = entry.next_cookie;
            left -= 1;
            [Visit::Stop, Visit::Continue][usize::from(left > 0)]
        })
        .expect("a listing");
        if cookie == before || left > 0 {
            break;
        }
    }
    for nr in 0..STAY {
        let times = seen.iter().filter(|seen| **seen == name("stay", nr));
        assert_eq!(times.count(), 1, "stay {nr} in a listing");
    }
}

fn expected() -> BTreeSet<Vec<u8>> {
    let all = [("stay", STAY), ("moved", MOVE), ("come", COME)];
    all.into_iter()
        .flat_map(|(kind, count)| (0..count).map(move |nr| name(kind, nr)))
        .collect()
}

fn meet(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, ""));
    together(&fs, [create, remove, rename, check_listing]);
    unmount(&device, &fs);
    let fs = mount(&device, "");
    let found = names(&fs, &dir(&fs, b"d"));
    assert_eq!(found.len(), expected().len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected());
    fs.unmount().expect("unmounts");
}

#[test]
fn leaves_split_and_merge_under_many_hands() {
    let image = image(fill);
    explore(40, move || meet(&image));
}

/// A name that is created and removed repeatedly is found or not; no other result occurs.
fn come_and_go(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, ""));
    let changing = {
        let fs = fs.clone();
        thread::spawn(move || {
            let (dir, caller) = (dir(&fs, b"d"), Caller::root());
            for size in [0, 2000, 0] {
                let file = fs.create(&dir, b"x", 0o644, &caller).expect("a new name");
                fs.write(&file, 0, &vec![1; size], &WriteContext::ROOT)
                    .expect("a write");
                fs.unlink(&dir, b"x", &caller)
                    .expect("a name that is there");
            }
        })
    };
    let dir = dir(&fs, b"d");
    for _ in 0..8 {
        match fs.lookup(&dir, b"x", &Caller::root()) {
            Ok(_) | Err(Error::NotFound) => {}
            Err(error) => panic!("a lookup answers {error}"),
        }
    }
    join([changing]);
    drop(dir);
    unmount(&device, &fs);
}

#[test]
fn lookups_miss_a_removed_name() {
    let image = image(fill);
    explore(100, move || come_and_go(&image));
}

const TWINS: u32 = 12;

/// Creates names that another thread also creates; returns the number that it created.
fn make_twins(fs: &Filesystem) -> usize {
    let dir = dir(fs, b"d");
    (0..TWINS)
        .filter(
            |nr| match fs.create(&dir, &name("twin", *nr), 0o644, &Caller::root()) {
                Ok(_) => true,
                Err(Error::Exists) => false,
                Err(error) => panic!("a create answers {error}"),
            },
        )
        .count()
}

/// Two threads create the same names in leaves that split, while a third removes other names.
fn race_for_names(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, ""));
    let racer = || {
        let fs = fs.clone();
        thread::spawn(move || make_twins(&fs))
    };
    let racers = [racer(), racer()];
    remove(&fs);
    let made: usize = racers
        .into_iter()
        .map(|racer| racer.join().expect("no racer panics"))
        .sum();
    assert_eq!(made, TWINS as usize);
    let found = names(&fs, &dir(&fs, b"d"));
    let twins = (0..TWINS).map(|nr| name("twin", nr));
    for twin in twins {
        assert_eq!(found.iter().filter(|found| **found == twin).count(), 1);
    }
    unmount(&device, &fs);
}

#[test]
fn each_name_is_made_once_while_leaves_split() {
    let image = image(fill);
    explore(40, move || race_for_names(&image));
}

/// A directory is removed while it gets a file and a directory: it was empty, or it stays.
fn remove_what_fills(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, ""));
    let place = Arc::new(dir(&fs, b"d"));
    let file = {
        let (fs, place) = (fs.clone(), place.clone());
        thread::spawn(move || {
            fall_behind();
            fs.create(&place, b"f", 0o644, &Caller::root()).map(drop)
        })
    };
    let below = {
        let (fs, place) = (fs.clone(), place.clone());
        thread::spawn(move || {
            fall_behind();
            fs.mkdir(&place, b"b", 0o755, &Caller::root()).map(drop)
        })
    };
    let root = fs.root().expect("a root");
    let gone = fs.rmdir(&root, b"d", &Caller::root());
    let made = [file, below].map(|maker| maker.join().expect("no maker panics"));
    let alive = made.iter().any(|made| made.is_ok());
    match gone {
        Ok(()) => assert!(!alive, "a name in a directory that is gone"),
        Err(Error::NotEmpty) => assert!(alive),
        Err(error) => panic!("a removal answers {error}"),
    }
    for made in made {
        assert!(matches!(made, Ok(()) | Err(Error::NotFound)));
    }
    drop(place);
    unmount(&device, &fs);
}

#[test]
fn a_directory_that_goes_gets_no_name() {
    let image = image_with_directory();
    explore(100, move || remove_what_fills(&image));
}

#[test]
fn names_mean_what_was_said_while_their_table_grows() {
    explore(1000, uext4::names_table);
}

const CROWD: usize = 3;

/// Threads that create in the same few leaves: one splits a leaf, the others wait for it without
/// holding anything, and from then on leaves are split while others insert.
fn crowd(image: &[u8]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, ""));
    let works: [fn(&Filesystem); CROWD + 1] = [
        |fs| create_named(fs, "first"),
        |fs| create_named(fs, "second"),
        |fs| create_named(fs, "third"),
        check_listing,
    ];
    together(&fs, works);
    unmount(&device, &fs);
    let fs = mount(&device, "");
    let found = names(&fs, &dir(&fs, b"d"));
    let filled = usize::try_from(STAY + GO + MOVE).expect("few");
    let come = usize::try_from(COME).expect("few");
    assert_eq!(found.len(), filled + CROWD * come);
    let unique: BTreeSet<_> = found.into_iter().collect();
    assert_eq!(unique.len(), filled + CROWD * come, "a name occurs once");
    fs.unmount().expect("unmounts");
}

#[test]
fn threads_that_meet_split_leaves_ahead() {
    let image = image(fill);
    explore(40, move || crowd(&image));
}
