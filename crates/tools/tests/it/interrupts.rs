//! SIGINT in the middle of commands that change an image or make a file.
//!
//! `strace` counts the reads of a whole run on a copy of the image, and sends the signal at the one
//! in the middle of another run. What is done and what is left shows that it was the middle.

use crate::rig::{Rig, bytes};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Destination, Filesystem, MountOptions};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{KernelMount, Program};
use uext4_testkit::skip;

/// Files of an image.
const FILES: u64 = 60;
const BLOCK: u64 = 4096;
/// Blocks of one file.
const BLOCKS: u64 = 16;

/// Whether the tests can run.
fn has_tools(test: &str) -> bool {
    skip::programs_or_skip(test, &["strace"]) && KernelMount::available_or_skip(test)
}

/// Runs the tool in a directory under `strace`; `more` are arguments of `strace`.
fn traced(dir: &Path, more: &[&str], args: &[&str]) -> Output {
    // The program that runs the tests may ignore the signal, and would pass that on.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "strace"]);
    command.current_dir(dir).args(["-qq", "-o", "reads"]);
    command.args(["-e", "trace=pread64"]).args(more);
    command.arg(env!("CARGO_BIN_EXE_uext4")).args(args);
    command.output().expect("strace runs")
}

/// Runs the command, which gets SIGINT in the middle and must end as interrupted; returns its
/// standard output.
fn interrupted(rig: &Rig, args: &[&str]) -> String {
    let trial = Rig::empty();
    std::fs::copy(rig.image(), trial.image()).expect("a copy");
    let whole = traced(&trial.path("."), &[], args);
    assert!(whole.status.success(), "{args:?}: {whole:?}");
    let reads = bytes(&trial.path("reads"));
    let reads = reads.split(|byte| *byte == b'\n').count();
    assert!(reads > 50, "{args:?}: {reads} reads");
    let inject = format!("inject=pread64:signal=SIGINT:when={}", reads / 2);
    let half = traced(&rig.path("."), &["-e", &inject], args);
    let said = String::from_utf8_lossy(&half.stderr);
    assert_eq!(half.status.code(), Some(1), "{args:?}: {half:?}");
    assert!(said.contains("interrupted"), "{said}");
    std::fs::remove_file(rig.path("reads")).expect("the trace");
    String::from_utf8(half.stdout).expect("text")
}

fn json(said: &str) -> serde_json::Value {
    serde_json::from_str(said).expect("JSON")
}

/// All but the space that maps take.
fn policy() -> Policy {
    Policy::everything().ignore(Field::AllocatedSectors)
}

fn manifest(rig: &Rig) -> Manifest {
    let kernel = KernelMount::new(&rig.image(), "ro").expect("the kernel mounts it");
    let seen = Manifest::of_dir(kernel.path()).expect("a tree");
    kernel.unmount().expect("unmount");
    seen
}

fn on_image(rig: &Rig, work: impl FnOnce(&Filesystem)) {
    let device = FileDevice::open(rig.image(), Access::ReadWrite).expect("the image");
    let fs = Filesystem::mount(Arc::new(device), MountOptions::default()).expect("a mount");
    work(&fs);
    fs.unmount().expect("unmount");
}

fn content(nr: u64) -> Vec<u8> {
    (0..BLOCKS * BLOCK)
        .map(|at| ((at / 7 + nr) % 251) as u8)
        .collect()
}

/// An image with files in many extents, far from the start.
fn scattered() -> Rig {
    let rig = Rig::new(&["-b", "4096"]);
    on_image(&rig, |fs| {
        for nr in 0..FILES {
            let path = format!("/{nr}");
            fs.paths().write(&path, content(nr)).expect("a file");
            let inode = fs.paths().inode(&path).expect("the file");
            for at in (0..BLOCKS).map(|block| block * BLOCK) {
                let to = (nr * BLOCKS * BLOCK + at) * 7919 % (24 << 20);
                fs.relocate(&inode, at..at + BLOCK, Destination::Near((32 << 20) + to))
                    .expect("moves");
            }
        }
    });
    rig
}

/// How many files have one extent, and how many have more.
fn whole_and_fragmented(rig: &Rig) -> (usize, usize) {
    let rows = rig.json(&["defrag", "disk.img", "/", "--dry-run", "--json"]);
    let rows = rows.as_array().expect("a list");
    let is_whole = |row: &&serde_json::Value| row["extents_before"] == 1;
    let whole = rows.iter().filter(is_whole).count();
    (whole, rows.len() - whole)
}

#[test]
fn an_interrupted_defrag_keeps_what_moved_and_all_files() {
    if !has_tools("an_interrupted_defrag_keeps_what_moved_and_all_files") {
        return;
    }
    let rig = scattered();
    let (tree, before) = (manifest(&rig), whole_and_fragmented(&rig));
    interrupted(&rig, &["defrag", "disk.img", "/"]);
    rig.assert_clean();
    tree.assert_same(&manifest(&rig), &policy());
    let after = whole_and_fragmented(&rig);
    assert!(
        after.0 > before.0 + 5 && after.1 > 5,
        "{before:?}, {after:?}"
    );
}

#[test]
fn an_interrupted_compact_keeps_what_moved_and_all_files() {
    if !has_tools("an_interrupted_compact_keeps_what_moved_and_all_files") {
        return;
    }
    let rig = scattered();
    let tree = manifest(&rig);
    let done = json(&interrupted(&rig, &["compact", "disk.img", "--json"]));
    let count = |name: &str| done[name].as_u64().expect("a number");
    assert!(count("moved_bytes") > 20 * BLOCK, "{done}");
    assert!(
        count("moved_bytes") + 20 * BLOCK < count("planned_bytes"),
        "{done}"
    );
    rig.assert_clean();
    tree.assert_same(&manifest(&rig), &policy());
}

#[test]
fn an_interrupted_conversion_continues() {
    if !has_tools("an_interrupted_conversion_continues") {
        return;
    }
    let rig = Rig::empty();
    let file = std::fs::File::create(rig.image()).expect("an image");
    file.set_len(64 << 20).expect("a size");
    let made = Program::new("mke2fs").expect("mke2fs");
    let made = made.args(["-q", "-F", "-t", "ext3", "-b", "4096"]);
    made.arg(rig.image()).run_ok().expect("a file system");
    rig.assert_clean();
    on_image(&rig, |fs| {
        for nr in 0..FILES * 5 {
            let file = fs.paths().create(format!("/{nr}")).expect("a file");
            for tooth in 0..5 {
                let at = (20 + 2 * tooth) * BLOCK;
                file.write_all_at(at, &[nr as u8; 4096]).expect("a block");
            }
        }
    });
    rig.ok(&["convert", "disk.img"]);
    let tree = manifest(&rig);
    let args = ["convert", "disk.img", "--extents", "--json"];
    let half = json(&interrupted(&rig, &args));
    rig.assert_clean();
    tree.assert_same(&manifest(&rig), &policy());
    let rest = rig.json(&args);
    let files = [half, rest].map(|done| done["extents"]["files"].as_u64().expect("a number"));
    assert!(files.iter().all(|files| *files > 20), "{files:?}");
    rig.assert_clean();
    tree.assert_same(&manifest(&rig), &policy());
}

#[test]
fn an_interrupted_export_leaves_no_file() {
    if !has_tools("an_interrupted_export_leaves_no_file") {
        return;
    }
    let rig = scattered();
    let image = bytes(&rig.image());
    std::fs::write(rig.path("old.tar"), "old").expect("a file");
    let exports: [&[&str]; 4] = [
        &["-o", "new.tar"],
        &["-o", "old.tar", "--force"],
        &["-o", "new.tar.zst", "--compress", "zstd"],
        &["-o", "layout", "--format", "oci"],
    ];
    for export in exports {
        interrupted(&rig, &[&["export", "disk.img"], export].concat());
        let names = std::fs::read_dir(rig.path(".")).expect("a directory");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["disk.img", "old.tar"], "{export:?}");
    }
    assert_eq!(bytes(&rig.path("old.tar")), b"old");
    assert!(image == bytes(&rig.image()), "the image changed");
}
