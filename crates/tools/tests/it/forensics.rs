//! `log`, `undelete`, `debug` and `get --rescue` as programs.

use crate::rig::Rig;
use serde_json::Value;
use uext4_testkit::oracle::{self, Access};

/// An image with some history in its log.
fn with_history() -> Rig {
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("host"), b"content").expect("there is space");
    rig.ok(&["put", "disk.img", "host", "/kept"]);
    rig.ok(&["put", "disk.img", "host", "/lost"]);
    // It leaves the map in the inode.
    oracle::debugfs(&rig.image(), Access::Write, &["rm lost"]).expect("debugfs");
    rig
}

#[test]
fn the_log_names_the_owners_of_blocks() {
    let rig = with_history();
    let text = rig.ok(&["log", "disk.img"]);
    for word in [
        "journal on inode 8",
        ": old, from block",
        "inode table of group 0",
        "directory 2",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let rows: Vec<Value> = rig
        .ok(&["log", "disk.img", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows[0]["type"], "journal");
    let images = rows.iter().filter(|row| row["type"] == "image");
    assert!(images.count() > 3, "{rows:?}");
    let tid = rows.last().expect("a row")["transaction"].to_string();
    let one = rig.ok(&["log", "disk.img", "--transaction", &tid]);
    assert_eq!(
        one.lines()
            .filter(|line| line.starts_with("transaction"))
            .count(),
        1
    );
    assert!(
        !rig.ok(&["log", "disk.img", "--transaction", "0"])
            .contains("commit")
    );
}

#[test]
fn an_image_without_a_journal_has_no_log() {
    let rig = Rig::new(&["-O", "^has_journal"]);
    rig.fails(1, "has no journal", &["log", "disk.img"]);
}

#[test]
fn deleted_files_are_listed_and_copied() {
    let rig = with_history();
    let text = rig.ok(&["undelete", "disk.img"]);
    assert!(
        text.starts_with("whole inode") && text.contains("  lost\n"),
        "{text}"
    );
    assert!(!text.contains("kept"), "{text}");
    assert_eq!(rig.ok(&["undelete", "disk.img", "--list"]), text);
    assert_eq!(
        rig.ok(&["undelete", "disk.img", "--since", "2200-01-01"]),
        ""
    );
    assert_eq!(rig.ok(&["undelete", "disk.img", "--since", "@1"]), text);
    rig.fails(2, "a time is", &["undelete", "disk.img", "--since", "soon"]);
    let row: Value =
        serde_json::from_str(&rig.ok(&["undelete", "disk.img", "--json"])).expect("JSON");
    assert_eq!(
        (&row["path"], &row["state"]),
        (&"lost".into(), &"whole".into())
    );
    let said = rig.ok(&["undelete", "disk.img", "--to", "found"]);
    assert!(said.contains("copied to lost"), "{said}");
    // An existing file stays.
    std::fs::write(rig.path("found/lost"), b"mine").expect("it is there");
    rig.ok(&["undelete", "disk.img", "--to", "found"]);
    let read = |name| std::fs::read(rig.path(name)).expect("it is there");
    assert_eq!(
        (read("found/lost"), read("found/lost~1")),
        (b"mine".to_vec(), b"content".to_vec())
    );
}

#[test]
fn a_damaged_image_is_rescued() {
    let rig = with_history();
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.ok(&["put", "disk.img", "host", "/dir/inner"]);
    // Neither the superblock nor the descriptors of the first group are left.
    let image = std::fs::OpenOptions::new()
        .write(true)
        .open(rig.image())
        .expect("it is there");
    std::os::unix::fs::FileExt::write_all_at(&image, &[0; 3072], 1024).expect("it is written");
    rig.fails(3, "no magic", &["get", "disk.img", "/kept", "out"]);
    let rescued = rig.run(&["get", "--rescue", "disk.img", "/kept", "out"]);
    let said = String::from_utf8_lossy(&rescued.stderr).into_owned();
    assert!(
        rescued.status.success() && said.contains("its copy at"),
        "{said}"
    );
    let read = |name| std::fs::read(rig.path(name)).expect("it is there");
    assert_eq!(read("out"), b"content");
    let tree = rig.run(&["get", "-r", "--rescue", "disk.img", "/", "tree"]);
    assert!(tree.status.success(), "{tree:?}");
    assert_eq!(
        (read("tree/kept"), read("tree/dir/inner")),
        (b"content".to_vec(), b"content".to_vec())
    );
    let dir = rig.run(&["get", "--rescue", "disk.img", "/dir", "other"]);
    assert_eq!(dir.status.code(), Some(1), "{dir:?}");
    rig.fails(
        2,
        "--strict",
        &["get", "--rescue", "--strict", "disk.img", "/kept", "out"],
    );
    let little = [
        "get", "--rescue", "--memory", "1K", "disk.img", "/kept", "out2",
    ];
    rig.fails(1, "--memory gives more", &little);
    rig.fails(
        2,
        "--rescue",
        &["get", "--memory", "1G", "disk.img", "/kept", "out2"],
    );
}

#[test]
fn fields_are_shown_and_set() {
    let rig = with_history();
    let text = rig.ok(&["debug", "disk.img", "-c", "show superblock"]);
    assert!(text.contains("blocks_count              65536\n"), "{text}");
    let said = rig.ok(&[
        "debug",
        "disk.img",
        "--json",
        "-c",
        "show inode /kept",
        "-c",
        "show group 0",
    ]);
    let rows: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows[0]["rows"][0]["size"], 7);
    assert_eq!(rows[1]["command"], "show group 0");
    let set = ["debug", "disk.img", "-c", "set superblock mnt_count 7"];
    rig.fails(2, "-w allows changes", &set);
    let script = "# a script\nset superblock mnt_count 7\n\nset inode /kept mtime 2001-02-03\n";
    let done = rig.fed(script.as_bytes(), &["debug", "-w", "disk.img"]);
    assert!(done.status.success(), "{done:?}");
    std::fs::write(rig.path("script"), "show superblock\nshow inode /kept\n").expect("space");
    let text = rig.ok(&["debug", "disk.img", "-f", "script"]);
    assert!(text.contains("mnt_count                 7\n"), "{text}");
    assert!(
        text.contains("981158400 (2001-02-03 00:00:00 UTC)"),
        "{text}"
    );
    oracle::assert_clean(&rig.image());
    rig.fails(
        2,
        "no such field",
        &["debug", "-w", "disk.img", "-c", "set superblock x 1"],
    );
}

#[test]
fn a_change_below_a_log_is_asked_about() {
    let rig = with_history();
    let recover = "set superblock feature_incompat 0x2c6";
    rig.ok(&["debug", "-w", "disk.img", "-c", recover]);
    let set = [
        "debug",
        "-w",
        "disk.img",
        "-c",
        "set superblock mnt_count 7",
    ];
    rig.fails(1, "its journal is to be replayed", &set);
    rig.ok(&[&set[..], &["-y"]].concat());
}
