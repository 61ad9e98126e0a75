//! `defrag` and `compact`, on images and on a running mount; e2fsck checks the results.

use crate::rig::Rig;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Destination, Filesystem, MountOptions, WriteContext};
use uext4_testkit::skip;

/// Blocks of the scattered file.
const BLOCKS: u64 = 400;
const BLOCK: u64 = 4096;

fn content() -> Vec<u8> {
    (0..BLOCKS * BLOCK).map(|at| (at / 7 % 251) as u8).collect()
}

/// An image with the scattered file `/dir/scattered`, a small file beside it, and a link.
fn scattered() -> Rig {
    let rig = Rig::new(&["-b", "4096"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    std::fs::write(rig.path("small"), b"small").unwrap();
    rig.ok(&["put", "disk.img", "small", "/dir/small"]);
    rig.ok(&["ln", "-s", "disk.img", "small", "/dir/link"]);
    let device = Arc::new(FileDevice::open(rig.image(), Access::ReadWrite).unwrap());
    let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
    let file = fs.paths().create("/dir/scattered").unwrap();
    fs.write(file.inode(), 0, &content(), &WriteContext::ROOT)
        .unwrap();
    for at in (0..BLOCKS).map(|block| block * BLOCK) {
        let to = Destination::Near(at * 7919 % (64 << 20));
        fs.relocate(file.inode(), at..at + BLOCK, to).unwrap();
    }
    drop(file);
    fs.unmount().unwrap();
    rig
}

fn extents(rig: &Rig) -> usize {
    let rows = rig.json(&["extents", "disk.img", "/dir/scattered", "--json"]);
    rows.as_array().expect("a list").len()
}

#[test]
fn a_file_and_a_tree_are_defragmented() {
    if !skip::root_or_skip("a_file_and_a_tree_are_defragmented") {
        return;
    }
    let rig = scattered();
    let before = extents(&rig);
    assert!(before > 50, "{before}");
    let image = std::fs::read(rig.image()).unwrap();
    let dry = rig.json(&["defrag", "disk.img", "/", "--dry-run", "--json"]);
    assert!(
        image == std::fs::read(rig.image()).unwrap(),
        "a dry run changed the image"
    );
    let rows = dry.as_array().expect("a list");
    assert_eq!(rows.len(), 2, "{dry}");
    let row = rows
        .iter()
        .find(|row| row["path"] == "/dir/scattered")
        .expect("the file");
    assert_eq!(
        (&row["extents_before"], &row["extents_fewest"]),
        (&before.into(), &1.into())
    );
    let said = rig.ok(&["defrag", "disk.img", "/dir/scattered"]);
    assert!(
        said.contains(&format!("{before} extents before, 1 after")),
        "{said}"
    );
    assert_eq!(extents(&rig), 1);
    let said = rig.ok(&["defrag", "disk.img", "/dir"]);
    assert!(said.contains("1 extent, as few as can be"), "{said}");
    rig.ok(&["get", "disk.img", "/dir/scattered", "out"]);
    assert!(std::fs::read(rig.path("out")).unwrap() == content());
    rig.assert_clean();
    rig.fails(1, "no such file", &["defrag", "disk.img", "/nothing"]);
    rig.fails(1, "/dir/link", &["defrag", "disk.img", "/dir/link"]);
    rig.fails(2, "PATH", &["defrag", "disk.img"]);
}

#[test]
fn a_file_of_a_running_mount_is_defragmented() {
    if !skip::fuse_or_skip("defrag") {
        return;
    }
    let rig = scattered();
    std::fs::create_dir(rig.path("mnt")).unwrap();
    rig.fails(1, "mnt", &["defrag", "mnt", "/"]);
    rig.ok(&["mount", "disk.img", "mnt"]);
    let rows = rig.json(&["defrag", "mnt", "/", "--json"]);
    let rows = rows.as_array().expect("a list").clone();
    let moved = rows
        .iter()
        .filter(|row| row["moved_bytes"] != 0)
        .collect::<Vec<_>>();
    assert_eq!(moved.len(), 1, "{rows:?}");
    assert_eq!(
        (&moved[0]["path"], &moved[0]["extents_after"]),
        (&"/dir/scattered".into(), &1.into())
    );
    assert!(std::fs::read(rig.path("mnt/dir/scattered")).unwrap() == content());
    rig.fails(1, "no such file", &["defrag", "mnt", "/nothing"]);
    rig.fails(2, "running mount", &["compact", "mnt"]);
    rig.ok(&["umount", "mnt"]);
    assert_eq!(extents(&rig), 1);
    rig.assert_clean();
}

/// The rows are more than a pipe holds, so the last names are not read before the first row is.
#[test]
fn a_name_that_vanishes_meanwhile_does_not_end_it() {
    if !skip::fuse_or_skip("defrag of names that vanish") {
        return;
    }
    let rig = Rig::new(&["-b", "4096"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    std::fs::create_dir(rig.path("mnt")).unwrap();
    rig.ok(&["mount", "disk.img", "mnt"]);
    let name = |nr: u32| format!("{nr:03}{}", "x".repeat(240));
    for nr in 0..600 {
        std::fs::write(rig.path("mnt/dir").join(name(nr)), "").unwrap();
    }
    let mut tool = Command::new(env!("CARGO_BIN_EXE_uext4"));
    let tool = tool.args(["defrag", "mnt", "/dir"]);
    let tool = tool.current_dir(rig.path("")).stdout(Stdio::piped());
    let mut child = tool.spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = rows.next().unwrap().unwrap();
    assert!(first.contains(&name(0)), "{first}");
    for nr in [500, 599] {
        std::fs::remove_file(rig.path("mnt/dir").join(name(nr))).unwrap();
    }
    let rows: Vec<String> = rows.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(rows.len(), 597);
    assert!(rows[596].contains(&name(598)), "{}", rows[596]);
    rig.ok(&["umount", "mnt"]);
    rig.assert_clean();
}

#[test]
fn an_image_is_compacted() {
    let rig = Rig::new(&["-b", "4096"]);
    let data: Vec<u8> = (0..3 << 20).map(|at| (at % 241) as u8).collect();
    std::fs::write(rig.path("file"), &data).unwrap();
    for nr in 0..14 {
        rig.ok(&["put", "disk.img", "file", &format!("/file{nr}")]);
    }
    for nr in (0..14).filter(|nr| nr % 4 != 3) {
        rig.ok(&["rm", "disk.img", &format!("/file{nr}")]);
    }
    let allocated = || std::fs::metadata(rig.image()).unwrap().blocks() * 512;
    let before = allocated();
    let image = std::fs::read(rig.image()).unwrap();
    let dry = rig.json(&["compact", "disk.img", "--dry-run", "--json"]);
    assert!(
        image == std::fs::read(rig.image()).unwrap(),
        "a dry run changed the image"
    );
    assert!(dry["planned_bytes"].as_u64() > Some(0), "{dry}");
    let done = rig.json(&["compact", "disk.img", "--json"]);
    assert_eq!(done["moved_bytes"], dry["planned_bytes"]);
    assert!(
        done["free_end_bytes"].as_u64() > dry["free_end_bytes"].as_u64(),
        "{dry} {done}"
    );
    assert_eq!(done["host_bytes_before"], before);
    assert_eq!(done["host_bytes_after"], allocated());
    assert!(
        allocated() + (24 << 20) < before,
        "{before} {}",
        allocated()
    );
    for nr in [3, 7, 11] {
        rig.ok(&["get", "disk.img", &format!("/file{nr}"), "out"]);
        assert!(std::fs::read(rig.path("out")).unwrap() == data, "{nr}");
        std::fs::remove_file(rig.path("out")).unwrap();
    }
    rig.assert_clean();
    assert!(
        rig.ok(&["compact", "disk.img"])
            .contains("on the host before")
    );
    assert_eq!(rig.ok(&["compact", "disk.img", "-q"]), "");
    let done = rig.json(&["compact", "disk.img", "--truncate", "--json"]);
    let length = std::fs::metadata(rig.image()).unwrap().len();
    assert_eq!(done["size_bytes"], length);
    assert!(length + (24 << 20) < image.len() as u64, "{length}");
    rig.ok(&["get", "disk.img", "/file3", "out"]);
    assert!(std::fs::read(rig.path("out")).unwrap() == data);
    rig.assert_clean();
}
