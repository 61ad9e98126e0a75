//! Number of requests per file. Each is one that the kernel sends whatever the server answers:
//! `docs/results/2026-11-requests.md` has the reasons, and the counts of whole programs.

use crate::support::Mounted;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use uext4_fuse::Ask;

const FILES: u64 = 200;
/// Requests more or less: of directories, and of attributes whose lifetime ends on a busy machine.
const SLACK: u64 = FILES / 10;

/// Requests by name.
type Counts = BTreeMap<String, u64>;

fn counts(mounted: &Mounted) -> Counts {
    // A client is served for 10 seconds.
    let stats = mounted.client().ask(&Ask::Stats {}).expect("it answers");
    let rows = stats["requests"].as_array().expect("it is a list").iter();
    let row = |row: &serde_json::Value| {
        let name = row["name"].as_str().expect("it is a name").to_owned();
        (name, row["count"].as_u64().expect("it is a number"))
    };
    rows.map(row).collect()
}

/// Does something with each of the files, and checks the number of requests per file. What is
/// released or forgotten is not waited for and not checked.
fn expect(mounted: &Mounted, step: &str, per_file: &[(&str, u64)], act: impl Fn(&Path)) {
    let files: Vec<PathBuf> = (0..FILES)
        .map(|nr| mounted.path(&format!("{nr}")))
        .collect();
    let before = counts(mounted);
    files.iter().for_each(|file| act(file));
    for (name, after) in counts(mounted) {
        let found = after - before.get(&name).unwrap_or(&0);
        let wanted = per_file.iter().find(|(known, _)| *known == name);
        let wanted = FILES * wanted.map_or(0, |(_, count)| *count);
        let unwaited = ["release", "releasedir", "forget", "batch_forget"].contains(&&*name);
        let fits = (wanted.saturating_sub(SLACK)..=wanted + SLACK).contains(&found);
        assert!(fits || unwaited, "{step}: {found} {name} of {FILES} files");
    }
}

#[test]
fn no_request_is_sent_in_vain() {
    let mut mounted = Mounted::new();
    let absent = |path: &Path| assert!(!path.exists());
    expect(&mounted, "absent", &[("lookup", 1)], absent);
    expect(&mounted, "absent again", &[], absent);
    // The name is looked up again because of O_EXCL, and the directory has changed.
    let create = [("lookup", 1), ("getattr", 1), ("create", 1)];
    expect(&mounted, "create", &create, |path| {
        drop(File::create_new(path).unwrap());
    });
    let stat = |path: &Path| assert!(fs::metadata(path).unwrap().is_file());
    // The kernel owns the times, and tells them at the close.
    let write = [("open", 1), ("getxattr", 1), ("write", 1), ("setattr", 1)];
    expect(&mounted, "write", &write, |path| {
        let mut file = File::options().write(true).open(path).unwrap();
        file.write_all(&[7; 1024]).unwrap();
    });
    // After it, the kernel does not know the number of blocks.
    expect(&mounted, "stat", &[("statx", 1)], stat);
    expect(&mounted, "stat again", &[], stat);
    expect(&mounted, "read", &[("open", 1)], |path| {
        let mut file = File::open(path).unwrap();
        file.read_exact(&mut [0; 1024]).unwrap();
    });
    expect(&mounted, "chmod", &[("setattr", 1)], |path| {
        fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap();
    });
    let give = [("setattr", 1), ("getxattr", 1)];
    expect(&mounted, "chown", &give, |path| {
        chown(path, Some(7), Some(8)).unwrap();
    });
    expect(&mounted, "stat a third time", &[], stat);
    let remove = [("getattr", 1), ("unlink", 1), ("setattr", 1)];
    expect(&mounted, "remove", &remove, |path| {
        fs::remove_file(path).unwrap()
    });
    // A removed name is not remembered as absent.
    expect(&mounted, "absent at last", &[("lookup", 1)], absent);
    mounted.unmount();
}

/// A listing with attributes brings those of many files at once, and their names.
#[test]
fn a_listing_brings_attributes_and_names() {
    let mut mounted = Mounted::new();
    for nr in 0..FILES {
        File::create(mounted.path(&format!("{nr}"))).unwrap();
    }
    mounted.unmount();
    mounted.mount(&[]);
    let before = counts(&mounted);
    for entry in fs::read_dir(mounted.root()).unwrap() {
        entry.unwrap().metadata().unwrap();
    }
    let after = counts(&mounted);
    let since = |name: &str| after.get(name).unwrap_or(&0) - before.get(name).unwrap_or(&0);
    for name in ["lookup", "getattr", "getxattr"] {
        assert!(since(name) < SLACK, "{} {name}", since(name));
    }
    assert!((1..SLACK).contains(&since("readdirplus")));
    mounted.unmount();
}
