//! `log`, `undelete`, `debug` and `get --rescue` as programs.

use crate::rig::Rig;
use serde_json::Value;

/// An image with some history in its log.
fn with_history() -> Rig {
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("host"), b"content").expect("there is space");
    rig.ok(&["put", "disk.img", "host", "/kept"]);
    rig.ok(&["put", "disk.img", "host", "/lost"]);
    rig.ok(&["rm", "disk.img", "/lost"]);
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
