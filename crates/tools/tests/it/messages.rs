//! Refusals that a first use meets: what is wrong, where, and what to do.

use crate::rig::Rig;

#[test]
fn a_text_is_no_archive() {
    let rig = Rig::empty();
    std::fs::write(rig.path("text.txt"), "a few words\n").unwrap();
    std::fs::write(rig.path("empty"), "").unwrap();
    for source in ["text.txt", "empty"] {
        let said = format!("{source}: the header at byte 0 is none of a tar file; give a tar file");
        rig.fails(1, &said, &["build", "o.img", source]);
    }
    assert!(!rig.path("o.img").exists());
}

#[test]
fn a_size_that_is_too_small_is_named() {
    let rig = Rig::empty();
    std::fs::create_dir(rig.path("tree")).unwrap();
    let said = "o.img: the size is too small for a file system; give a larger --size, as 64M";
    rig.fails(2, said, &["build", "o.img", "tree", "--size", "1"]);
    let said = "o.img: the size is too small for a file system; give more, as 64M";
    rig.fails(1, said, &["mkfs", "o.img", "--size", "1"]);
    assert!(!rig.path("o.img").exists());
}

#[test]
fn a_partition_without_a_table_is_no_damage() {
    let rig = Rig::new(&[]);
    let said = "disk.img: there is no partition table; without --partition the whole is looked at";
    rig.fails(3, said, &["ls", "disk.img", "--partition", "1"]);
    std::fs::write(rig.path("short"), "x").unwrap();
    let said = said.replace("disk.img", "short");
    rig.fails(3, &said, &["info", "short", "--partition", "1"]);
}

#[test]
fn an_option_without_meaning_says_where_all_are() {
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("mnt")).unwrap();
    let said = "-o nosuchopt: there is no option of this name; `uext4 mount --help` lists them";
    rig.fails(2, said, &["mount", "-o", "nosuchopt", "disk.img", "mnt"]);
}

#[test]
fn an_archive_is_named_by_its_option() {
    let rig = Rig::new(&[]);
    let said = "out.tar: no such file or directory; -o out.tar writes the archive to a file";
    rig.fails(1, said, &["export", "disk.img", "out.tar"]);
    let plain = rig.run(&["export", "disk.img", "/none"]);
    assert!(!String::from_utf8_lossy(&plain.stderr).contains("; -o"));
}
