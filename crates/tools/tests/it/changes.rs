//! Commands that change names and attributes, judged by debugfs and e2fsck.

use crate::rig::Rig;

#[test]
fn names_come_move_and_go() {
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("file"), "content").unwrap();
    rig.ok(&["mkdir", "-p", "-m", "750", "disk.img", "/a/b/c"]);
    rig.ok(&["mkdir", "-p", "disk.img", "/a/b"]);
    rig.fails(1, "exists", &["mkdir", "disk.img", "/a"]);
    rig.ok(&["put", "disk.img", "file", "/a/file"]);
    rig.ok(&["ln", "disk.img", "/a/file", "/a/b/hard"]);
    rig.ok(&["ln", "-s", "disk.img", "../file", "/a/b/soft"]);
    rig.ok(&["mv", "disk.img", "/a/b", "/moved"]);
    rig.ok(&["mv", "disk.img", "/a/file", "/moved"]);
    assert!(rig.debugfs("stat /moved/hard").contains("Links: 2"));
    assert!(rig.debugfs("stat /moved/soft").contains("../file"));
    assert!(rig.debugfs("stat /moved/c").contains("Mode:  0750"));
    assert_eq!(
        rig.ok(&["ls", "disk.img", "/moved"]),
        "c\nfile\nhard\nsoft\n"
    );
    rig.fails(1, "-r", &["rm", "disk.img", "/moved"]);
    rig.fails(1, "no such file", &["rm", "disk.img", "/nothing"]);
    rig.ok(&["rm", "-f", "disk.img", "/nothing"]);
    rig.ok(&["rm", "-r", "disk.img", "/moved", "/a"]);
    assert_eq!(rig.ok(&["ls", "disk.img"]), "lost+found\n");
    rig.assert_clean();
}

#[test]
fn modes_and_owners_change() {
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("file"), vec![7; 100_000]).unwrap();
    rig.ok(&["put", "disk.img", "file", "/file"]);
    rig.ok(&["chmod", "4640", "disk.img", "/file"]);
    rig.ok(&["chmod", "-w", "disk.img", "/file"]);
    assert!(rig.debugfs("stat /file").contains("Mode:  04440"));
    rig.ok(&["chown", "70000:8", "disk.img", "/file"]);
    rig.ok(&["chown", ":9", "disk.img", "/file"]);
    let stat = rig.json(&["stat", "--json", "disk.img", "/file"]);
    assert_eq!((&stat["uid"], &stat["gid"]), (&70000.into(), &9.into()));
    assert_eq!(stat["mode"], "0440", "a change of owner takes setuid away");
    assert!(
        rig.debugfs("stat /file")
            .contains("User: 70000   Group:     9")
    );
    let extents = rig.json(&["extents", "--json", "disk.img", "/file"]);
    let block = extents[0]["device_offset"].as_u64().expect("a number") / 1024;
    assert!(
        rig.debugfs("bmap /file 0")
            .trim()
            .ends_with(&block.to_string())
    );
    rig.assert_clean();
}
