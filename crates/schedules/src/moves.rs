//! A directory gets another parent while one moves into it and a third thread removes it.

use crate::explore::explore;
use crate::rig::{Flat, dir, fall_behind, image, mount, names, together, unmount};
use std::sync::Arc;
use uext4::{Caller, Error, Filesystem, RenameFlags};

fn fill(fs: &Filesystem) {
    let (root, caller) = (fs.root().expect("a root"), Caller::root());
    for name in [b"d", b"e"] {
        fs.mkdir(&root, name, 0o755, &caller).expect("a directory");
    }
    for name in [b"x", b"y"] {
        fs.mkdir(&dir(fs, b"d"), name, 0o755, &caller)
            .expect("a directory");
    }
}

/// Another thread was first, in some order.
fn fair(answer: Result<(), Error>) {
    match answer {
        Ok(()) | Err(Error::NotFound | Error::NotEmpty) => {}
        Err(error) => panic!("a thread that moves or removes gets {error}"),
    }
}

fn adopt(fs: &Filesystem) {
    let (from, to) = (dir(fs, b"d"), dir(fs, b"e"));
    fair(fs.rename(
        &from,
        b"x",
        &to,
        b"x",
        RenameFlags::Replace,
        &Caller::root(),
    ));
}

fn move_in(fs: &Filesystem) {
    let (from, caller) = (dir(fs, b"d"), Caller::root());
    let Ok(to) = fs.lookup(&from, b"x", &caller) else {
        return;
    };
    fall_behind();
    fair(fs.rename(&from, b"y", &to, b"y", RenameFlags::Replace, &caller));
}

fn remove(fs: &Filesystem) {
    for parent in [b"d", b"e"] {
        fair(fs.rmdir(&dir(fs, parent), b"x", &Caller::root()));
    }
}

fn meet<const N: usize>(image: &[u8], works: [fn(&Filesystem); N]) {
    let device = Flat::new(image);
    let fs = Arc::new(mount(&device, ""));
    together(&fs, works);
    for parent in [b"d", b"e"] {
        let parent = dir(&fs, parent);
        let below = names(&fs, &parent).len();
        assert_eq!(fs.attr(&parent).links as usize, 2 + below);
    }
    unmount(&device, &fs);
}

#[test]
fn a_directory_that_moves_is_removed_before_or_after() {
    let image = image(fill);
    explore(200, move || meet(&image, [adopt, remove]));
}

#[test]
fn a_directory_moves_into_one_that_moves_and_goes() {
    let image = image(fill);
    explore(400, move || meet(&image, [adopt, move_in, remove]));
}
