//! The fragmented file system, checked by e2fsck and the kernel, and its experiment at small size.

use std::path::Path;
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount};

fn lab(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_uext4-lab"))
        .arg("fragmented")
        .args(args)
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn image(size: &str, dir: &Path) -> std::path::PathBuf {
    let path = dir.join(format!("{size}.img"));
    let name = path.to_str().expect("a path of UTF-8");
    lab(&["--size", size, "--write-image", name]);
    path
}

/// Lines of the kernel's log; the oldest are dropped when it is full.
fn kernel_log() -> Vec<String> {
    let output = Command::new("dmesg").output().expect("dmesg runs");
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    log.lines().map(str::to_owned).collect()
}

/// Messages of the kernel about a loop device after the log line `last`, without those of every
/// mount.
fn complaints(loop_device: &str, last: Option<&String>) -> Vec<String> {
    let name = loop_device.rsplit('/').next().expect("a name");
    let of_device = |line: &String| line.contains(&format!("({name})"));
    let usual = |line: &String| line.contains("mounted filesystem") || line.contains("unmounting");
    let log = kernel_log();
    let seen = log.iter().rposition(|line| Some(line) == last);
    let new = log.into_iter().skip(seen.map_or(0, |at| at + 1));
    new.filter(of_device).filter(|line| !usual(line)).collect()
}

#[test]
fn the_generated_file_system_is_clean() {
    let scratch = oracle::scratch_dir().expect("a scratch directory");
    for size in ["1G", "5G"] {
        oracle::assert_clean(&image(size, scratch.path()));
    }
}

#[test]
fn the_kernel_mounts_it_without_a_word_and_writes_to_it() {
    if !KernelMount::available_or_skip("the_kernel_mounts_it_without_a_word_and_writes_to_it") {
        return;
    }
    let scratch = oracle::scratch_dir().expect("a scratch directory");
    let path = image("8G", scratch.path());
    let before = kernel_log();
    let mount = KernelMount::new(&path, "").expect("the kernel mounts it");
    // Enough data to read the bitmaps of many groups.
    std::fs::write(mount.path().join("file"), vec![7; 40 << 20]).expect("data");
    let device = mount.loop_device().to_owned();
    mount.unmount().expect("the kernel unmounts it");
    assert_eq!(complaints(&device, before.last()), Vec::<String>::new());
    oracle::assert_clean(&path);
}

#[test]
fn every_row_is_measured_and_leaves_the_image_as_it_was() {
    let rows = "tree-3-limit,optimized";
    let args = ["--size", "5G", "--runs", "2", "--settle-s", "0", "--json"];
    let lines = lab(&[&args[..], &["--rows", rows]].concat());
    let count = |what: &str| lines.lines().filter(|line| line.contains(what)).count();
    assert_eq!(count("\"system\":\"uext4\""), 2 * 9 + 2, "{lines}");
    if KernelMount::is_available() {
        assert_eq!(count("\"system\":\"kernel-ext4\""), 9, "{lines}");
    }
    assert_eq!(count("\"runs\":2"), lines.lines().count(), "{lines}");
}

#[test]
fn a_row_that_is_stopped_says_so() {
    let args = ["--size", "1G", "--systems", "uext4", "--rows", "linear"];
    let table = lab(&[&args[..], &["--limit-s", "0", "--runs", "1"]].concat());
    assert!(table.contains("stopped at the limit"), "{table}");
}
