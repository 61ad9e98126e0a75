//! Equivalence with the kernel's ext4: one script has the same output on both mounts.

use crate::support::{IMAGE_BYTES, Mounted, errno};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount};

const SCRIPT: &str = include_str!("exact.sh");

fn said(at: &Path) -> String {
    let output = Command::new("timeout")
        .args(["-k", "5", "60", "sh", "-c", SCRIPT])
        .current_dir(at)
        .output()
        .expect("timeout is there");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

fn compare(mke2fs: &[&str]) {
    if !KernelMount::available_or_skip("exact") {
        return;
    }
    let mut mounted = Mounted::with(mke2fs, &[]);
    let (_kept, image) = oracle::mke2fs_image(IMAGE_BYTES, mke2fs).unwrap();
    let kernel = KernelMount::new(&image, "").unwrap();
    let (theirs, ours) = (said(kernel.path()), said(&mounted.root()));
    for (index, (theirs, ours)) in theirs.lines().zip(ours.lines()).enumerate() {
        assert_eq!(theirs, ours, "line {}: the kernel's, ours", index + 1);
    }
    assert_eq!(theirs.len(), ours.len());
    assert!(theirs.contains("== locks\nlocked\nfree"), "{theirs}");
    kernel.unmount().unwrap();
    mounted.unmount();
}

#[test]
fn with_the_usual_features() {
    compare(&["-b", "4096"]);
}

#[test]
fn with_inline_data() {
    compare(&["-b", "4096", "-I", "512", "-O", "inline_data"]);
}

#[test]
fn like_ext3() {
    compare(&["-b", "1024", "-O", "^extents,^64bit,^metadata_csum"]);
}

#[test]
fn how_a_file_is_stored_stays() {
    let mut mounted = Mounted::new();
    let path = mounted.path("file");
    fs::write(&path, [7; 10_000]).unwrap();
    for flag in ["-e", "+j"] {
        let status = Command::new("chattr")
            .arg(flag)
            .arg(&path)
            .output()
            .unwrap();
        assert!(!status.status.success(), "chattr {flag}");
    }
    mounted.unmount();
}

/// The kernel takes a short answer to a writeback for a full one.
#[test]
fn synced_data_outlive_a_full_device() {
    let mut mounted = Mounted::with(&["-b", "4096", "-m", "0"], &[]);
    let content = |index: usize| -> Vec<u8> {
        let bytes =
            (0..400_000 + index * 37).map(|at| (at * 31 + index * 7) as u8 ^ (at >> 8) as u8);
        bytes.collect()
    };
    let write = |path: &Path, data: &[u8]| -> std::io::Result<()> {
        let file = File::create(path)?;
        file.write_all_at(data, 0)?;
        file.sync_all()
    };
    let mut kept = Vec::new();
    let mut next = 0;
    for _ in 0..4 {
        let full = loop {
            let path = mounted.path(&format!("{next}"));
            let done = write(&path, &content(next));
            if done.is_err() {
                break (path, errno(done));
            }
            kept.push(next);
            next += 1;
        };
        assert_eq!(full.1, Some(libc::ENOSPC));
        fs::remove_file(full.0).unwrap();
        next += 1;
        // Deleting every other file leaves holes to fill.
        let (stay, go): (Vec<usize>, Vec<usize>) = kept.iter().partition(|&&index| index % 2 == 0);
        for index in go {
            fs::remove_file(mounted.path(&format!("{index}"))).unwrap();
        }
        kept = stay;
    }
    mounted.unmount();
    mounted.mount(&[]);
    for index in kept {
        let read = fs::read(mounted.path(&format!("{index}"))).unwrap();
        assert!(read == content(index), "file {index} differs");
    }
    mounted.unmount();
}

#[test]
fn only_directories_are_mount_points() {
    let dir = oracle::scratch_dir().unwrap();
    let image = dir.path().join("image");
    oracle::mke2fs(&image, IMAGE_BYTES, &[]).unwrap();
    for place in ["image", "nowhere"] {
        let place = dir.path().join(place);
        let program = crate::support::program();
        let output = crate::support::try_run(program.to_str().unwrap(), &[&image, &place]);
        assert_eq!(output.status.code(), Some(1), "{}", place.display());
    }
}
