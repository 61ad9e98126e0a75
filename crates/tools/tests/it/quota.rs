//! `uext4 quota`, judged by debugfs and e2fsck.

use crate::rig::Rig;
use serde_json::Value;
use uext4_testkit::skip;

fn rows(rig: &Rig, kind: &str) -> Vec<Value> {
    let text = rig.ok(&["quota", "disk.img", "--kind", kind, "--json"]);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn limits_are_set_and_told() {
    if !skip::root_or_skip("limits_are_set_and_told") {
        return;
    }
    let rig = Rig::new(&["-O", "quota,project"]);
    let set = ["quota", "disk.img", "--set", "1000"];
    rig.ok(&[&set[..], &["--space-soft", "1M", "--space-hard", "2M"]].concat());
    rig.ok(&[&set[..], &["--inodes-hard", "70", "--inodes-soft", "60"]].concat());
    rig.ok(&[
        "quota",
        "disk.img",
        "--space-grace",
        "77",
        "--kind",
        "group",
    ]);
    rig.fails(
        2,
        "4294967295",
        &["quota", "disk.img", "--set", "4294967295"],
    );
    rig.assert_clean();
    let told = rig.debugfs("get_quota user 1000");
    let line = told.lines().find(|line| line.contains("1000")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        words,
        ["1000", "0", "1024", "2048", "0", "60", "70"],
        "{told}"
    );
    let users = rows(&rig, "user");
    assert_eq!(users.len(), 2);
    assert_eq!(users[1]["space_hard_bytes"], 2 << 20);
    assert_eq!(users[0]["id"], 0);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    let after = rows(&rig, "group");
    assert_eq!(after[0]["inodes"], users[0]["inodes"].as_u64().unwrap() + 1);
    let table = rig.ok(&["quota", "disk.img"]);
    assert!(
        table.contains("2.0 MiB") || table.contains("2 MiB"),
        "{table}"
    );
    rig.fails(
        2,
        "user, group or project",
        &["quota", "disk.img", "--kind", "x"],
    );
    let plain = Rig::new(&[]);
    plain.fails(1, "keeps no user quota", &["quota", "disk.img"]);
}
