//! Step-by-step equivalence with the kernel's ext4: data, locks, permissions, names, times, flags,
//! ACLs and ioctls.
//!
//! `steps.py` prints its observations on both mounts. Differing lines are listed here with both
//! answers; `docs/differences.md` has the cause of each.

use crate::support::{IMAGE_BYTES, Mounted};
use std::path::Path;
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount};

const SCRIPT: &str = include_str!("steps.py");

/// Line of the kernel's ext4, and line of the mount.
type Pair = (&'static str, &'static str);

/// Behaviour of the kernel's FUSE before a request reaches the server, or without one.
const ALWAYS: &[Pair] = &[
    (r"grown b'\x00\x00\x00\x00' True", "grown b'lost' False"),
    ("setxattr same None --- ---", "setxattr same None --c ---"),
    (
        "truncate by name None -mc ---",
        "truncate by name None --- ---",
    ),
    (
        "past the cache, the end noted",
        "past the cache, the end kept",
    ),
    ("UUID True", "UUID ENOTSUP"),
    ("UUID of any 16", "UUID of any ENOTTY"),
    ("freeze 0", "freeze ENOTSUP"),
    ("thaw 0", "thaw EINVAL"),
];

/// No request is sent, so setuid and setgid stay.
const CHOWN_OF_NOTHING: &[&str] = &[
    "user 6777 chown nothing None -rw",
    "root 6777 chown nothing None -rw",
    "user 2777 chown nothing None -rw",
    "root 2777 chown nothing None -rw",
];

/// The storage format of a file stays; the kernel does not find delayed allocations.
const WITHOUT_EXTENTS: &[Pair] = &[
    (
        "bit 19 EINVAL 0x0 (0, 0, 0, 0, 0)",
        "bit 19 ENOTSUP 0x0 (0, 0, 0, 0, 0)",
    ),
    (
        "([(12288, 20480), (36864, 40960)], 'ENXIO')",
        "([(12288, 20480), (36864, 40960), (81920, 86016)], 'ENXIO')",
    ),
];

fn said(at: &Path) -> Vec<String> {
    let output = Command::new("timeout")
        .args(["-k", "5", "100", "python3", "-c", SCRIPT])
        .current_dir(at)
        .output()
        .expect("timeout is there");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {errors}", output.status);
    let text = String::from_utf8(output.stdout).expect("it prints plain text");
    text.lines().map(str::to_owned).collect()
}

fn compare(mke2fs: &[&str], exceptions: &[&[Pair]]) {
    if !KernelMount::available_or_skip("steps") {
        return;
    }
    let mut mounted = Mounted::with(mke2fs, &[]);
    let (_kept, image) = oracle::mke2fs_image(IMAGE_BYTES, mke2fs).unwrap();
    let kernel = KernelMount::new(&image, "").unwrap();
    let (theirs, ours) = (said(kernel.path()), said(&mounted.root()));
    let mut met = Vec::new();
    for (nr, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        if theirs == ours {
            continue;
        }
        let known = exceptions.concat();
        let known = known.iter().find(|pair| **pair == (theirs, ours));
        let nothing = CHOWN_OF_NOTHING
            .iter()
            .find(|start| theirs.starts_with(*start) && ours.starts_with(*start));
        let known = known.map(|pair| pair.0).or(nothing.copied());
        let say = || format!("line {}: the kernel {theirs:?}, we {ours:?}", nr + 1);
        met.push(known.unwrap_or_else(|| panic!("{}", say())));
    }
    assert_eq!(theirs.len(), ours.len());
    let listed = exceptions.concat();
    let listed = listed
        .iter()
        .map(|pair| pair.0)
        .chain(CHOWN_OF_NOTHING.iter().copied());
    for exception in listed {
        assert!(
            met.contains(&exception),
            "no exception any more: {exception}"
        );
    }
    kernel.unmount().unwrap();
    mounted.unmount();
}

#[test]
fn with_the_usual_features() {
    compare(&["-b", "4096"], &[ALWAYS]);
}

#[test]
fn like_ext3() {
    let features = "^extents,^64bit,^metadata_csum";
    compare(&["-b", "4096", "-O", features], &[ALWAYS, WITHOUT_EXTENTS]);
}
