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
    // The word is no file: one of that name is a source like others.
    std::fs::write(rig.path("append"), "x").unwrap();
    rig.ok(&[
        "build",
        "w.img",
        ".",
        "--exclude",
        "*.img",
        "--verity",
        "append",
    ]);
    rig.ok(&["cat", "w.img", "/append"]);
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

#[test]
fn the_format_goes_by_the_name_of_the_file() {
    let rig = Rig::empty();
    tree(&rig);
    for (name, start) in [
        ("a.qcow2", &b"QFI\xFB"[..]),
        ("a.simg", &b"\x3A\xFF\x26\xED"[..]),
        ("a.img", &[0; 4]),
    ] {
        rig.ok(&["build", name, "tree", "-q"]);
        assert!(bytes(&rig.path(name)).starts_with(start), "{name}");
    }
    let made = rig.json(&["build", "b.QCOW2", "tree", "--json"]);
    assert_eq!(made["format"], "qcow2");
    rig.ok(&["build", "raw.qcow2", "tree", "-q", "--format", "raw"]);
    assert!(bytes(&rig.path("raw.qcow2")) == bytes(&rig.path("a.img")));
    rig.fails(
        2,
        "x.vmdk: .vmdk means a format that is not written here; `qemu-img convert`",
        &["build", "x.vmdk", "tree"],
    );
    assert!(!rig.path("x.vmdk").exists());
}

/// A machine that has both disks finds each by its own GUID.
#[test]
fn forms_of_one_tree_have_guids_of_their_own() {
    let rig = Rig::empty();
    tree(&rig);
    let forms: [&[&str]; 5] = [
        &[],
        &["--size", "min+20%"],
        &["-L", "other"],
        &["--partition-type", "root-x86-64"],
        &["--verity", "append"],
    ];
    let mut seen = std::collections::BTreeSet::new();
    let guid = |made: serde_json::Value, name: &str| made["partition"][name].to_string();
    for form in forms {
        let fixed = [
            "build",
            "d.img",
            "tree",
            "--json",
            "-F",
            "--partition",
            "gpt",
        ];
        let made = rig.json(&[&fixed[..], form].concat());
        assert!(seen.insert(guid(made.clone(), "guid")), "{form:?}: {made}");
        let again = rig.json(&[&fixed[..], form].concat());
        assert_eq!(guid(made.clone(), "guid"), guid(again, "guid"));
        assert_ne!(guid(made.clone(), "guid"), guid(made, "disk_guid"));
    }
}

#[test]
fn an_image_goes_through_a_pipe() {
    let rig = Rig::empty();
    tree(&rig);
    rig.ok(&["build", "disk.img", "tree", "-q"]);
    std::fs::create_dir(rig.path("tmp")).unwrap();
    let there = [("TMPDIR", "tmp")];
    let piped = rig.run_with(&there, &["build", "-", "tree"]);
    assert!(piped.status.success(), "{piped:?}");
    assert!(piped.stdout == bytes(&rig.image()), "the same bytes");
    let said = String::from_utf8_lossy(&piped.stderr);
    assert!(said.starts_with("standard output: "), "{said}");
    let quiet = rig.run_with(&there, &["build", "-", "tree", "-q", "--format", "qcow2"]);
    assert!(quiet.stdout.starts_with(b"QFI") && quiet.stderr.is_empty());
    rig.fails(2, "--json and the image", &["build", "-", "tree", "--json"]);
    let failed = rig.run_with(&there, &["build", "-", "none"]);
    assert!(!failed.status.success() && failed.stdout.is_empty());
    assert_eq!(std::fs::read_dir(rig.path("tmp")).unwrap().count(), 0);
    assert!(!rig.path("-").exists());
    // The terminal of script(1).
    let program = format!("{} build - tree", env!("CARGO_BIN_EXE_uext4"));
    let mut terminal = std::process::Command::new("script");
    terminal
        .args(["-qec", &program, "/dev/null"])
        .current_dir(rig.path("."));
    let said = terminal.stdin(Stdio::null()).output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.contains("not written to a terminal; name a file"),
        "{said}"
    );
}

/// zstd with a window of 512 MiB.
#[test]
fn a_decoder_gets_more_memory_by_an_option() {
    let rig = Rig::empty();
    tree(&rig);
    let pack = "tar -cf - tree | zstd -q --long=29 -o long.tar.zst";
    let done = std::process::Command::new("sh")
        .args(["-c", pack])
        .current_dir(rig.path("."))
        .status();
    assert!(done.unwrap().success());
    rig.fails(
        1,
        "allow more, as with --decoder-memory 2G, or decompress it first",
        &["build", "disk.img", "long.tar.zst"],
    );
    rig.ok(&[
        "build",
        "disk.img",
        "long.tar.zst",
        "-q",
        "--decoder-memory",
        "512M",
    ]);
    rig.assert_clean();
}
