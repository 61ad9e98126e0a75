//! `uext4 build`: qcow2, Android sparse images, hash trees and partitions, judged by their tools.

use crate::rig::{Rig, bytes};
use std::process::Stdio;
use uext4_testkit::oracle::{self, Program};

fn tree(rig: &Rig) {
    std::fs::create_dir_all(rig.path("tree/etc")).unwrap();
    std::fs::write(rig.path("tree/large"), vec![7; 3 << 20]).unwrap();
    for nr in 0..300 {
        std::fs::write(rig.path(&format!("tree/etc/{nr}")), nr.to_string()).unwrap();
    }
}

/// Runs a judge on files of the rig, which must agree.
fn judge(rig: &Rig, name: &'static str, args: &[&str], files: &[&str]) -> String {
    let program = Program::new(name).unwrap().args(args);
    let program = program.args(files.iter().map(|file| rig.path(file)));
    program.run_ok().unwrap().all()
}

#[test]
fn every_format_holds_the_raw_image_and_threads_do_not_matter() {
    let rig = Rig::empty();
    tree(&rig);
    rig.ok(&["build", "disk.img", "tree", "-q", "-s", "min+30%"]);
    for (threads, qcow2, sparse) in [("1", "1.qcow2", "1.simg"), ("8", "8.qcow2", "8.simg")] {
        for (format, name) in [("qcow2", qcow2), ("android-sparse", sparse)] {
            let fixed = [
                "build", name, "tree", "-q", "-s", "min+30%", "--format", format,
            ];
            rig.ok(&[&fixed[..], &["--threads", threads]].concat());
        }
    }
    for (one, other) in [("1.qcow2", "8.qcow2"), ("1.simg", "8.simg")] {
        assert!(bytes(&rig.path(one)) == bytes(&rig.path(other)), "{one}");
    }
    judge(&rig, "qemu-img", &["check", "-q"], &["1.qcow2"]);
    judge(&rig, "qemu-img", &["compare"], &["1.qcow2", "disk.img"]);
    judge(&rig, "simg2img", &[], &["1.simg", "back.img"]);
    assert!(bytes(&rig.path("back.img")) == bytes(&rig.image()));
    rig.assert_clean();
    rig.fails(1, "holds a qcow2 image", &["build", "1.qcow2", "tree"]);
    rig.fails(1, "holds an Android", &["build", "1.simg", "tree"]);
}

#[test]
fn a_hash_tree_is_verified() {
    let rig = Rig::empty();
    tree(&rig);
    let made = rig.json(&[
        "build",
        "disk.img",
        "tree",
        "--json",
        "--verity",
        "tree.verity",
    ]);
    let root = made["verity"]["root_hash"].as_str().unwrap();
    let files = ["disk.img", "tree.verity"];
    let verify = |files: [&str; 2], more: &[&str]| {
        let program = Program::new("veritysetup").unwrap().arg("verify");
        let program = program.args(files.map(|file| rig.path(file)));
        program.arg(root).args(more).run().unwrap().code
    };
    assert_eq!(verify(files, &[]), Some(0));
    let size = made["size_bytes"].as_u64().unwrap();
    assert_eq!(made["verity"]["data_blocks"].as_u64(), Some(size / 4096));
    let said = rig.ok(&["build", "a.img", "tree", "--verity", "append"]);
    assert!(
        said.contains(&format!("Root hash {root}, hash offset {size}")),
        "{said}"
    );
    let offset = format!("--hash-offset={size}");
    assert_eq!(verify(["a.img", "a.img"], &[&offset]), Some(0));
    oracle::assert_clean(&rig.path("a.img"));
    let mut changed = bytes(&rig.image());
    changed[4096 * 5] ^= 1;
    std::fs::write(rig.image(), changed).unwrap();
    assert_ne!(verify(files, &[]), Some(0), "one byte differs");
    let salted = [
        "build",
        "s.img",
        "tree",
        "--json",
        "--verity-salt",
        "00ff",
        "--verity",
    ];
    let salted = rig.json(&[&salted[..], &["s.verity"]].concat());
    assert_eq!(salted["verity"]["salt"], "00ff");
    rig.fails(
        1,
        "holds a hash tree",
        &["build", "n.img", "tree", "--verity", "tree.verity"],
    );
    rig.fails(
        2,
        "pairs of hex",
        &[
            "build",
            "n.img",
            "tree",
            "--verity",
            "t",
            "--verity-salt",
            "f",
        ],
    );
    rig.fails(
        2,
        "--verity",
        &["build", "n.img", "tree", "--verity-salt", "ff"],
    );
    rig.fails(
        2,
        "name of the image",
        &["build", "n.img", "tree", "--verity", "n.img"],
    );
    let small = [
        "build", "n.img", "tree", "-b", "1K", "-s", "8385K", "--verity", "append",
    ];
    rig.fails(2, "multiple of 4 KiB", &small);
    assert!(!rig.path("n.img").exists());
}

#[test]
fn a_partition_holds_the_raw_image() {
    let rig = Rig::empty();
    tree(&rig);
    rig.ok(&["build", "disk.img", "tree", "-q"]);
    let made = rig.json(&["build", "gpt.img", "tree", "--json", "--partition", "gpt"]);
    let said = judge(&rig, "sgdisk", &["-v"], &["gpt.img"]);
    assert!(said.contains("No problems found"), "{said}");
    let start = made["partition"]["start_bytes"].as_u64().unwrap() as usize;
    assert!(bytes(&rig.path("gpt.img"))[start..].starts_with(&bytes(&rig.image())));
    assert_eq!(
        rig.ok(&["cat", "gpt.img", "--partition", "1", "/etc/7"]),
        "7"
    );
    let root = ["build", "gpt.qcow2", "tree", "-q", "--partition", "gpt"];
    let root = [
        &root[..],
        &["--partition-type", "root-x86-64", "--format", "qcow2"],
    ]
    .concat();
    rig.ok(&root);
    judge(
        &rig,
        "qemu-img",
        &["convert", "-O", "raw"],
        &["gpt.qcow2", "back.img"],
    );
    let said = judge(&rig, "sgdisk", &["-v", "-i", "1"], &["back.img"]);
    assert!(
        said.contains("No problems found") && said.contains("x86-64 root"),
        "{said}"
    );
    let both = [
        "build",
        "n.img",
        "tree",
        "--partition",
        "gpt",
        "--format",
        "android-sparse",
    ];
    rig.fails(2, "no partition table", &both);
    rig.fails(
        2,
        "--partition",
        &["build", "n.img", "tree", "--partition-type", "linux"],
    );
    assert!(!rig.path("n.img").exists());
}

/// What fails or is killed leaves nothing under the final names.
#[test]
fn failures_leave_no_output() {
    let rig = Rig::empty();
    let formats = [
        ["--format", "qcow2", "--verity", "t"],
        ["--format", "android-sparse", "--verity", "append"],
        ["--partition", "gpt", "--verity", "t"],
    ];
    for format in formats {
        rig.fails(
            1,
            "missing",
            &[&["build", "disk.img", "missing"], &format[..]].concat(),
        );
        let args = [&["build", "disk.img", "-"], &format[..]].concat();
        let mut child = rig.start(&args, Stdio::piped());
        rig.wait_for_new_file(&child);
        let pid = child.id().to_string();
        Program::new("kill")
            .unwrap()
            .args(["-TERM", &pid])
            .run_ok()
            .unwrap();
        drop(child.stdin.take());
        assert!(!child.wait().unwrap().success());
        let left = std::fs::read_dir(rig.path(".")).unwrap().count();
        assert_eq!(left, 0, "{format:?}");
    }
}
