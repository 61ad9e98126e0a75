//! `uext4 tune`, judged by e2fsck, dumpe2fs, debugfs and the kernel.

use crate::rig::{Rig, bytes};
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Caller, Filesystem, MountOptions, WriteContext};
use uext4_testkit::oracle::{self, KernelMount};

/// A line of dumpe2fs.
fn told(rig: &Rig, label: &str) -> String {
    let output = Command::new("dumpe2fs")
        .arg("-h")
        .arg(rig.image())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or("none").trim().to_owned()
}

/// Mounts the image by the kernel, which frees an orphan and leaves the image clean.
fn assert_mountable(rig: &Rig) {
    rig.assert_clean();
    if KernelMount::available_or_skip("tune") {
        let kernel = KernelMount::new(&rig.image(), "").unwrap();
        let path = kernel.path().join("gone");
        let mut file = std::fs::File::create(&path).unwrap();
        // The file has blocks: Linux keeps the size of a freed inode without blocks, which tune2fs
        // rejects.
        file.write_all(&[7; 1 << 16]).unwrap();
        file.sync_all().unwrap();
        std::fs::remove_file(path).unwrap();
        drop(file);
        kernel.unmount().unwrap();
        rig.assert_clean();
    }
}

#[test]
fn the_orphan_file_comes_and_goes() {
    let shapes: [&[&str]; 4] = [
        &["-O", "^orphan_file"],
        &["-O", "^orphan_file,^metadata_csum", "-b", "1024"],
        &["-O", "^orphan_file,inline_data"],
        &["-O", "^orphan_file,bigalloc,^resize_inode"],
    ];
    for shape in shapes {
        let rig = Rig::new(shape);
        let free = || (told(&rig, "Free blocks:"), told(&rig, "Free inodes:"));
        let before = free();
        rig.ok(&["tune", "disk.img", "-O", "orphan_file"]);
        assert!(
            told(&rig, "Filesystem features:").contains("orphan_file"),
            "{shape:?}"
        );
        assert_ne!(told(&rig, "Orphan file inode:"), "none", "{shape:?}");
        assert_mountable(&rig);
        rig.ok(&["mkdir", "disk.img", "/dir"]);
        rig.ok(&["rm", "-r", "disk.img", "/dir"]);
        rig.ok(&["tune", "disk.img", "-O", "^orphan_file"]);
        assert!(!told(&rig, "Filesystem features:").contains("orphan_file"));
        assert_eq!(free(), before, "{shape:?}");
        assert_mountable(&rig);
        // Also removes the orphan file that tune2fs adds.
        let tune2fs = Command::new("tune2fs")
            .args(["-O", "orphan_file"])
            .arg(rig.image())
            .output()
            .unwrap();
        assert!(tune2fs.status.success(), "{shape:?}: {tune2fs:?}");
        rig.ok(&["tune", "disk.img", "-O", "^orphan_file"]);
        assert_mountable(&rig);
    }
    let rig = Rig::new(&["-O", "^has_journal,^orphan_file"]);
    rig.fails(1, "has_journal", &["tune", "disk.img", "-O", "orphan_file"]);
}

/// Fast commits that a file with two fsyncs causes.
fn fast_commits(rig: &Rig) -> u64 {
    let device = FileDevice::open(rig.image(), Access::ReadWrite).unwrap();
    let fs = Filesystem::mount(Arc::new(device), MountOptions::default()).unwrap();
    let root = fs.root().unwrap();
    let file = fs.create(&root, b"synced", 0o644, &Caller::root()).unwrap();
    for at in 0..4 {
        let bytes = [7; 100];
        fs.write(&file, 100 * at, &bytes, &WriteContext::ROOT)
            .unwrap();
        fs.fsync(&file).unwrap();
    }
    let commits = fs.stats().fast_commits.commits;
    fs.unlink(&root, b"synced", &Caller::root()).unwrap();
    drop((root, file));
    fs.unmount().unwrap();
    commits
}

#[test]
fn fast_commits_are_turned_on_and_off() {
    for shape in [&["-O", "^fast_commit"][..], &["-b", "1024"]] {
        let rig = Rig::new(shape);
        assert_eq!(fast_commits(&rig), 0);
        rig.ok(&["tune", "disk.img", "-O", "fast_commit"]);
        assert!(told(&rig, "Filesystem features:").contains("fast_commit"));
        assert_mountable(&rig);
        assert!(fast_commits(&rig) > 0, "{shape:?}");
        assert_mountable(&rig);
        rig.ok(&["tune", "disk.img", "-O", "^fast_commit"]);
        assert!(!told(&rig, "Filesystem features:").contains("fast_commit"));
        assert_eq!(fast_commits(&rig), 0);
        assert_mountable(&rig);
    }
    let rig = Rig::new(&["-O", "^has_journal,^orphan_file"]);
    rig.fails(1, "has_journal", &["tune", "disk.img", "-O", "fast_commit"]);
}

#[test]
fn labels_shares_and_behaviour() {
    let rig = Rig::new(&["-O", "sparse_super", "-b", "1024"]);
    rig.ok(&[
        "tune",
        "disk.img",
        "-L",
        "a label",
        "-m",
        "10",
        "-e",
        "remount-ro",
    ]);
    assert_eq!(told(&rig, "Filesystem volume name:"), "a label");
    assert_eq!(told(&rig, "Errors behavior:"), "Remount read-only");
    assert_eq!(told(&rig, "Reserved block count:"), "6553");
    assert_mountable(&rig);
    // The backup superblocks contain the label too.
    let copy = rig.debugfs("show_super_stats -h");
    assert!(copy.contains("a label"));
    let backup = Command::new("dumpe2fs")
        .args(["-h", "-o", "superblock=8193", "-o", "blocksize=1024"])
        .arg(rig.image())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&backup.stdout).contains("a label"));
    rig.fails(
        1,
        "16 bytes",
        &["tune", "disk.img", "-L", "more than sixteen bytes"],
    );
    rig.fails(2, "not in 0..=50", &["tune", "disk.img", "-m", "51"]);
    rig.fails(
        1,
        "cannot be turned on",
        &["tune", "disk.img", "-O", "bigalloc"],
    );
    rig.fails(2, "unknown", &["tune", "disk.img", "-O", "wide"]);
}

#[test]
fn a_new_uuid_with_and_without_a_seed() {
    let rig = Rig::new(&["-O", "^metadata_csum_seed"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    let mut uuid = "01234567-89ab-cdef-0123-456789abcdef";
    rig.ok(&["tune", "disk.img", "-U", uuid]);
    assert_eq!(told(&rig, "Filesystem UUID:"), uuid);
    assert_mountable(&rig);
    uuid = "76543210-89ab-cdef-0123-456789abcdef";
    rig.ok(&["tune", "disk.img", "-O", "metadata_csum_seed", "-U", uuid]);
    assert_eq!(told(&rig, "Filesystem UUID:"), uuid);
    assert_mountable(&rig);
    rig.ok(&["tune", "disk.img", "-U", "random"]);
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
    assert_mountable(&rig);
    let rig = Rig::new(&["-O", "^metadata_csum,^metadata_csum_seed,uninit_bg"]);
    rig.ok(&["tune", "disk.img", "-U", uuid]);
    assert_eq!(told(&rig, "Filesystem UUID:"), uuid);
    assert_mountable(&rig);
    let rig = Rig::new(&["-O", "^has_journal,^orphan_file,^metadata_csum_seed"]);
    rig.fails(1, "without a journal", &["tune", "disk.img", "-U", uuid]);
    oracle::assert_clean(&rig.image());
}

#[test]
fn checksums_come_and_go() {
    let rig = Rig::new(&[]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    let features = || told(&rig, "Filesystem features:");
    rig.ok(&["tune", "disk.img", "-O", "^metadata_csum", "-U", "random"]);
    assert!(!features().contains("metadata_csum"), "{}", features());
    assert_mountable(&rig);
    rig.ok(&["tune", "disk.img", "-O", "metadata_csum,metadata_csum_seed"]);
    assert!(features().contains("metadata_csum_seed"), "{}", features());
    assert_mountable(&rig);
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
}

#[test]
fn quota_is_counted_from_now_on() {
    let rig = Rig::new(&["-O", "project,^ea_inode"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.ok(&["tune", "disk.img", "-Q", "usrquota"]);
    assert_eq!(told(&rig, "User quota inode:"), "3");
    assert_eq!(told(&rig, "Group quota inode:"), "none");
    rig.assert_clean();
    rig.fails(1, "beside others", &["tune", "disk.img", "-Q", "grpquota"]);
    rig.ok(&["tune", "disk.img", "-O", "^quota"]);
    assert!(!told(&rig, "Filesystem features:").contains("quota"));
    rig.assert_clean();
    rig.ok(&["tune", "disk.img", "-O", "quota"]);
    assert_eq!(told(&rig, "Group quota inode:"), "4");
    assert_ne!(told(&rig, "Project quota inode:"), "none");
    rig.assert_clean();
    let report = rig.ok(&["quota", "disk.img", "--kind", "group", "--json"]);
    assert!(report.contains("\"inodes\""), "{report}");
    rig.ok(&["mkdir", "disk.img", "/another"]);
    rig.assert_clean();
    rig.ok(&["tune", "disk.img", "-Q", "^prjquota,^usrquota"]);
    assert_eq!(told(&rig, "User quota inode:"), "none");
    rig.assert_clean();
    rig.fails(2, "usrquota", &["tune", "disk.img", "-Q", "quota"]);
}

/// `tune2fs -o journal_data`: all commands work, with data=ordered.
#[test]
fn data_in_the_journal_by_default_is_done_as_ordered() {
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("src"), "data").unwrap();
    let image = rig.image();
    let tuned = Command::new("tune2fs")
        .args(["-o", "journal_data"])
        .arg(&image)
        .output();
    assert!(tuned.expect("tune2fs runs").status.success());
    rig.ok(&["put", "disk.img", "src", "/file"]);
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "data");
    rig.ok(&["ls", "-l", "disk.img"]);
    assert!(rig.ok(&["check", "disk.img"]).starts_with("sound"));
    rig.ok(&["get", "disk.img", "/file", "back"]);
    rig.assert_clean();
    if !std::path::Path::new("/dev/fuse").exists() {
        return;
    }
    std::fs::create_dir(rig.path("mnt")).unwrap();
    let mounted = rig.run(&["mount", "disk.img", "mnt"]);
    let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
    let written = std::fs::write(rig.path("mnt/new"), "new");
    rig.ok(&["umount", "mnt"]);
    assert!(
        mounted.status.success() && said.contains("data=ordered"),
        "{said}"
    );
    written.unwrap();
    rig.fails(
        2,
        "data=journal",
        &["mount", "-o", "data=journal", "disk.img", "mnt"],
    );
    rig.assert_clean();
}

#[test]
fn fields_as_dumpe2fs_shows_them() {
    let rig = Rig::new(&["-O", "mmp"]);
    rig.ok(&[
        "tune",
        "disk.img",
        "-r",
        "100",
        "-u",
        "54321",
        "-g",
        "54322",
        "-c",
        "20",
        "-C",
        "3",
        "-i",
        "2w",
        "-T",
        "86400",
        "-M",
        "/srv/disk",
        "-o",
        "^acl,journal_data_writeback,discard",
        "-E",
        "stride=16,stripe_width=64,hash_alg=tea,mount_opts=noauto_da_alloc,mmp_update_interval=7",
    ]);
    let expected = [
        ("Reserved block count:", "100"),
        ("Reserved blocks uid:", "54321 (user unknown)"),
        ("Reserved blocks gid:", "54322 (group unknown)"),
        ("Maximum mount count:", "20"),
        ("Mount count:", "3"),
        ("Check interval:", "1209600 (2 weeks)"),
        ("Last checked:", "Fri Jan  2 00:00:00 1970"),
        ("Last mounted on:", "/srv/disk"),
        (
            "Default mount options:",
            "journal_data_writeback user_xattr discard",
        ),
        ("RAID stride:", "16"),
        ("RAID stripe width:", "64"),
        ("Default directory hash:", "tea"),
        ("Mount options:", "noauto_da_alloc"),
        ("MMP update interval:", "7"),
    ];
    for (label, value) in expected {
        assert_eq!(told(&rig, label), value, "{label}");
    }
    rig.assert_clean();
    rig.ok(&["tune", "disk.img", "-c", "-1", "-i", "0", "-o", "^discard"]);
    assert_eq!(told(&rig, "Maximum mount count:"), "-1");
    assert_eq!(
        told(&rig, "Default mount options:"),
        "journal_data_writeback user_xattr"
    );
    rig.fails(1, "half", &["tune", "disk.img", "-r", "60000"]);
    rig.fails(2, "known are", &["tune", "disk.img", "-o", "fast"]);
    rig.fails(2, "known are", &["tune", "disk.img", "-E", "fast=1"]);
    rig.fails(
        1,
        "300",
        &["tune", "disk.img", "-E", "mmp_update_interval=301"],
    );
}

#[test]
fn features_that_change_the_superblock_only() {
    let features = "^dir_index,^large_file,^huge_file,^dir_nlink,^metadata_csum_seed";
    let rig = Rig::new(&["-O", features]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    let on = [
        "dir_index",
        "large_file",
        "huge_file",
        "dir_nlink",
        "metadata_csum_seed",
        "stable_inodes",
        "large_dir",
        "ea_inode",
    ];
    rig.ok(&["tune", "disk.img", "-O", "project"]);
    rig.assert_clean();
    rig.ok(&["ls", "disk.img", "/"]);
    let rig = Rig::new(&["-O", features]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    for feature in on {
        rig.ok(&["tune", "disk.img", "-O", feature]);
        assert!(told(&rig, "Filesystem features:").contains(feature));
        assert_mountable(&rig);
    }
    rig.fails(1, "never changes", &["tune", "disk.img", "-U", "random"]);
    for feature in ["stable_inodes", "metadata_csum_seed"] {
        rig.ok(&["tune", "disk.img", "-O", &format!("^{feature}")]);
        assert!(!told(&rig, "Filesystem features:").contains(feature));
        assert_mountable(&rig);
    }
    rig.ok(&[
        "tune",
        "disk.img",
        "-O",
        "metadata_csum_seed",
        "-U",
        "random",
    ]);
    rig.fails(
        1,
        "every checksum",
        &["tune", "disk.img", "-O", "^metadata_csum_seed"],
    );
    rig.fails(1, "turned off", &["tune", "disk.img", "-O", "^large_dir"]);
    assert_mountable(&rig);
}

#[test]
fn mmp_comes_and_goes() {
    for shape in [&["-O", "^mmp"][..], &["-O", "bigalloc,^resize_inode"]] {
        let rig = Rig::new(shape);
        let free = told(&rig, "Free blocks:");
        rig.ok(&["tune", "disk.img", "-O", "mmp"]);
        assert!(told(&rig, "Filesystem features:").contains("mmp"));
        assert_ne!(told(&rig, "MMP block number:"), "0");
        rig.assert_clean();
        rig.ok(&["mkdir", "disk.img", "/dir"]);
        rig.ok(&["rm", "-r", "disk.img", "/dir"]);
        rig.ok(&["tune", "disk.img", "-O", "^mmp"]);
        assert_eq!(told(&rig, "Free blocks:"), free);
        assert_mountable(&rig);
    }
}

#[test]
fn journals_by_the_words_of_tune2fs() {
    let rig = Rig::new(&["-O", "fast_commit"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.ok(&["tune", "disk.img", "-O", "^has_journal"]);
    let features = told(&rig, "Filesystem features:");
    for gone in ["has_journal", "orphan_file", "fast_commit"] {
        assert!(!features.contains(gone), "{features}");
    }
    assert_mountable(&rig);
    rig.ok(&["tune", "disk.img", "-J", "size=8", "-O", "orphan_file"]);
    assert_eq!(told(&rig, "Total journal size:"), "8M");
    assert!(told(&rig, "Filesystem features:").contains("orphan_file"));
    assert_mountable(&rig);
    rig.fails(1, "at most half", &["tune", "disk.img", "-J", "size=60"]);
    rig.fails(2, "size=MIB", &["tune", "disk.img", "-J", "60"]);
    rig.fails(
        2,
        "contradict",
        &["tune", "disk.img", "-J", "size=8", "-O", "^has_journal"],
    );
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
}

#[test]
fn the_seed_of_hashes_changes_before_the_first_index() {
    let rig = Rig::new(&["-b", "1024"]);
    let seed = "00112233-4455-6677-8899-aabbccddeeff";
    let word = format!("hash_seed={seed}");
    rig.ok(&["tune", "disk.img", "-E", &word]);
    assert_eq!(told(&rig, "Directory Hash Seed:"), seed);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    for at in 0..60 {
        let name = format!("/dir/{at:03} with a name that is not short at all");
        rig.ok(&["mkdir", "disk.img", &name]);
    }
    assert_mountable(&rig);
    let word = "hash_seed=random";
    rig.fails(1, "has an index", &["tune", "disk.img", "-E", word]);
    assert_eq!(told(&rig, "Directory Hash Seed:"), seed);
}

#[test]
fn inodes_get_larger_by_the_word_of_tune2fs() {
    let rig = Rig::new(&["-t", "ext3", "-I", "128"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.ok(&["tune", "disk.img", "-I", "256", "-O", "extra_isize"]);
    assert_eq!(told(&rig, "Inode size:"), "256");
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
    assert_mountable(&rig);
    for (words, reason) in [
        (&["-I", "128"][..], "do not become smaller"),
        (&["-I", "300"], "power of two"),
        (&["-I", "8192"], "to one block"),
    ] {
        rig.fails(1, reason, &[&["tune", "disk.img"], words].concat());
    }
    rig.fails(2, "--inode-size", &["tune", "disk.img", "-I", "large"]);
    // The journal goes behind them.
    rig.ok(&["tune", "disk.img", "-O", "^has_journal", "-I", "512"]);
    assert_eq!(told(&rig, "Inode size:"), "512");
    rig.fails(1, "add a journal", &["tune", "disk.img", "-I", "1024"]);
    assert_mountable(&rig);
}

#[test]
fn descriptors_become_narrow_and_wide_again() {
    let rig = Rig::new(&["-b", "1024"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.ok(&["tune", "disk.img", "-O", "^64bit"]);
    assert!(!told(&rig, "Filesystem features:").contains("64bit"));
    assert_mountable(&rig);
    rig.ok(&["tune", "disk.img", "-O", "64bit,^has_journal"]);
    let features = told(&rig, "Filesystem features:");
    assert!(features.contains("64bit") && !features.contains("has_journal"));
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
    assert_mountable(&rig);
    rig.fails(1, "add a journal", &["tune", "disk.img", "-O", "^64bit"]);
    let ext3 = Rig::new(&["-t", "ext3"]);
    let before = bytes(&ext3.image());
    ext3.fails(1, "feature extent", &["tune", "disk.img", "-O", "64bit"]);
    assert!(bytes(&ext3.image()) == before);
}

#[test]
fn the_small_words_of_tune2fs() {
    let rig = Rig::new(&["-b", "1024"]);
    rig.ok(&["tune", "disk.img", "-m", "0.5", "-E", "test_fs"]);
    assert_eq!(told(&rig, "Reserved block count:"), "327");
    assert!(told(&rig, "Filesystem flags:").contains("test_filesystem"));
    rig.ok(&["tune", "disk.img", "-E", "^test_fs"]);
    assert!(!told(&rig, "Filesystem flags:").contains("test_filesystem"));
    rig.assert_clean();
    rig.ok(&["tune", "disk.img", "-E", "force_fsck"]);
    assert_eq!(told(&rig, "Filesystem state:"), "clean with errors");
    rig.fails(
        4,
        "run `uext4 fsck -f` first",
        &["resize", "disk.img", "+8M"],
    );
    let repaired = Command::new("e2fsck").arg("-fy").arg(rig.image()).output();
    assert!(
        repaired
            .unwrap()
            .status
            .code()
            .is_some_and(|code| code <= 1)
    );
    rig.ok(&["resize", "disk.img", "+8M"]);
    rig.assert_clean();
}

#[test]
fn features_that_close_the_image_are_said() {
    for (feature, word) in [
        ("encrypt", "refuses it"),
        ("casefold", "refuses it"),
        ("verity", "read-only"),
    ] {
        let rig = Rig::new(&[]);
        let output = rig.run(&["tune", "disk.img", "-O", feature]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains(feature) && said.contains(word), "{said}");
        rig.assert_clean();
    }
}

/// The block of the journal's first block, by debugfs.
fn first_of_journal(rig: &Rig) -> u64 {
    let output = Command::new("debugfs")
        .args(["-R", "bmap <8> 0"])
        .arg(rig.image())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?}"))
}

#[test]
fn journals_get_the_place_and_the_area_that_are_asked_for() {
    let rig = Rig::new(&["-b", "1024", "-O", "fast_commit"]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.ok(&["tune", "disk.img", "-J", "size=4,fast_commit_size=700"]);
    assert_eq!(told(&rig, "Fast commit length:"), "700");
    assert_mountable(&rig);
    let in_use = ["tune", "disk.img", "-J", "location=30000"];
    rig.fails(1, "keeps its place", &in_use);
    rig.ok(&["tune", "disk.img", "-O", "^has_journal"]);
    let area = ["tune", "disk.img", "-J", "fast_commit_size=700"];
    rig.fails(1, "needs the feature fast_commit", &area);
    let outside = ["tune", "disk.img", "-J", "location=1T"];
    rig.fails(1, "outside of the file system", &outside);
    rig.ok(&["tune", "disk.img", "-J", "size=4,location=20M"]);
    assert_eq!(first_of_journal(&rig), 20 << 10);
    assert_eq!(told(&rig, "Total journal size:"), "4096k");
    assert_mountable(&rig);
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
    // In the next free blocks, where that one is in use.
    rig.ok(&["tune", "disk.img", "-O", "^has_journal"]);
    rig.ok(&["tune", "disk.img", "-J", "size=4,location=1"]);
    assert!(first_of_journal(&rig) > 1);
    assert_mountable(&rig);
}
