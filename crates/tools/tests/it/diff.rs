//! `diff`: known changes are found, nothing else is, and each block has its owner.

use crate::rig::{Rig, bytes};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, lchown, symlink};
use std::process::Output;
use std::time::{Duration, SystemTime};
use uext4_testkit::oracle::{self, Access};
use uext4_testkit::skip;

/// Two images of one tree, the second changed by `change` in a directory of the host.
fn images(change: impl FnOnce(&std::path::Path)) -> Rig {
    let rig = Rig::empty();
    let tree = rig.path("tree");
    fs::create_dir_all(tree.join("dir/sub")).unwrap();
    fs::write(tree.join("dir/file"), vec![b'x'; 3 << 20]).unwrap();
    fs::write(tree.join("dir/sub/same"), "same").unwrap();
    fs::write(tree.join("gone"), "gone").unwrap();
    fs::write(tree.join("one"), "linked").unwrap();
    fs::hard_link(tree.join("one"), tree.join("two")).unwrap();
    symlink("one", tree.join("link")).unwrap();
    mknodat(
        CWD,
        tree.join("char"),
        FileType::CharacterDevice,
        Mode::RUSR,
        makedev(1, 2),
    )
    .unwrap();
    setxattr(tree.join("one"), "user.a", b"1", XattrFlags::empty()).unwrap();
    rig.ok(&["mkfs", "a.img", "64M", "-q"]);
    rig.ok(&["put", "-r", "a.img", "tree/.", "/"]);
    change(&tree);
    rig.ok(&["mkfs", "b.img", "64M", "-q", "-b", "4096"]);
    rig.ok(&["put", "-r", "b.img", "tree/.", "/"]);
    rig
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs `diff --json`, which must find differences.
fn json(rig: &Rig, args: &[&str]) -> Value {
    let output = rig.run(&[&["diff", "--json"], args].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What differs, by path.
fn by_path(found: &Value) -> BTreeMap<String, Value> {
    let rows = found["differences"].as_array().expect("a list");
    let pair = |row: &Value| (row["path"].as_str().unwrap().to_owned(), row.clone());
    rows.iter().map(pair).collect()
}

#[test]
fn equal_trees_of_different_file_systems_are_equal() {
    if !skip::root_or_skip("equal_trees_of_different_file_systems_are_equal") {
        return;
    }
    let rig = images(|tree| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_007);
        let file = File::open(tree.join("gone")).unwrap();
        file.set_modified(time).unwrap();
    });
    assert_eq!(rig.ok(&["diff", "a.img", "b.img"]), "");
    let found = rig.json(&["diff", "a.img", "b.img", "--json"]);
    assert_eq!(
        (&found["equal"], &found["differences"]),
        (&true.into(), &Value::Array(vec![]))
    );
    let times = by_path(&json(&rig, &["a.img", "b.img", "--times"]));
    let changes = times["/gone"]["changes"].as_array().unwrap();
    let modified = changes.iter().find(|change| change["what"] == "modified");
    assert_eq!(modified.unwrap()["b"], "1000000007000000000");
    rig.fails(
        2,
        "block size (1024 and 4096)",
        &["diff", "--blocks", "a.img", "b.img"],
    );
}

#[test]
fn every_change_is_told() {
    if !skip::root_or_skip("every_change_is_told") {
        return;
    }
    let rig = images(|tree| {
        fs::remove_file(tree.join("gone")).unwrap();
        fs::create_dir(tree.join("new\u{1b}[2J")).unwrap();
        fs::write(tree.join("new\u{1b}[2J/file"), "new").unwrap();
        let file = File::options()
            .write(true)
            .open(tree.join("dir/file"))
            .unwrap();
        file.write_all_at(b"y", 2_345_678).unwrap();
        file.set_len((3 << 20) + 5).unwrap();
        fs::set_permissions(tree.join("dir/sub"), Permissions::from_mode(0o2700)).unwrap();
        lchown(tree.join("dir/sub/same"), Some(7), Some(8)).unwrap();
        fs::remove_file(tree.join("two")).unwrap();
        fs::write(tree.join("two"), "linked").unwrap();
        fs::remove_file(tree.join("link")).unwrap();
        symlink("two", tree.join("link")).unwrap();
        setxattr(tree.join("one"), "user.a", b"2", XattrFlags::empty()).unwrap();
        setxattr(tree.join("one"), "user.b", b"", XattrFlags::empty()).unwrap();
        fs::remove_file(tree.join("char")).unwrap();
        mknodat(
            CWD,
            tree.join("char"),
            FileType::CharacterDevice,
            Mode::RUSR,
            makedev(1, 3),
        )
        .unwrap();
    });
    let output = rig.run(&["diff", "a.img", "b.img"]);
    assert_eq!(
        (output.status.code(), said(&output)),
        (Some(1), String::new())
    );
    let mut lines: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    let expected = [
        "added    /new\\x1b[2J/file: file",
        "added    /new\\x1b[2J: directory",
        "changed  /char: device 1, 2 -> 1, 3",
        "changed  /dir/file: size 3145728 -> 3145733, contents from byte 2345678 on",
        "changed  /dir/sub/same: owner 0:0 -> 7:8",
        "changed  /dir/sub: mode 0755 -> 2700",
        "changed  /link: target one -> two",
        "changed  /one: attribute user.a changed, attribute user.b added",
        "changed  /two: attribute user.a removed, a link of /one -> of /two",
        "removed  /gone: file",
    ];
    assert_eq!(lines, expected);
    let found = json(&rig, &["a.img", "b.img"]);
    assert_eq!(found["counts"]["changed"], 7);
    assert_eq!(
        by_path(&found)["/dir/file"]["changes"][1]["first_byte"],
        2_345_678
    );
    // A reader that goes away has seen that something differs.
    let shell = format!(
        "{} diff a.img b.img | true; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_uext4")
    );
    let mut bash = std::process::Command::new("bash");
    let status = bash
        .args(["-c", &shell])
        .current_dir(rig.path("."))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn failures_have_statuses_of_their_own() {
    if !skip::root_or_skip("failures_have_statuses_of_their_own") {
        return;
    }
    let rig = images(|_| ());
    rig.fails(2, "No such file", &["diff", "a.img", "nothing.img"]);
    fs::write(rig.path("zero.img"), vec![0; 1 << 20]).unwrap();
    rig.fails(3, "ext4", &["diff", "a.img", "zero.img"]);
    rig.fails(
        2,
        "cannot be used",
        &["diff", "--blocks", "--times", "a.img", "b.img"],
    );
    fs::write(rig.path("bad"), "content").unwrap();
    for image in ["a.img", "b.img"] {
        rig.ok(&["put", image, "bad", "/bad"]);
    }
    let damage = ["sif /bad block[0] 0x1234".to_owned()];
    oracle::debugfs(&rig.path("b.img"), Access::Write, &damage).expect("debugfs");
    rig.fails(4, "b.img:/bad: ", &["diff", "a.img", "b.img"]);
}

/// The number that debugfs prints last.
fn number(rig: &Rig, command: &str) -> u64 {
    let told = oracle::debugfs_one(&rig.path("b.img"), command).expect("debugfs answers");
    told.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn each_block_that_differs_has_its_owner() {
    if !skip::root_or_skip("each_block_that_differs_has_its_owner") {
        return;
    }
    let rig = images(|_| ());
    fs::copy(rig.path("b.img"), rig.path("a.img")).unwrap();
    assert_eq!(rig.ok(&["diff", "--blocks", "a.img", "b.img"]), "");
    let place = number(&rig, "bmap /dir/file 3") * 4096;
    let dir = number(&rig, "bmap /dir 0") * 4096;
    let label = ["ssv volume_name other".to_owned()];
    oracle::debugfs(&rig.path("a.img"), Access::Write, &label).expect("debugfs");
    let mut image = bytes(&rig.path("a.img"));
    let stats = |word: &str| -> u64 {
        let told = oracle::debugfs_one(&rig.path("b.img"), "show_super_stats").unwrap();
        let line = told
            .lines()
            .find(|line| line.contains(word))
            .unwrap()
            .to_owned();
        let digits = line.split(word).nth(1).unwrap().trim_start();
        digits
            .chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap()
    };
    let tables = [
        ("block_bitmap", stats("block bitmap at ") * 4096 + 9),
        ("inode_bitmap", stats("inode bitmap at ") * 4096 + 9),
        ("inode_table", stats("inode table at ") * 4096 + 256 + 100),
        ("superblock", 0),
        ("data", place + 4095),
        ("directory_data", dir + 2000),
        ("free", (64 << 20) - 4096 * 300),
        ("journal", number(&rig, "bmap <8> 5") * 4096),
    ];
    for (owner, at) in tables {
        // The superblock must stay readable.
        image[at as usize] ^= if owner == "superblock" { 0 } else { 0xff };
    }
    fs::write(rig.path("a.img"), image).unwrap();
    let found = json(&rig, &["--blocks", "a.img", "b.img"]);
    let rows = found["runs"].as_array().unwrap();
    for (owner, at) in tables {
        let row = rows.iter().find(|row| row["first_block"] == at / 4096);
        let row = row.unwrap_or_else(|| panic!("{owner}: {found}"));
        assert_eq!(
            (&row["owner"], &row["blocks"]),
            (&owner.into(), &1.into()),
            "{row}"
        );
    }
    assert_eq!(found["blocks"], tables.len());
    let path = |owner: &str| {
        let row = rows.iter().find(|row| row["owner"] == owner).unwrap();
        row["inodes"][0]["path"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        (path("data"), path("directory_data")),
        ("/dir/file".into(), "/dir".into())
    );
    assert_eq!(path("inode_table"), "/", "the second inode is the root");
    let text = rig.run(&["diff", "--blocks", "a.img", "b.img"]);
    let text = String::from_utf8(text.stdout).unwrap();
    for line in [
        "  data of /dir/file\n",
        "  inode table of group 0: /\n",
        "8 blocks differ, in 8 runs",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// Nodes of a map, and blocks of attributes.
#[test]
fn maps_and_attributes_have_owners() {
    let rig = Rig::empty();
    oracle::mke2fs(&rig.path("b.img"), 64 << 20, &["-b", "1024", "-I", "128"]).expect("mke2fs");
    let file = File::create(rig.path("file")).unwrap();
    for at in 0..20 {
        file.write_all_at(b"x", at * 8192).unwrap();
    }
    setxattr(rig.path("file"), "user.a", b"value", XattrFlags::empty()).unwrap();
    rig.ok(&["put", "b.img", "file", "/file"]);
    let told = oracle::debugfs_one(&rig.path("b.img"), "stat /file").unwrap();
    let after = |word: &str| -> u64 {
        let text = told
            .split(word)
            .nth(1)
            .unwrap_or_else(|| panic!("{told}"))
            .trim_start();
        text.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap()
    };
    let places = [
        ("map", after("(ETB0):")),
        ("attributes", after("File ACL: ")),
    ];
    let mut image = bytes(&rig.path("b.img"));
    for (_, block) in places {
        image[block as usize * 1024 + 1023] ^= 1;
    }
    fs::write(rig.path("a.img"), image).unwrap();
    let found = json(&rig, &["--blocks", "a.img", "b.img"]);
    for (owner, block) in places {
        let row = found["runs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["first_block"] == block);
        let row = row.unwrap_or_else(|| panic!("{owner}: {found}"));
        assert_eq!(
            (&row["owner"], &row["inodes"][0]["path"]),
            (&owner.into(), &"/file".into())
        );
    }
}
