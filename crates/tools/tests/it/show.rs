//! What `ls`, `stat`, `extents` and `info` print, against `ls(1)` and `stat(1)` on the kernel's
//! mount, debugfs and dumpe2fs.

use crate::rig::Rig;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount};

/// Permission bits of the files: each special bit with and without its execute bit.
const MODES: [u32; 8] = [0, 0o644, 0o1666, 0o1777, 0o2644, 0o2711, 0o4600, 0o7755];

/// Lines of `uext4 stat`, made by `stat(1)`.
const STAT_FORMAT: &str = "inode %i, |mode %A |owner %u:%g, |links %h |device %Hr, %Lr |\
    size %s bytes, |accessed %x |modified %y |changed %z |born %w ";

/// Numbers of `uext4 info --json`, and their labels in dumpe2fs.
const COUNTS: [(&str, &str); 8] = [
    ("blocks", "Block count"),
    ("blocks_free", "Free blocks"),
    ("blocks_reserved", "Reserved block count"),
    ("blocks_per_group", "Blocks per group"),
    ("inodes", "Inode count"),
    ("inodes_free", "Free inodes"),
    ("inodes_per_group", "Inodes per group"),
    ("inode_size", "Inode size"),
];

/// Makes a file of every type with every mode of [`MODES`], and a symbolic link.
fn every_kind(tree: &Path) {
    for bits in MODES {
        let path = |kind: &str| tree.join(format!("{kind}-{bits:04o}"));
        fs::create_dir(path("dir")).expect("it is fresh");
        fs::write(path("file"), vec![b'x'; 100 * bits as usize]).expect("there is room");
        for (name, kind, device) in [
            ("char", FileType::CharacterDevice, makedev(5, 1)),
            ("block", FileType::BlockDevice, makedev(259, 70_000)),
            ("pipe", FileType::Fifo, 0),
            ("socket", FileType::Socket, 0),
        ] {
            mknodat(CWD, path(name), kind, Mode::empty(), device).expect("root makes nodes");
        }
        for kind in ["dir", "file", "char", "block", "pipe", "socket"] {
            let mode = Permissions::from_mode(bits);
            fs::set_permissions(path(kind), mode).expect("it is ours");
        }
    }
    symlink("dir-0644/../file-0644", tree.join("link")).expect("it is fresh");
}

/// Output of a program in a directory, in the C locale and UTC.
fn said(dir: &Path, program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir);
    command.envs([("LC_ALL", "C"), ("TZ", "UTC")]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines();
    lines
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[test]
fn every_kind_of_file_looks_as_to_ls_and_stat() {
    if !KernelMount::available_or_skip("every_kind_of_file_looks_as_to_ls_and_stat") {
        return;
    }
    let rig = Rig::new(&[]);
    let tree = rig.path("tree");
    fs::create_dir(&tree).expect("it is fresh");
    every_kind(&tree);
    rig.ok(&["put", "-r", "disk.img", "tree", "/"]);
    rig.assert_clean();
    let ours = rig.ok(&["ls", "-l", "disk.img", "/tree"]);
    let mount = KernelMount::new(&rig.image(), "ro").expect("the kernel mounts it");
    let dir = mount.path().join("tree");
    let theirs = said(&dir, "ls", &["-ln", "--time-style=+%F %T"]);
    let (_total, theirs) = theirs.split_once('\n').expect("a total and files");
    for (ours, theirs) in words(&ours).iter().zip(words(theirs)) {
        assert_eq!(*ours, theirs);
    }
    let lengths = [&ours, theirs].map(|text| text.lines().count());
    assert_eq!(lengths, [6 * MODES.len() + 1; 2]);
    for entry in fs::read_dir(&tree).expect("it is there") {
        let name = entry.expect("it reads").file_name();
        let name = name.to_str().expect("names are plain");
        let is_node = ["char", "block"].iter().any(|kind| name.starts_with(kind));
        let theirs = said(&dir, "stat", &["-c", STAT_FORMAT, name]);
        let text = rig.ok(&["stat", "disk.img", &format!("/tree/{name}")]);
        let ours: Vec<String> = words(&text)
            .iter()
            .map(|line| line.join(" ") + " ")
            .collect();
        for line in theirs.trim_end_matches('\n').split('|') {
            let line = line.replace("+0000", "UTC");
            let is_told = ours.iter().any(|told| told.starts_with(&line));
            let is_wanted = is_node || !line.starts_with("device");
            assert_eq!(is_told, is_wanted, "{name}: {line:?} in {text}");
        }
    }
    mount.unmount().expect("the kernel lets go");
}

/// A symbolic link that leads nowhere, and a name and attributes that are no text.
#[test]
fn what_is_no_text_is_escaped_and_links_are_not_followed() {
    let rig = Rig::new(&[]);
    rig.ok(&["ln", "-s", "disk.img", "no/where", "/link"]);
    let image = rig.image();
    let command = ["ea_set / user.odd value"];
    oracle::debugfs(&image, oracle::Access::Write, &command).expect("debugfs writes");
    let text = rig.ok(&["stat", "disk.img", "/link"]);
    assert!(text.contains("\ntarget   no/where\n"), "{text}");
    assert!(text.contains("\ntype     symlink\n"), "{text}");
    let json = rig.json(&["stat", "--json", "disk.img", "/link"]);
    assert_eq!(json["target"], "no/where");
    let text = rig.ok(&["stat", "disk.img", "/"]);
    assert!(text.contains("\nxattr    user.odd = value\n"), "{text}");
    let json = rig.json(&["stat", "--json", "disk.img", "/"]);
    assert_eq!(json["xattrs"][0]["name"], "user.odd");
    assert_eq!(json["xattrs"][0]["value"], "value");
}

/// What `dumpe2fs -g` prints of each group: number, first block, blocks of the superblock, the
/// descriptors, the bitmaps and the inode table.
fn groups(rig: &Rig) -> Vec<Vec<String>> {
    let text = said(&rig.path(""), "dumpe2fs", &["-g", "disk.img"]);
    let rows = text
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    rows.map(|row| row.split(':').map(str::to_owned).collect())
        .collect()
}

#[test]
fn file_systems_of_every_shape_look_as_to_dumpe2fs() {
    let shapes: [(&[&str], &[&str]); 6] = [
        (
            &["-O", "none,filetype,sparse_super"],
            &["journal none", "on error continue"],
        ),
        (
            &[
                "-O",
                "^extent,^64bit,^metadata_csum,^orphan_file",
                "-b",
                "1024",
            ],
            &["journal inode 8, 4 MiB, clean"],
        ),
        (
            &["-O", "bigalloc,^resize_inode", "-C", "65536"],
            &["clusters 64 KiB"],
        ),
        (&["-b", "65536", "-e", "panic"], &["on error panic"]),
        (
            &["-O", "^64bit,flex_bg,sparse_super2", "-b", "1024"],
            &["mounts 0"],
        ),
        (
            &["-e", "remount-ro", "-L", "\u{e9}"],
            &["on error remount read-only", "label \u{e9}"],
        ),
    ];
    for (shape, wanted) in shapes {
        let rig = Rig::empty();
        oracle::mke2fs(&rig.image(), 64 << 20, shape).expect("mke2fs runs");
        let text = rig.ok(&["info", "--groups", "disk.img"]);
        let lines = words(&text);
        for line in wanted {
            let is_told = lines.iter().any(|told| told.join(" ") == *line);
            assert!(is_told, "{shape:?}: no {line:?} in {text}");
        }
        let header = oracle::dumpe2fs(&rig.image()).expect("dumpe2fs answers");
        let info = rig.json(&["info", "--json", "disk.img"]);
        for (ours, theirs) in COUNTS {
            let theirs = header.number(theirs).expect("a number");
            assert_eq!(info[ours], theirs, "{shape:?}: {ours}");
        }
        let rows = lines
            .iter()
            .skip_while(|line| line.first() != Some(&"group"))
            .skip(1);
        let ours: Vec<_> = rows.collect();
        let theirs = groups(&rig);
        assert_eq!(ours.len(), theirs.len(), "{shape:?}: {text}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let [group, first, superblock, _, blocks, inodes, table] = &theirs[..] else {
                panic!("{theirs:?}");
            };
            let numbers = [ours[0], ours[1], ours[6], ours[7], ours[8]];
            assert_eq!(
                numbers,
                [group, first, blocks, inodes, table],
                "{shape:?}: {text}"
            );
            let has_copy = ours.contains(&"superblock");
            assert_eq!(has_copy, superblock != "-1", "{shape:?}: {text}");
        }
    }
}

/// States of an image, made by debugfs.
#[test]
fn states_of_an_image_are_told_in_words() {
    for (command, word) in [
        ("set_super_value state 1", "state clean"),
        ("set_super_value state 0", "state not clean"),
        (
            "set_super_value state 2",
            "state errors were found; run `uext4 fsck`",
        ),
        ("feature needs_recovery", "state in use, or not unmounted"),
        ("feature verity", "read-only by verity"),
        ("feature encrypt", "unsupported encrypt"),
        (
            "set_super_value journal_inum 0",
            "journal on the device with UUID",
        ),
    ] {
        let rig = Rig::new(&[]);
        let image = rig.image();
        oracle::debugfs(&image, oracle::Access::Write, &[command]).expect("debugfs writes");
        let text = rig.ok(&["info", "disk.img"]);
        let is_told = words(&text)
            .iter()
            .any(|line| line.join(" ").starts_with(word));
        assert!(is_told, "{command}: no {word:?} in {text}");
    }
}

#[test]
fn extents_are_those_of_debugfs_with_their_kind() {
    let rig = Rig::new(&["-O", "inline_data", "-b", "4096"]);
    fs::write(rig.path("small"), "x").expect("there is room");
    fs::write(rig.path("big"), vec![7; 40_960]).expect("there is room");
    rig.ok(&["put", "disk.img", "small", "big", "/"]);
    // Blocks 20 to 29, past the end of the data.
    let fallocate = ["fallocate /big 20 29"];
    oracle::debugfs(&rig.image(), oracle::Access::Write, &fallocate).expect("debugfs writes");
    let text = rig.ok(&["extents", "disk.img", "/small"]);
    assert!(text.contains("  in the inode"), "{text}");
    let text = rig.ok(&["extents", "disk.img", "/big"]);
    let rows = words(&text);
    let block = |nr: u64| rig.debugfs(&format!("bmap /big {nr}")).trim().to_owned();
    for (row, first, blocks, kind) in [
        (&rows[1], 0, 10, None),
        (&rows[2], 20, 10, Some("unwritten")),
    ] {
        assert_eq!(row[0], (first * 4096_u64).to_string(), "{text}");
        let at: u64 = row[1].parse().expect("a number");
        let told = block(first);
        let told = told.split_whitespace().next().expect("a block");
        assert_eq!((at / 4096).to_string(), told, "{text}");
        assert_eq!(row[2], (blocks * 4096_u64).to_string(), "{text}");
        assert_eq!(row.get(3).copied(), kind, "{text}");
    }
    assert_eq!(rows.len(), 3, "{text}");
}
