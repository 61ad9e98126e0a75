//! ENOSPC under the write-back cache: each writer gets the error as on the kernel's ext4, and
//! acknowledged data are there.

use crate::support::Mounted;
use std::path::{Path, PathBuf};
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount};

const SCRIPT: &str = include_str!("full.py");
/// Plenty of space at first, for any memory size of the machine.
const IMAGE_BYTES: u64 = 16 << 30;
const MKE2FS: &[&str] = &["-b", "4096", "-N", "4096", "-m", "5", "-J", "size=16"];
fn said(at: &Path, what: &str, record: &Path) -> String {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", "python3", "-c", SCRIPT, what]);
    let output = command.arg(record).current_dir(at).output();
    let output = output.expect("timeout is there");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

fn by_kernel(image: &Path, record: &Path) -> [String; 2] {
    let mut said_so = ["fill", "look"].into_iter().map(|what| {
        let kernel = KernelMount::new(image, "").unwrap();
        let text = said(kernel.path(), what, record);
        kernel.unmount().unwrap();
        text
    });
    [(); 2].map(|()| said_so.next().expect("there are two"))
}

#[test]
fn every_writer_hears_it_and_what_was_told_is_there() {
    if !KernelMount::available_or_skip("full") {
        return;
    }
    let scratch = oracle::scratch_dir().unwrap();
    let (image, record): (PathBuf, PathBuf) = ["image", "record"]
        .map(|name| scratch.path().join(name))
        .into();
    oracle::mke2fs(&image, IMAGE_BYTES, MKE2FS).unwrap();
    let [theirs, theirs_kept] = by_kernel(&image, &record);
    assert!(theirs.contains("a user ENOSPC"), "{theirs}");

    let mut mounted = Mounted::of_bytes(IMAGE_BYTES, MKE2FS, &[]);
    let ours = said(&mounted.root(), "fill", &record);
    assert_eq!(ours, theirs, "ours, the kernel's");
    mounted.unmount();
    mounted.mount(&[]);
    let kept = said(&mounted.root(), "look", &record);
    for (line, theirs) in kept.lines().zip(theirs_kept.lines()) {
        // One `write` may succeed in vain.
        let one = theirs.replace(" 0 lost", " 1 lost");
        assert!(
            line == theirs || line == one,
            "{line}; the kernel: {theirs}"
        );
    }
    assert_eq!(kept.lines().count(), theirs_kept.lines().count());
    mounted.unmount();
}
