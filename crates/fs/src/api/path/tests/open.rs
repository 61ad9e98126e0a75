//! Opening and seeking, as `std::fs` does it on the host.

use super::{assert_clean, mounted};
use crate::api::path::OpenOptions;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const EINVAL: i32 = 22;
const NAMES: [&str; 13] = [
    "file",
    "file/",
    "dir",
    "dir/",
    "none",
    "none/",
    "none/below",
    "none/below/",
    "dir/none/",
    "to-file/",
    "dangling",
    "to-file",
    "loop",
];

/// One bit per option.
fn options(bits: u32) -> (OpenOptions, fs::OpenOptions) {
    let (mut ours, mut theirs) = (OpenOptions::new(), fs::OpenOptions::new());
    let on = |bit: u32| bits >> bit & 1 == 1;
    ours.read(on(0)).write(on(1)).append(on(2));
    ours.truncate(on(3)).create(on(4)).create_new(on(5));
    theirs.read(on(0)).write(on(1)).append(on(2));
    theirs.truncate(on(3)).create(on(4)).create_new(on(5));
    (ours, theirs)
}

fn is_no_std_combination(bits: u32) -> bool {
    let (appends, truncates, is_new) = (bits & 4 != 0, bits & 8 != 0, bits & 32 != 0);
    // open(2) allows it, and so does uext4.
    appends && truncates && !is_new
}

fn make_on_host(dir: &Path) {
    fs::create_dir_all(dir.join("dir")).unwrap();
    fs::write(dir.join("file"), "content").unwrap();
    for (target, name) in [
        ("absent", "dangling"),
        ("file", "to-file"),
        ("loop", "loop"),
    ] {
        std::os::unix::fs::symlink(target, dir.join(name)).unwrap();
    }
}

/// Files with their sizes.
fn content_of_host(dir: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, entry.metadata().unwrap().len())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn every_combination_of_options_and_names_opens_as_on_the_host() {
    let (device, image) = mounted();
    let paths = image.paths();
    let scratch = tempfile::tempdir().unwrap();
    for bits in (0..64).filter(|bits| !is_no_std_combination(*bits)) {
        for name in NAMES {
            let case = format!("options {bits:06b}, {name}");
            let host = scratch.path().join("case");
            make_on_host(&host);
            paths.create_dir_all("/case/dir").unwrap();
            paths.write("/case/file", "content").unwrap();
            for (target, link) in [
                ("absent", "dangling"),
                ("file", "to-file"),
                ("loop", "loop"),
            ] {
                paths.symlink(target, format!("/case/{link}")).unwrap();
            }
            let (ours, theirs) = options(bits);
            let there = theirs.open(host.join(name));
            let here = ours.open(&paths, format!("/case/{name}"));
            // The host also opens directories to read.
            if there
                .as_ref()
                .is_ok_and(|file| file.metadata().unwrap().is_dir())
            {
                assert!(here.is_err(), "{case}");
            } else {
                // std refuses contradictions without a call of the system.
                let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(EINVAL);
                let there = there.map(drop).map_err(errno);
                let here = here.map(drop).map_err(|error| error.errno());
                assert_eq!(here, there, "{case}");
            }
            let mut found: Vec<_> = paths
                .read_dir("/case")
                .unwrap()
                .map(|entry| String::from_utf8(entry.unwrap().name.to_vec()).unwrap())
                .filter_map(|name| {
                    let meta = paths.symlink_metadata(format!("/case/{name}")).unwrap();
                    meta.is_file().then(|| (name, meta.len()))
                })
                .collect();
            found.sort();
            assert_eq!(found, content_of_host(&host), "{case}");
            fs::remove_dir_all(&host).unwrap();
            paths.remove_dir_all("/case").unwrap();
        }
    }
    drop(paths);
    assert_clean(&device, image);
}

#[test]
fn positions_are_those_of_the_host() {
    let (_device, image) = mounted();
    let paths = image.paths();
    let scratch = tempfile::NamedTempFile::new().unwrap();
    fs::write(scratch.path(), "content").unwrap();
    paths.write("/file", "content").unwrap();
    let mut theirs = fs::File::open(scratch.path()).unwrap();
    let mut ours = OpenOptions::new().read(true).open(&paths, "/file").unwrap();
    let steps = [
        SeekFrom::Start(3),
        SeekFrom::Current(-2),
        SeekFrom::Current(-2),
        SeekFrom::End(-1),
        SeekFrom::End(-8),
        SeekFrom::End(100),
        SeekFrom::Start(0),
        SeekFrom::Current(i64::MIN),
        SeekFrom::Start(7),
    ];
    for step in steps {
        let (here, there) = (ours.seek(step).ok(), theirs.seek(step).ok());
        assert_eq!(here, there, "{step:?}");
        let (mut here, mut there) = ([0; 2], [0; 2]);
        let read = (
            ours.read(&mut here).unwrap(),
            theirs.read(&mut there).unwrap(),
        );
        assert_eq!((read.0, here), (read.1, there), "{step:?}");
    }
}
