//! `uext4 build`: images of trees and archives, judged by e2fsck, dumpe2fs and the kernel.

use crate::rig::Rig;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use uext4_testkit::oracle::{self, KernelMount};

/// A tree with the usual kinds of files, in the rig's directory.
fn tree(rig: &Rig) {
    let root = rig.path("tree");
    std::fs::create_dir_all(root.join("etc/rc.d")).unwrap();
    std::fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    std::fs::write(root.join("large"), vec![7; 3 << 20]).unwrap();
    std::fs::hard_link(root.join("large"), root.join("same")).unwrap();
    symlink("etc/hosts", root.join("link")).unwrap();
    for nr in 0..300 {
        std::fs::write(root.join(format!("etc/rc.d/{nr}")), nr.to_string()).unwrap();
    }
    let mode = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(root.join("etc/hosts"), mode).unwrap();
}

fn tar(rig: &Rig, name: &str, args: &[&str]) {
    let mut command = Command::new("tar");
    command
        .current_dir(rig.path("tree"))
        .arg("-cf")
        .arg(rig.path(name));
    let done = command.args(args).status().expect("tar is installed");
    assert!(done.success());
}

fn told(image: &Path, label: &str) -> String {
    let header = oracle::dumpe2fs(image).unwrap();
    header.text(label).unwrap_or("none").to_owned()
}

/// Mounts the image by the kernel, and compares it with the tree.
fn assert_same_tree(rig: &Rig, image: &str) {
    oracle::assert_clean(&rig.path(image));
    if !KernelMount::available_or_skip("build") {
        return;
    }
    let kernel = KernelMount::new(&rig.path(image), "ro").unwrap();
    let diff = Command::new("diff")
        .args(["-r", "--no-dereference", "-x", "lost+found"])
        .args([rig.path("tree"), kernel.path().to_owned()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&diff.stdout).into_owned();
    assert!(diff.status.success(), "{said}");
    let (hosts, large) = (kernel.path().join("etc/hosts"), kernel.path().join("large"));
    let found = std::fs::metadata(hosts).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o4755);
    assert_eq!(std::fs::metadata(large).unwrap().nlink(), 2);
    kernel.unmount().unwrap();
}

#[test]
fn a_directory_and_its_tar_make_images_of_the_same_tree() {
    let rig = Rig::empty();
    tree(&rig);
    tar(
        &rig,
        "tree.tar",
        &[
            "--sort=name",
            "--pax-option=delete=atime,delete=ctime",
            "-H",
            "pax",
            ".",
        ],
    );
    rig.ok(&["build", "dir.img", "tree", "-q"]);
    rig.ok(&["build", "tar.img", "tree.tar", "-q"]);
    rig.ok(&["build", "inline.img", "tree", "-q", "-O", "inline_data"]);
    let clusters = ["-O", "bigalloc,inline_data,quota", "-C", "8K"];
    rig.ok(&[&["build", "clusters.img", "tree.tar", "-q"][..], &clusters].concat());
    for image in ["dir.img", "tar.img", "inline.img", "clusters.img"] {
        assert_same_tree(&rig, image);
        assert!(rig.ok(&["check", image]).starts_with("sound"));
    }
    let same =
        std::fs::read(rig.path("dir.img")).unwrap() == std::fs::read(rig.path("tar.img")).unwrap();
    assert!(same, "one tree, one image");
}

#[test]
fn the_same_bytes_with_any_number_of_threads_and_from_a_pipe() {
    let rig = Rig::empty();
    tree(&rig);
    tar(&rig, "tree.tar", &["."]);
    rig.ok(&["build", "a.img", "tree", "-q", "--threads", "1"]);
    rig.ok(&["build", "b.img", "tree", "-q", "--threads", "8"]);
    let bytes = |name: &str| std::fs::read(rig.path(name)).unwrap();
    assert!(bytes("a.img") == bytes("b.img"));
    let piped = rig.fed(&bytes("tree.tar"), &["build", "c.img", "-", "-q"]);
    assert!(piped.status.success(), "{piped:?}");
    assert_same_tree(&rig, "c.img");
    let compressed = Command::new("gzip")
        .arg("-k")
        .arg(rig.path("tree.tar"))
        .status();
    assert!(compressed.unwrap().success());
    rig.ok(&["build", "d.img", "tree.tar.gz", "-q"]);
    assert!(
        bytes("c.img") == bytes("d.img"),
        "compression does not matter"
    );
}

#[test]
fn later_sources_hide_earlier_ones() {
    let rig = Rig::empty();
    tree(&rig);
    std::fs::create_dir_all(rig.path("over/etc")).unwrap();
    std::fs::write(rig.path("over/etc/hosts"), "new\n").unwrap();
    rig.ok(&["build", "disk.img", "tree", "over", "-q"]);
    assert_eq!(rig.ok(&["cat", "disk.img", "/etc/hosts"]), "new\n");
    assert_eq!(rig.ok(&["cat", "disk.img", "/etc/rc.d/7"]), "7");
    rig.ok(&["build", "disk.img", "over", "-q", "--at", "/a/b", "-F"]);
    assert_eq!(rig.ok(&["cat", "disk.img", "/a/b/etc/hosts"]), "new\n");
    rig.assert_clean();
}

#[test]
fn sizes_journals_and_releases() {
    let rig = Rig::empty();
    tree(&rig);
    let json = rig.ok(&["build", "disk.img", "tree", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&json).unwrap();
    let size = made["size_bytes"].as_u64().unwrap();
    assert_eq!(std::fs::metadata(rig.image()).unwrap().len(), size);
    let least = size.to_string();
    let less = (size - 4096).to_string();
    let inodes = made["inodes"].to_string();
    let fixed = [
        "build", "disk.img", "tree", "-q", "-F", "-m", "0", "-N", &inodes, "--size",
    ];
    rig.ok(&[&fixed[..], &[&least]].concat());
    rig.assert_clean();
    rig.fails(1, "larger size", &[&fixed[..], &[&less]].concat());
    rig.ok(&["build", "more.img", "tree", "-q", "--size", "min+50%"]);
    let more = std::fs::metadata(rig.path("more.img")).unwrap().len();
    assert!(more > size + size / 4, "{more}");
    let packed = ["build", "packed.img", "tree", "-q", "--packed-meta-blocks"];
    rig.fails(1, "give its size in bytes", &packed);
    rig.ok(&[&packed[..], &["-s", "64M"]].concat());
    rig.ok(&["build", "none.img", "tree", "-q", "--journal", "none"]);
    assert!(!told(&rig.path("none.img"), "Filesystem features").contains("has_journal"));
    rig.ok(&["build", "old.img", "tree", "-q", "--compat", "debian-11"]);
    assert!(!told(&rig.path("old.img"), "Filesystem features").contains("orphan_file"));
    rig.ok(
        &["build", "16g.img", "over", "-q", "--size", "16G"].map(|word| match word {
            "over" => "tree/etc/rc.d",
            word => word,
        }),
    );
    let found = std::fs::metadata(rig.path("16g.img")).unwrap();
    assert!(
        found.len() == 16 << 30 && found.blocks() * 512 < 3 << 20,
        "{}",
        found.blocks()
    );
    for image in ["none.img", "old.img", "more.img", "16g.img", "packed.img"] {
        oracle::assert_clean(&rig.path(image));
    }
}

#[test]
fn what_fails_leaves_no_image_and_the_old_one() {
    let rig = Rig::empty();
    tree(&rig);
    tar(&rig, "tree.tar", &["."]);
    let bytes = std::fs::read(rig.path("tree.tar")).unwrap();
    std::fs::write(rig.path("cut.tar"), &bytes[..bytes.len() / 2]).unwrap();
    rig.fails(1, "cut.tar", &["build", "disk.img", "cut.tar"]);
    assert!(!rig.image().exists());
    rig.ok(&["build", "disk.img", "tree", "-q"]);
    let before = std::fs::read(rig.image()).unwrap();
    rig.fails(1, "holds an ext2", &["build", "disk.img", "tree"]);
    rig.fails(1, "cut.tar", &["build", "-F", "disk.img", "cut.tar"]);
    rig.fails(1, "missing", &["build", "-F", "disk.img", "missing"]);
    rig.fails(
        2,
        "min+PERCENT%",
        &["build", "-F", "disk.img", "tree", "-s", "min+x"],
    );
    rig.fails(
        2,
        "does not have",
        &[
            "build",
            "-F",
            "disk.img",
            "tree",
            "-O",
            "orphan_file",
            "--compat",
            "debian-11",
        ],
    );
    rig.fails(
        2,
        "is no release",
        &["build", "-F", "disk.img", "tree", "--compat", "debian-1"],
    );
    rig.fails(2, "only one", &["build", "-F", "disk.img", "-", "-"]);
    rig.fails(
        1,
        "up to 1 MiB",
        &["build", "-F", "disk.img", "tree", "-O", "bigalloc", "-C2M"],
    );
    rig.fails(
        1,
        "200000",
        &["build", "-F", "disk.img", "tree.tar", "--limit", "200000"],
    );
    assert!(
        std::fs::read(rig.image()).unwrap() == before,
        "the old image stays"
    );
    let left: Vec<_> = std::fs::read_dir(rig.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn small_files_are_in_their_inodes() {
    let rig = Rig::empty();
    tree(&rig);
    rig.ok(&["build", "usual.img", "tree", "-q"]);
    rig.ok(&["build", "disk.img", "tree", "-q", "-O", "inline_data"]);
    assert_same_tree(&rig, "disk.img");
    assert!(rig.ok(&["check", "disk.img"]).starts_with("sound"));
    assert_eq!(rig.ok(&["cat", "disk.img", "/etc/rc.d/7"]), "7");
    let bytes = |name: &str| std::fs::metadata(rig.path(name)).unwrap().len();
    let saved = bytes("usual.img") - bytes("disk.img");
    assert!(saved >= 300 << 12, "{saved} bytes");
    rig.ok(&[
        "build",
        "one.img",
        "tree",
        "-q",
        "-O",
        "inline_data",
        "--threads",
        "1",
    ]);
    let same = std::fs::read(rig.path("one.img")).unwrap() == std::fs::read(rig.image()).unwrap();
    assert!(same, "threads do not matter");
    rig.fails(
        2,
        "does not have",
        &[
            "build",
            "old.img",
            "tree",
            "-O",
            "inline_data",
            "--compat",
            "linux-3.7",
        ],
    );
}

/// A build that is killed leaves no file under the final name.
#[test]
fn a_killed_build_leaves_nothing() {
    let rig = Rig::empty();
    let mut child = rig.start(&["build", "disk.img", "-"], Stdio::piped());
    rig.wait_for_new_file(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!rig.image().exists());
}

/// Input that never comes, or never ends.
#[test]
fn a_build_that_waits_for_its_source_can_be_ended() {
    let rig = Rig::empty();
    let made = Command::new("mkfifo").arg(rig.path("pipe")).status();
    assert!(made.unwrap().success());
    let zeroes = || Stdio::from(std::fs::File::open("/dev/zero").unwrap());
    let cases = [
        ("-", Stdio::piped()),
        ("-", zeroes()),
        ("pipe", Stdio::null()),
        ("/dev/zero", Stdio::null()),
    ];
    for (source, input) in cases {
        let mut child = rig.start(&["build", "disk.img", source], input);
        let input = child.stdin.take();
        rig.wait_for_new_file(&child);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = child.wait_with_output().unwrap();
        drop(input);
        assert_eq!(ended.status.code(), Some(1), "{source}: {ended:?}");
        assert!(!rig.image().exists());
    }
}

#[test]
fn parts_of_sources_are_left_out() {
    let rig = Rig::empty();
    tree(&rig);
    tar(&rig, "tree.tar", &["."]);
    let exclude = ["--exclude", "rc.d", "--exclude", "/etc/h*"];
    for source in ["tree", "tree.tar"] {
        rig.ok(&[&["build", "-F", "-q", "disk.img", source][..], &exclude].concat());
        assert_eq!(rig.ok(&["ls", "disk.img", "/etc"]), "");
        oracle::assert_clean(&rig.image());
    }
    // The first name of a file with two.
    let exclude = ["--exclude", "large", "--one-file-system"];
    rig.ok(&[&["build", "-F", "-q", "disk.img", "tree"][..], &exclude].concat());
    assert_eq!(
        rig.ok(&["ls", "disk.img", "/"]),
        "etc\nlink\nlost+found\nsame\n"
    );
    assert_eq!(rig.ok(&["get", "disk.img", "/same", "-"]).len(), 3 << 20);
}

#[test]
fn times_are_clamped_for_reproducible_images() {
    let rig = Rig::empty();
    tree(&rig);
    let epoch = [("SOURCE_DATE_EPOCH", "86400")];
    assert!(
        rig.run_with(&epoch, &["build", "a.img", "tree", "-q"])
            .status
            .success()
    );
    rig.ok(&["build", "b.img", "tree", "-q", "--clamp-mtime", "86400"]);
    rig.ok(&["build", "c.img", "tree", "-q", "--mtime", "86400"]);
    for image in ["a.img", "b.img", "c.img"] {
        let header = oracle::debugfs_one(&rig.path(image), "stat /large").unwrap();
        assert!(header.contains("mtime: 0x00015180"), "{image}: {header}");
    }
}

/// Blocks of the images that differ, by `uext4 diff`.
fn differing_blocks(rig: &Rig, one: &str, other: &str) -> u64 {
    let output = rig.run(&["diff", "--blocks", "--json", one, other]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    found["blocks"].as_u64().expect("a number")
}

#[test]
fn a_changed_file_changes_few_blocks_of_a_diff_friendly_image() {
    let rig = Rig::empty();
    tree(&rig);
    std::fs::write(rig.path("tree/changed"), vec![1; 4096]).unwrap();
    let build = |image: &str, more: &[&str]| {
        let args = ["build", image, "tree", "-q", "--size", "2G"];
        rig.ok(&[&args[..], more].concat());
    };
    build("a.img", &["--diff-friendly"]);
    build("packed.img", &[]);
    std::fs::write(rig.path("tree/changed"), vec![2; 4096]).unwrap();
    build("b.img", &["--diff-friendly", "--threads", "1"]);
    build("repacked.img", &[]);
    assert_same_tree(&rig, "b.img");
    let friendly = differing_blocks(&rig, "a.img", "b.img");
    assert!((1..=16).contains(&friendly), "{friendly} blocks");
    let packed = differing_blocks(&rig, "packed.img", "repacked.img");
    assert!(packed > 16, "the canary: {packed} blocks");
    rig.fails(
        1,
        "give a size in bytes",
        &["build", "c.img", "tree", "--diff-friendly"],
    );
    assert!(!rig.path("c.img").exists());
}

/// As tar does with one archive after the other.
#[test]
fn files_below_a_link_of_an_earlier_source_go_where_it_leads() {
    let rig = Rig::empty();
    std::fs::create_dir_all(rig.path("tree/usr/lib")).unwrap();
    std::fs::write(rig.path("tree/usr/lib/old"), "o").unwrap();
    symlink("usr/lib", rig.path("tree/lib")).unwrap();
    tar(&rig, "base.tar", &["."]);
    std::fs::remove_dir_all(rig.path("tree")).unwrap();
    std::fs::create_dir_all(rig.path("tree/lib")).unwrap();
    std::fs::write(rig.path("tree/lib/new"), "n").unwrap();
    tar(&rig, "over.tar", &["lib/new"]);
    let built = rig.run(&["build", "disk.img", "base.tar", "over.tar"]);
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success() && said.contains("note: /lib: a later source"),
        "{said}"
    );
    oracle::assert_clean(&rig.path("disk.img"));
    assert_eq!(rig.ok(&["ls", "disk.img", "/usr/lib"]), "new\nold\n");
}

#[test]
fn an_image_in_its_own_source_is_left_out() {
    let rig = Rig::empty();
    tree(&rig);
    std::fs::create_dir(rig.path("tree/out")).unwrap();
    for verity in [&[][..], &["--verity", "tree/out/hashes"]] {
        for _again in 0..2 {
            let fixed = ["build", "-F", "-q", "tree/out/disk.img", "tree"];
            rig.ok(&[&fixed[..], verity].concat());
            let image = rig.path("tree/out/disk.img");
            oracle::assert_clean(&image);
            assert_eq!(rig.ok(&["ls", "tree/out/disk.img", "/out"]), "");
        }
    }
}

#[test]
fn a_new_image_has_owner_and_mode_of_the_old_one_and_links_stay() {
    let rig = Rig::empty();
    tree(&rig);
    let name = "x".repeat(245);
    std::fs::write(rig.path(&name), "old").unwrap();
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(rig.path(&name), private).unwrap();
    if uext4_testkit::skip::root_or_skip("a_new_image_has_owner_and_mode_of_the_old_one") {
        std::os::unix::fs::chown(rig.path(&name), Some(1000), Some(1001)).unwrap();
    }
    let old = std::fs::metadata(rig.path(&name)).unwrap();
    symlink(&name, rig.path("link")).unwrap();
    rig.ok(&["build", "link", "tree", "-q"]);
    assert!(rig.path("link").is_symlink());
    let new = std::fs::metadata(rig.path(&name)).unwrap();
    assert_eq!(
        (new.uid(), new.gid(), new.mode()),
        (old.uid(), old.gid(), old.mode())
    );
    assert_same_tree(&rig, &name);
}
