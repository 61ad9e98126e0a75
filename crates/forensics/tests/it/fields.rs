//! Fields are shown as debugfs and dumpe2fs show them, and e2fsck accepts their checksums.

use crate::base::{MODERN, OLD, WIDE, made};
use std::path::Path;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4_forensics::Memory;
use uext4_forensics::debug::{Answer, Command, CommandError, Debugger, show_value};
use uext4_testkit::oracle;

fn debugger(path: &Path, access: Access) -> Debugger {
    let device = Arc::new(FileDevice::open(path, access).expect("it is there"));
    Debugger::new(device, None, Memory::new(64 << 20))
}

fn run(path: &Path, line: &str) -> Result<Answer, CommandError> {
    let command = Command::parse(line).expect("words");
    let access = if command.is_change() {
        Access::ReadWrite
    } else {
        Access::ReadOnly
    };
    debugger(path, access).run(&command)
}

/// A field of the first structure that a command shows.
fn field(path: &Path, line: &str, name: &str) -> String {
    let answer = run(path, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let row = answer.rows.first().expect("a row");
    let field = row.iter().find(|(known, _)| *known == name);
    show_value(&field.unwrap_or_else(|| panic!("{line}: {name}")).1)
}

#[test]
fn fields_are_those_of_other_programs() {
    for options in [MODERN, WIDE, OLD] {
        let made = made(options);
        let path = made.clean.clone();
        let header = oracle::dumpe2fs(&path).expect("dumpe2fs");
        for (name, label) in [
            ("blocks_count", "Block count"),
            ("inodes_count", "Inode count"),
            ("free_blocks_count", "Free blocks"),
            ("first_data_block", "First block"),
            ("inodes_per_group", "Inodes per group"),
            ("mnt_count", "Mount count"),
            ("first_ino", "First inode"),
        ] {
            let wanted = header.number(label).expect("a number").to_string();
            assert_eq!(field(&path, "show superblock", name), wanted, "{name}");
        }
        let stat = oracle::debugfs_one(&path, "stat /dir/file3").expect("debugfs");
        let size = field(&path, "show inode /dir/file3", "size");
        assert!(stat.contains(&format!("Size: {size}\n")), "{size}: {stat}");
        let links = field(&path, "show inode /dir", "links_count");
        assert_eq!(links, "2");
        let names = run(&path, "show directory /dir").expect("entries").rows;
        let names: Vec<String> = names.iter().map(|row| show_value(&row[6].1)).collect();
        assert!(names.contains(&"file3".to_owned()), "{names:?}");
        assert!(
            !run(&path, "show extents /dir/file19")
                .expect("a map")
                .rows
                .is_empty()
        );
        assert_eq!(
            field(&path, "show journal", "blocksize"),
            header.text("Block size").expect("it").to_string()
        );
    }
}

/// Sets that leave a sound file system, or one with just the damage that they say.
#[test]
fn checksums_follow_a_set() {
    for options in [MODERN, WIDE, OLD] {
        let made = made(options);
        let path = &made.clean;
        for line in [
            "set superblock volume_name hello",
            "set superblock s_max_mnt_count 33",
            "set inode /dir/file1 i_mtime 1000000000",
            "set inode /dir/file1 mode 0100600",
            "set inode /dir/file3 generation 0x0",
            "set group 0 flags 4",
            "set journal s_sequence 500",
            "set superblock kbytes_written 77",
        ] {
            run(path, line).unwrap_or_else(|error| panic!("{line}: {error}"));
            oracle::assert_clean(path);
        }
        assert_eq!(field(path, "show superblock", "volume_name"), "hello");
        assert_eq!(
            field(path, "show inode /dir/file1", "mode"),
            0o100_600.to_string()
        );
        let stat = oracle::debugfs_one(path, "stat /dir/file1").expect("debugfs");
        assert!(stat.contains("0x3b9aca00"), "{stat}");
        // Wrong links: e2fsck finds them and no wrong checksum.
        run(path, "set inode /dir/file5 links_count 9").expect("it is set");
        let said = oracle::e2fsck(path).expect("e2fsck");
        let problems = said.problems().join("\n");
        assert!(problems.contains("ref count is 9"), "{problems}");
        assert!(!problems.contains("checksum"), "{problems}");
        run(path, "set inode /dir/file5 links_count 1").expect("it is set");
        let end: u64 = field(path, "show superblock", "blocks_count")
            .parse()
            .expect("a number");
        let free = format!("mark block {}", end - 10);
        run(path, &format!("{free} used")).expect("it is set");
        let said = oracle::e2fsck(path).expect("e2fsck");
        let problems = said.problems().join("\n");
        assert!(!problems.contains("checksum"), "{problems}");
        assert!(problems.contains("Block bitmap differences"), "{problems}");
        run(path, &format!("{free} free")).expect("it is set");
        run(path, "mark inode 100 used").expect("it is set");
        assert!(!oracle::e2fsck(path).expect("e2fsck").is_silent());
        run(path, "mark inode 100 free").expect("it is set");
        oracle::assert_clean(path);
    }
}

#[test]
fn entries_and_extents_are_set() {
    let made = made(MODERN);
    let path = &made.clean;
    let rows = run(path, "show directory /dir").expect("entries").rows;
    let row = rows
        .iter()
        .find(|row| show_value(&row[6].1) == "file7")
        .expect("an entry");
    let (block, offset, inode) = (
        show_value(&row[0].1),
        show_value(&row[1].1),
        show_value(&row[2].1),
    );
    run(path, &format!("set entry /dir {block} {offset} inode 4000")).expect("it is set");
    let said = oracle::e2fsck(path).expect("e2fsck").problems().join("\n");
    assert!(
        said.contains("file7") && !said.contains("checksum"),
        "{said}"
    );
    run(
        path,
        &format!("set entry /dir {block} {offset} inode {inode}"),
    )
    .expect("it is set");
    oracle::assert_clean(path);
    let start = field(path, "show inode /dir/file9", "block");
    assert!(start.starts_with("127754"), "{start}");
    run(path, "set extent /dir/file9 root 0 len 1").expect("it is set");
    let said = oracle::e2fsck(path).expect("e2fsck").problems().join("\n");
    assert!(
        said.contains("i_blocks") && !said.contains("checksum"),
        "{said}"
    );
    run(path, "set extent /dir/file9 root 0 len 7").expect("it is set");
    oracle::assert_clean(path);
    run(path, "set inode /dir/file9 block[0] 0").expect("it is set");
    assert!(!oracle::e2fsck(path).expect("e2fsck").is_silent());
}

#[test]
fn a_checksum_is_stored_as_given() {
    let made = made(MODERN);
    for name in ["checksum", "s_checksum"] {
        run(&made.clean, &format!("set superblock {name} 5")).expect("it is set");
        assert_eq!(field(&made.clean, "show superblock", "checksum"), "5");
        run(&made.clean, "set superblock mnt_count 2").expect("it is set");
        assert_ne!(field(&made.clean, "show superblock", "checksum"), "5");
    }
}

#[test]
fn wrong_commands_change_nothing() {
    let made = made(MODERN);
    let path = &made.clean;
    let before = std::fs::read(path).expect("it is there");
    for line in [
        "set superblock nothing 1",
        "set superblock mnt_count 65536",
        "set superblock mnt_count x",
        "set superblock mnt_count",
        "set superblock mnt_count 1 2",
        "set inode 0 mode 1",
        "set inode 999999 mode 1",
        "set inode /nothing mode 1",
        "set inode /dir block[15] 1",
        "set group 99 flags 1",
        "set entry /dir 99999999 0 inode 1",
        "set entry /dir 5 99999 inode 1",
        "set entry /dir 5 0 inode 1",
        "set node /dir/file1 5 magic 1",
        "set extent /dir/file1 root 9 len 1",
        "set bytes 5 1020 00112233445566",
        "set bytes 5 0 0",
        "set mmp seq 1",
        "mark block 0 used",
        "mark block 5 maybe",
        "mark inode 0 used",
        "show everything",
        "do something",
    ] {
        assert!(run(path, line).is_err(), "{line}");
    }
    let change = Command::parse("set superblock mnt_count 1").expect("words");
    let refused = debugger(path, Access::ReadOnly).run(&change);
    assert!(
        matches!(refused, Err(CommandError::ReadOnly)),
        "{refused:?}"
    );
    assert!(std::fs::read(path).expect("it is there") == before);
    assert!(Command::parse("  # a comment").is_none() && Command::parse(" ").is_none());
}
