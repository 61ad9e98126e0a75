//! Two links of one file to the same new name: one is refused, and the file keeps its name.

use super::{content, in_threads, judge, mount, rounds};
use crate::image;
use std::sync::{Arc, Barrier};
use uext4::{Caller, Error, Filesystem, InodeRef, WriteContext};

/// Files per round.
const FILES: u64 = 100;

fn name(nr: u64) -> Vec<u8> {
    format!("linked {nr}").into_bytes()
}

fn data(nr: u64) -> Vec<u8> {
    nr.to_le_bytes().repeat(1000)
}

fn link(fs: &Filesystem, file: &InodeRef, nr: u64) -> bool {
    let root = fs.root().expect("a root");
    match fs.link(file, &root, &name(nr), &Caller::root()) {
        Ok(()) => true,
        Err(Error::Exists) => false,
        Err(error) => panic!("a link: {error}"),
    }
}

fn unnamed(fs: &Filesystem, nr: u64) -> InodeRef {
    let root = fs.root().expect("a root");
    let file = fs.tmpfile(&root, 0o600, &Caller::root()).expect("a file");
    fs.write(&file, 0, &data(nr), &WriteContext::ROOT)
        .expect("a write");
    file
}

#[test]
fn an_unnamed_file_that_two_threads_link_keeps_its_name() {
    for round in 0..rounds(3) {
        let device = image::ext4(32);
        let fs = mount(&device, "");
        let files: Vec<_> = (0..FILES).map(|nr| unnamed(&fs, nr)).collect();
        let (shared, together) = (fs.clone(), Arc::new(Barrier::new(2)));
        let linked = in_threads(2, move |_| {
            let link = |(nr, file)| {
                together.wait();
                u64::from(link(&shared, file, nr))
            };
            (0..).zip(&files).map(link).sum::<u64>()
        });
        assert_eq!(linked.iter().sum::<u64>(), FILES, "round {round}");
        fs.sync().expect("a sync");
        judge(&device, &fs, |fs| {
            let root = fs.root().expect("a root");
            for nr in 0..FILES {
                let file = fs.lookup(&root, &name(nr), &Caller::root());
                let file = file.expect("the name");
                assert!(content(fs, &file) == data(nr), "round {round}: file {nr}");
                assert_eq!(fs.attr(&file).links, 1, "round {round}: file {nr}");
            }
        });
    }
}
