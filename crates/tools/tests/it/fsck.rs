//! `uext4 fsck` and `uext4 undo`: statuses of fsck(8), choices, messages, undo files.

use crate::rig::{Rig, bytes};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use uext4_testkit::oracle;

/// A problem that preen repairs, and one that it leaves.
const COUNT: &str = "set_bg 0 free_blocks_count 7";
const NO_LINKS: &str = "set_inode_field <2> mode 0100755";

fn damaged(commands: &[&str]) -> Rig {
    damaged_of(&[], commands)
}

fn damaged_of(mkfs: &[&str], commands: &[&str]) -> Rig {
    let rig = Rig::new(mkfs);
    for command in commands {
        let done = Command::new("debugfs")
            .args(["-w", "-R", command])
            .arg(rig.image())
            .output();
        assert!(done.expect("debugfs runs").status.success());
    }
    rig
}

fn status(rig: &Rig, args: &[&str]) -> (Option<i32>, String) {
    let output = rig.run(args);
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn statuses_are_those_of_fsck() {
    let rig = damaged(&[COUNT]);
    let (code, said) = status(&rig, &["fsck", "-p", "disk.img"]);
    assert_eq!(code, Some(0), "it was unmounted cleanly: {said}");
    let before = bytes(&rig.image());
    let (code, said) = status(&rig, &["fsck", "-fn", "disk.img"]);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(before, bytes(&rig.image()), "-n changes nothing");
    let (code, said) = status(&rig, &["fsck", "-fn", "--spill", "missing", "disk.img"]);
    assert_eq!(code, Some(8), "{said}");
    assert!(said.contains("missing"), "{said}");
    let (code, said) = status(&rig, &["fsck", "-fp", "disk.img"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("group-descriptor.free-clusters-wrong"),
        "{said}"
    );
    rig.assert_clean();
    let (code, said) = status(&rig, &["fsck", "-fp", "disk.img"]);
    assert_eq!(code, Some(0), "{said}");
    for (wrong, expected) in [
        (&["fsck", "-fp", "absent.img"][..], 8),
        (&["fsck", "-pn", "disk.img"], 16),
        (&["fsck", "disk.img"], 16),
        (&["fsck", "--explain", "no.such"], 16),
        (&["fsck"], 16),
    ] {
        let (code, said) = status(&rig, wrong);
        assert_eq!(code, Some(expected), "{wrong:?}: {said}");
    }
}

#[test]
fn preen_leaves_what_a_person_has_to_decide() {
    let rig = damaged(&[NO_LINKS]);
    let before = bytes(&rig.image());
    let (code, said) = status(&rig, &["fsck", "-fp", "disk.img"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("UNEXPECTED INCONSISTENCY"), "{said}");
    let changed = before
        .iter()
        .zip(bytes(&rig.image()))
        .filter(|(a, b)| *a != b);
    assert!(changed.count() < 64, "only the superblock changes");
}

#[test]
fn each_problem_is_an_object_and_a_summary_ends_them() {
    let rig = damaged(&[COUNT]);
    let (_, said) = status(&rig, &["fsck", "-fy", "--json", "disk.img"]);
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    // debugfs does not write the checksum of a descriptor.
    let [_, problem, summary] = &lines[..] else {
        panic!("{said}");
    };
    assert_eq!(problem["code"], "group-descriptor.free-clusters-wrong");
    assert_eq!(problem["group"], 0);
    assert_eq!(
        (&summary["ok"], &summary["repaired"]),
        (&true.into(), &2.into())
    );
    let explained = rig.ok(&["fsck", "--explain", "group-descriptor.free-clusters-wrong"]);
    assert!(explained.contains("counts again"), "{explained}");
    let all = rig.ok(&["fsck", "--explain", "all"]);
    for code in all.lines() {
        rig.ok(&["fsck", "--explain", code]);
    }
    assert!(all.lines().count() > 20, "{all}");
}

#[test]
fn an_undo_file_brings_back_every_byte() {
    let rig = damaged(&[COUNT]);
    let before = bytes(&rig.image());
    let args = ["fsck", "-fy", "-z", "disk.undo", "disk.img"];
    assert_eq!(status(&rig, &args).0, Some(1));
    let repaired = bytes(&rig.image());
    assert_ne!(before, repaired);
    std::fs::write(rig.path("other.img"), &repaired).unwrap();
    rig.ok(&["undo", "-n", "disk.undo", "disk.img"]);
    assert_eq!(repaired, bytes(&rig.image()), "-n changes nothing");
    rig.ok(&["undo", "disk.undo", "disk.img"]);
    assert!(before == bytes(&rig.image()), "a byte differs");
    let mut theirs = Command::new("e2undo");
    theirs.arg(rig.path("disk.undo")).arg(rig.path("other.img"));
    assert!(theirs.output().expect("e2undo runs").status.success());
    assert!(before == bytes(&rig.path("other.img")), "a byte differs");
    let mut changed = repaired.clone();
    changed[1024 + 0x78] ^= 1;
    std::fs::write(rig.image(), changed).unwrap();
    rig.fails(1, "changed", &["undo", "disk.undo", "disk.img"]);
    rig.ok(&["undo", "-f", "disk.undo", "disk.img"]);
    assert!(before == bytes(&rig.image()), "a byte differs");
    assert_eq!(status(&rig, &args).0, Some(8), "the file exists");
    let mut damaged = bytes(&rig.path("disk.undo"));
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    std::fs::write(rig.path("damaged.undo"), damaged).unwrap();
    std::fs::write(rig.image(), &repaired).unwrap();
    rig.fails(4, "checksum", &["undo", "damaged.undo", "disk.img"]);
    assert!(repaired == bytes(&rig.image()), "nothing is written");
}

#[test]
fn a_lost_superblock_is_taken_from_a_backup() {
    let rig = Rig::new(&["-b", "1024"]);
    let mut image = bytes(&rig.image());
    image[1024..2048].fill(0);
    std::fs::write(rig.image(), &image).unwrap();
    let (code, said) = status(&rig, &["fsck", "-p", "disk.img"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(image == bytes(&rig.image()), "preen leaves it");
    let (code, said) = status(&rig, &["fsck", "-y", "disk.img"]);
    assert_eq!(code, Some(1), "{said}");
    rig.assert_clean();
}

#[test]
fn under_the_name_of_a_checker_it_is_one() {
    let rig = damaged(&[COUNT]);
    let called = |name: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
        let output = command.arg0(name).args(args).arg(rig.image()).output();
        output.expect("it starts").status.code()
    };
    assert_eq!(called("/sbin/fsck.ext4", &["-a"]), Some(0));
    assert_eq!(called("e2fsck", &["-fn"]), Some(4));
    assert_eq!(called("fsck.ext3", &["-fa"]), Some(1));
    oracle::assert_clean(&rig.image());
    assert_eq!(called("e2fsck", &["-no-such"]), Some(16));
}

/// What e2fsck takes is taken, or refused by name.
#[test]
fn options_of_e2fsck_are_known() {
    let rig = damaged(&[COUNT]);
    let called = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
        let output = command.arg0("e2fsck").args(args).output();
        let output = output.expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let image = rig.image();
    let image = image.to_str().expect("it is plain");
    let version = format!("uext4 fsck {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(called(&["-V"]), (Some(0), String::new(), version.clone()));
    assert_eq!(called(&["-V", image]).2, version);
    let (code, said, _) = called(&["-fnrFvtt", image]);
    assert_eq!(code, Some(4), "{said}");
    for word in ["pass 1 began after", "done after"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let (code, said, _) = called(&["-fyvt", image]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("inodes are in use"), "{said}");
    assert!(!said.contains("pass 1"), "{said}");
    let (code, said, _) = called(&["-fnd", image]);
    assert_eq!(code, Some(0), "{said}");
    for word in ["inodes are in use", "pass 5 began after"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let (_, said, _) = called(&["-fn", image]);
    assert!(
        !said.contains("in use") && !said.contains("after"),
        "{said}"
    );
    let (code, _, said) = called(&["-P", "3", image]);
    assert_eq!(code, Some(16), "{said}");
    assert!(said.contains("-P"), "{said}");
}

/// What is printed was counted, and not read from a superblock that may be wrong.
#[test]
fn what_is_in_use_is_counted() {
    let rig = damaged(&["mkdir d", COUNT]);
    let counted = |choice, code| {
        let (found, said) = status(&rig, &["fsck", choice, "-fv", "disk.img"]);
        assert_eq!(found, Some(code), "{said}");
        let lines = said.lines().filter(|line| line.contains("are in use"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(counted("-n", 4).is_empty(), "a group may not be readable");
    let repaired = counted("-y", 1);
    assert_eq!(repaired.len(), 1);
    assert!(
        repaired[0].ends_with("3 of them directories"),
        "{repaired:?}"
    );
    assert_eq!(counted("-n", 0), repaired);
    let (code, said) = status(&rig, &["fsck", "-pv", "disk.img"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("in use"), "nothing was counted: {said}");
}

#[test]
fn a_backup_is_used_that_the_user_names() {
    let rig = damaged_of(&["-b", "1024"], &[COUNT]);
    let file = std::fs::File::options()
        .write(true)
        .open(rig.image())
        .unwrap();
    file.write_all_at(&[0; 1024], 1024).unwrap();
    let block = "8193";
    for (args, expected) in [
        (&["-fn", "-b", block][..], Some(4)),
        (&["-fn", "-b", "77"], Some(8)),
        (&["-fn", "-B", "4096"], Some(16)),
        (&["-fn", "-b", block, "-B", "3000"], Some(16)),
        (&["-y", "-b", block], Some(1)),
        (&["-fn"], Some(0)),
    ] {
        let args = [&["fsck"], args, &["disk.img"]].concat();
        let (code, said) = status(&rig, &args);
        assert_eq!(code, expected, "{args:?}: {said}");
    }
    rig.assert_clean();
}

#[test]
fn extended_options_do_what_they_say() {
    let rig = damaged(&[COUNT]);
    for (list, expected) in [
        ("journal_only", 0),
        ("fixes_only", 1),
        ("bmap2extent,discard", 0),
        ("unshare_blocks", 0),
        ("no_such_word", 16),
    ] {
        let (code, said) = status(&rig, &["fsck", "-fy", "-E", list, "disk.img"]);
        assert_eq!(code, Some(expected), "{list}: {said}");
    }
    let (code, said) = status(&rig, &["fsck", "-fn", "-E", "discard", "disk.img"]);
    assert_eq!(code, Some(16), "{said}");
    rig.assert_clean();
}

/// What needs a mount is refused before the repair.
#[test]
fn extended_options_that_need_a_mount_are_refused_first() {
    for feature in ["casefold", "encrypt", "verity"] {
        let rig = damaged_of(&["-b", "1024", "-O", feature], &[COUNT]);
        let before = bytes(&rig.image());
        for list in ["discard", "bmap2extent", "nodiscard,discard"] {
            let (code, said) = status(&rig, &["fsck", "-fy", "-E", list, "disk.img"]);
            assert_eq!(code, Some(8), "{feature} {list}: {said}");
            assert!(said.contains(feature), "{said}");
            assert!(bytes(&rig.image()) == before);
        }
        let (code, said) = status(
            &rig,
            &["fsck", "-fy", "-E", "discard,nodiscard", "disk.img"],
        );
        assert_eq!(code, Some(1), "{said}");
        let alone = ["fsck", "-y", "-E", "journal_only,discard", "disk.img"];
        let (code, said) = status(&rig, &alone);
        assert_eq!(code, Some(0), "only a replay is asked for: {said}");
    }
}

#[test]
fn directories_are_optimised_if_asked() {
    let rig = damaged(&["mkdir d", "expand_dir d", "expand_dir d"]);
    rig.assert_clean();
    let before = bytes(&rig.image());
    let (code, said) = status(&rig, &["fsck", "-Dn", "disk.img"]);
    assert_eq!(code, Some(16), "{said}");
    let (code, said) = status(&rig, &["fsck", "-Dp", "disk.img"]);
    assert_eq!(code, Some(0), "it was unmounted cleanly: {said}");
    assert_eq!(before, bytes(&rig.image()));
    let (code, said) = status(&rig, &["fsck", "-Dy", "disk.img"]);
    assert_eq!(code, Some(0), "{said}");
    let what = "1 directories were built anew, 2 blocks of them are free";
    assert!(said.contains(what), "{said}");
    rig.assert_clean();
    let (_, said) = status(&rig, &["fsck", "-Dfp", "disk.img"]);
    assert!(said.contains("0 directories were built anew"), "{said}");
    let (_, said) = status(&rig, &["fsck", "-Dfy", "--json", "disk.img"]);
    let last = said.lines().last().expect("a line");
    let done: serde_json::Value = serde_json::from_str(last).expect("a line of JSON");
    assert_eq!(done["directories_built"], 0, "{said}");
    assert!(done["incomplete"].is_null(), "{said}");
}

#[test]
fn progress_goes_to_the_descriptor_that_the_caller_names() {
    let rig = damaged(&[COUNT]);
    let shell = format!(
        "'{}' fsck -fy -C9 disk.img 9>progress",
        env!("CARGO_BIN_EXE_uext4")
    );
    let mut run = Command::new("sh");
    run.args(["-c", &shell]).current_dir(rig.path("."));
    assert_eq!(run.output().expect("sh runs").status.code(), Some(1));
    let said = std::fs::read_to_string(rig.path("progress")).unwrap();
    for pass in ["1 0 ", "2 0 ", "5 0 "] {
        assert!(said.lines().any(|line| line.starts_with(pass)), "{said}");
    }
    assert!(
        said.lines().all(|line| line.ends_with(" disk.img")),
        "{said}"
    );
    let (code, said) = status(&rig, &["fsck", "-fy", "-C", "77", "disk.img"]);
    assert_eq!(code, Some(8), "{said}");
}
