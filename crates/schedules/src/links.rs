//! Links of one unnamed file (O_TMPFILE): of two links to one name one is refused, the file has the
//! name then, and none of its blocks is free.

use crate::explore::explore;
use crate::rig::{Flat, dir, fall_behind, image_with_directory, join, mount, unmount};
use std::sync::Arc;
use uext4::{Caller, Error, Filesystem, InodeRef, WriteContext};
use uext4_sync::thread;

const DATA: &[u8] = &[7; 3000];

fn link(fs: &Filesystem, file: &InodeRef, name: &[u8]) {
    match fs.link(file, &dir(fs, b"d"), name, &Caller::root()) {
        // After a link and an unlink by the other threads, it gets no second name.
        Ok(()) | Err(Error::Exists | Error::NotFound) => {}
        Err(error) => panic!("a link: {error}"),
    }
}

/// Two threads link the file to `names`, and a third removes the first of them, if it exists.
fn meet(image: &[u8], names: [&'static [u8]; 2], removes: bool) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, "nodelalloc"));
    let before = (fs.statfs().blocks_free, fs.statfs().inodes_free);
    let caller = Caller::root();
    let file = fs.tmpfile(&dir(&fs, b"d"), 0o600, &caller).expect("a file");
    fs.write(&file, 0, DATA, &WriteContext::ROOT)
        .expect("a write");
    let mut threads: Vec<_> = names
        .into_iter()
        .map(|name| {
            let (fs, file) = (fs.clone(), file.clone());
            thread::spawn(move || link(&fs, &file, name))
        })
        .collect();
    if removes {
        let fs = fs.clone();
        threads.push(thread::spawn(move || {
            fall_behind();
            match fs.unlink(&dir(&fs, b"d"), names[0], &Caller::root()) {
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => panic!("an unlink: {error}"),
            }
        }));
    }
    join(threads);
    drop(file);
    fs.sync().expect("a sync");
    match fs.lookup(&dir(&fs, b"d"), names[0], &caller) {
        Ok(found) => {
            let mut read = vec![0; 2 * DATA.len()];
            let len = fs.read(&found, 0, &mut read).expect("a read");
            assert_eq!(read[..len], *DATA);
        }
        Err(Error::NotFound) if removes => {
            let after = (fs.statfs().blocks_free, fs.statfs().inodes_free);
            assert_eq!(after, before, "a file without a name is freed");
        }
        Err(error) => panic!("a look-up: {error}"),
    }
    unmount(&device, &fs);
}

#[test]
fn of_two_links_to_one_name_one_is_refused() {
    let image = image_with_directory();
    explore(60, move || meet(&image, [b"name", b"name"], false));
}

#[test]
fn a_link_is_refused_while_the_other_is_removed() {
    let image = image_with_directory();
    explore(60, move || meet(&image, [b"name", b"name"], true));
}
