//! File handles as of an NFS server: number and generation, valid as long as the file exists.

use crate::support::{Mounted, errno};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use uext4_testkit::wait;

/// Calls that no safe library offers.
const SCRIPT: &str = include_str!("handles.py");

/// Words of a mount whose handles outlive the kernel's cache.
const EXPORT: &[&str] = &["nfs_export"];

/// Contents of a `struct file_handle`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Handle {
    kind: i64,
    data: Vec<u8>,
}

/// Description of an open file.
#[derive(Deserialize)]
struct Opened {
    /// Its path, resolved by the kernel through "..".
    path: PathBuf,
    is_dir: bool,
    /// Contents of a regular file.
    text: String,
}

/// Runs the script; a failure is an errno.
fn ask<T: DeserializeOwned>(args: &[&OsStr]) -> io::Result<T> {
    let mut command = Command::new("timeout");
    command.args(["60", "python3", "-c", SCRIPT]).args(args);
    let output = command.output().expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let answer: Result<T, i32> = serde_json::from_slice(&output.stdout).expect("it is JSON");
    answer.map_err(io::Error::from_raw_os_error)
}

fn handle_of(path: &Path) -> Handle {
    let (kind, data) = ask(&["handle".as_ref(), path.as_os_str()]).expect("it has one");
    Handle { kind, data }
}

fn open(mounted: &Mounted, handle: &Handle) -> io::Result<Opened> {
    let (root, kind) = (mounted.root(), handle.kind.to_string());
    let data = serde_json::to_string(&handle.data).expect("bytes are numbers");
    ask(&[
        "open".as_ref(),
        root.as_os_str(),
        kind.as_ref(),
        data.as_ref(),
    ])
}

/// Makes the kernel evict unused inodes and send `FORGET` for them.
fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "2").expect("the tests run as root");
}

#[test]
fn a_handle_outlives_caches_names_and_mounts() {
    let mut mounted = Mounted::with(&["-b", "4096"], EXPORT);
    fs::create_dir_all(mounted.path("a/b/c")).unwrap();
    fs::write(mounted.path("a/b/file"), "found").unwrap();
    let (file, dir) = (
        handle_of(&mounted.path("a/b/file")),
        handle_of(&mounted.path("a/b/c")),
    );
    let root = handle_of(&mounted.root());
    let look = |mounted: &Mounted| {
        assert_eq!(open(mounted, &file).unwrap().text, "found");
        let path = open(mounted, &dir).unwrap().path;
        assert!(path.ends_with("b/c"), "{path:?}");
        assert!(open(mounted, &root).unwrap().is_dir);
    };
    drop_caches();
    look(&mounted);
    fs::rename(mounted.path("a"), mounted.path("z")).unwrap();
    drop_caches();
    look(&mounted);
    mounted.unmount();
    mounted.mount(EXPORT);
    look(&mounted);
    mounted.unmount();
}

#[test]
fn a_handle_of_a_deleted_file_stays_stale() {
    let mut mounted = Mounted::with(&["-b", "4096"], EXPORT);
    let (path, again) = (mounted.path("file"), mounted.path("again"));
    fs::write(&path, "old").unwrap();
    let handle = handle_of(&path);
    let ino = fs::metadata(&path).unwrap().ino();
    fs::remove_file(&path).unwrap();
    drop_caches();
    assert_eq!(errno(open(&mounted, &handle)), Some(libc::ESTALE));
    // The number is reused with another generation once `FORGET` has arrived, which has no answer.
    wait::until_true("the inode is used again", || {
        let _ = fs::remove_file(&again);
        fs::write(&again, "new").unwrap();
        fs::metadata(&again).unwrap().ino() == ino
    });
    assert_eq!(errno(open(&mounted, &handle)), Some(libc::ESTALE));
    drop_caches();
    assert_eq!(errno(open(&mounted, &handle)), Some(libc::ESTALE));
    let other = handle_of(&again);
    assert_ne!(other.data, handle.data);
    assert!(open(&mounted, &other).is_ok());
    // Numbers without a file: reserved ones, one beyond the end, and free ones.
    for number in [0u64, 2, 7, 8, 1 << 31, 1 << 33] {
        let mut forged = other.clone();
        forged.data[..4].copy_from_slice(&((number >> 32) as u32).to_ne_bytes());
        forged.data[4..8].copy_from_slice(&(number as u32).to_ne_bytes());
        assert_eq!(
            errno(open(&mounted, &forged)),
            Some(libc::ESTALE),
            "{number}"
        );
    }
    mounted.unmount();
}

/// The kernel forgets the file before the server hears of it.
#[test]
fn a_handle_of_a_removed_file_is_stale_at_once() {
    let mut mounted = Mounted::with(&["-b", "4096"], EXPORT);
    for round in 0..20 {
        let path = mounted.path(&format!("{round}"));
        fs::write(&path, "old").unwrap();
        let handle = handle_of(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(errno(open(&mounted, &handle)), Some(libc::ESTALE));
    }
    mounted.unmount();
}
