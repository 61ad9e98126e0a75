//! `mkfs` and `info` against e2fsck and dumpe2fs.

use crate::rig::{Rig, bytes};
use uext4_testkit::oracle;

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

#[test]
fn every_kind_is_clean_and_has_what_was_asked_for() {
    let kinds: [&[&str]; 8] = [
        &[],
        &["--type", "ext2"],
        &["--type", "ext3"],
        &["-b", "4K", "-I", "512"],
        &["-O", "bigalloc,^resize_inode", "-C", "64K", "-b", "4K"],
        &["-O", "inline_data,ea_inode,^orphan_file"],
        &["-N", "2000", "-m", "1", "-J", "size=8"],
        &[
            "-E",
            "stride=4,stripe_width=8,root_owner=7:8,lazy_itable_init=0",
            "-i",
            "8192",
        ],
    ];
    for kind in kinds {
        let rig = Rig::new(kind);
        rig.assert_clean();
        rig.ok(&["mkdir", "-p", "disk.img", "/a/b"]);
        rig.assert_clean();
    }
}

#[test]
fn info_agrees_with_dumpe2fs() {
    let rig = Rig::new(&["-L", "data", "-U", UUID, "-b", "2K"]);
    let info = rig.json(&["info", "--json", "--groups", "disk.img"]);
    let header = oracle::dumpe2fs(&rig.image()).expect("dumpe2fs answers");
    assert_eq!(header.text("Filesystem volume name").unwrap(), "data");
    assert_eq!(info["label"], "data");
    assert_eq!(info["uuid"], UUID);
    assert_eq!(header.text("Filesystem UUID").unwrap(), UUID);
    let numbers = [
        ("blocks", "Block count"),
        ("blocks_free", "Free blocks"),
        ("blocks_reserved", "Reserved block count"),
        ("inodes", "Inode count"),
        ("inodes_free", "Free inodes"),
        ("block_size", "Block size"),
        ("inode_size", "Inode size"),
    ];
    for (ours, theirs) in numbers {
        assert_eq!(info[ours], header.number(theirs).unwrap(), "{ours}");
    }
    let features = info["features"].as_array().expect("a list");
    assert!(
        features
            .iter()
            .all(|name| header.has_feature(name.as_str().expect("a name")))
    );
    let list = info["group_list"].as_array().expect("a list");
    let free: u64 = list
        .iter()
        .filter_map(|group| group["clusters_free"].as_u64())
        .sum();
    assert_eq!(info["blocks_free"], free);
    assert!(rig.ok(&["info", "disk.img"]).contains("clean"));
}

#[test]
fn the_same_words_make_the_same_bytes() {
    let words = ["-U", UUID, "--hash-seed", UUID, "--time", "1000000000"];
    let (one, two) = (Rig::new(&words), Rig::new(&words));
    assert!(bytes(&one.image()) == bytes(&two.image()));
}

#[test]
fn what_is_there_is_kept() {
    let rig = Rig::new(&[]);
    let before = bytes(&rig.image());
    rig.fails(1, "--force", &["mkfs", "disk.img"]);
    assert!(bytes(&rig.image()) == before);
    rig.ok(&["mkfs", "-q", "--force", "disk.img", "-L", "new"]);
    assert_eq!(rig.json(&["info", "--json", "disk.img"])["label"], "new");
    rig.fails(2, "--size", &["mkfs", "new.img"]);
    assert!(!rig.path("new.img").exists());
}

#[test]
fn a_file_system_in_a_part_of_a_disk() {
    let rig = Rig::empty();
    let disk = std::fs::File::create(rig.image()).unwrap();
    disk.set_len(80 << 20).unwrap();
    rig.ok(&["mkfs", "-q", "disk.img", "--offset", "1M", "--size", "64M"]);
    std::fs::write(rig.path("file"), "in a part").unwrap();
    rig.ok(&["put", "disk.img", "--offset", "1M", "file", "/file"]);
    assert_eq!(
        rig.ok(&["cat", "disk.img", "--offset", "1M", "/file"]),
        "in a part"
    );
    let all = bytes(&rig.image());
    assert!(
        all[..1 << 20].iter().all(|byte| *byte == 0),
        "nothing before the part"
    );
    std::fs::write(rig.path("part.img"), &all[1 << 20..65 << 20]).unwrap();
    oracle::assert_clean(&rig.path("part.img"));
    rig.fails(3, "partition", &["ls", "disk.img", "--partition", "1"]);
}

#[test]
fn what_linux_alone_can_mount_is_said_and_what_cannot_be_made_leaves_no_file() {
    let rig = Rig::new(&[]);
    let made = |feature: &str| {
        let args = ["mkfs", "-F", "new.img", "--size", "16M", "-O", feature];
        String::from_utf8(rig.run(&args).stderr).unwrap()
    };
    assert!(made("encrypt").contains("encrypt: Linux can use it, uext4 cannot mount it"));
    assert!(made("verity").contains("verity: Linux can use it, uext4 can only read it"));
    let only = "a feature of this image allows only reading, `uext4 info` names it";
    rig.fails(1, only, &["mkdir", "new.img", "/dir"]);
    assert!(rig.ok(&["info", "new.img"]).contains("read-only by verity"));
    assert_eq!(made("ea_inode"), "");
    std::fs::remove_file(rig.path("new.img")).unwrap();
    assert!(made("compression").contains("compression"));
    assert!(!rig.path("new.img").exists());
    rig.fails(1, "too small", &["mkfs", "new.img", "--size", "1K"]);
    assert!(!rig.path("new.img").exists());
}

#[test]
fn sizes_are_those_of_mke2fs() {
    for (args, blocks) in [
        (["64M", "-b4096"], 16384),
        (["16384", "-b4096"], 16384),
        (["65536", "-b1024"], 65536),
        (["131072s", "-b1024"], 65536),
    ] {
        let rig = Rig::empty();
        rig.ok(&[["mkfs", "-q", "disk.img"].as_slice(), &args].concat());
        let info = rig.json(&["info", "--json", "disk.img"]);
        assert_eq!(info["blocks"], blocks, "{args:?}");
        let mut mke2fs = std::process::Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", args[1]]);
        mke2fs.arg(rig.path("other.img")).arg(args[0]);
        assert!(mke2fs.output().expect("mke2fs").status.success());
        let theirs = oracle::dumpe2fs(&rig.path("other.img")).expect("dumpe2fs answers");
        assert_eq!(theirs.number("Block count").unwrap(), blocks, "{args:?}");
        rig.assert_clean();
    }
    let rig = Rig::empty();
    rig.fails(2, "--size", &["mkfs", "disk.img", "64M", "--size", "64M"]);
    rig.fails(2, "2Q", &["mkfs", "disk.img", "2Q"]);
}

/// Groups of 8 MiB, each in a flexible group of its own: only packed tables are all in the first.
#[test]
fn packed_meta_blocks_are_at_the_start() {
    let table_max = |extended: &str| {
        let shape = ["-b", "1K", "-G", "1", "-E", extended];
        let rig = Rig::empty();
        rig.ok(&[&["mkfs", "-q", "disk.img", "64M"][..], &shape[..]].concat());
        rig.assert_clean();
        let mut dumpe2fs = std::process::Command::new("dumpe2fs");
        let told = dumpe2fs.arg(rig.image()).output().expect("dumpe2fs");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let ends = told.match_indices("Inode table at ").map(|(at, key)| {
            let place = told[at + key.len()..].split(' ').next().unwrap();
            place.split('-').next().unwrap().parse::<u64>().unwrap()
        });
        ends.max().expect("groups")
    };
    let [packed, spread] = ["packed_meta_blocks=1", "packed_meta_blocks=0"].map(table_max);
    assert!(packed < 8192 && spread > 50_000, "{packed} {spread}");
    let rig = Rig::empty();
    let bad = ["mkfs", "disk.img", "64M", "-E", "packed_meta_blocks=2"];
    rig.fails(2, "packed_meta_blocks", &bad);
}

#[test]
fn a_dry_run_writes_nothing_and_tells_what_would_be() {
    let rig = Rig::empty();
    let dry = rig.json(&["mkfs", "-n", "--json", "disk.img", "256M", "-b", "1K"]);
    assert!(!rig.path("disk.img").exists());
    let made = rig.json(&["mkfs", "--json", "disk.img", "256M", "-b", "1K"]);
    rig.assert_clean();
    for name in [
        "blocks",
        "inodes",
        "features",
        "journal_blocks",
        "backup_superblocks",
    ] {
        assert_eq!(dry[name], made[name], "{name}");
    }
    assert_eq!(
        (&dry["dry_run"], &made["dry_run"]),
        (&true.into(), &false.into())
    );
    let backups = made["backup_superblocks"].as_array().expect("a list");
    let first = backups[0].as_u64().expect("a number");
    assert_eq!(
        bytes(&rig.image())[first as usize * 1024 + 56..][..2],
        [0x53, 0xEF]
    );
    // A dry run on an existing file system lists its backup superblocks.
    let before = bytes(&rig.image());
    let output = rig.run(&["mkfs", "-n", "-b", "1K", "disk.img"]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("holds an ext2"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains(&first.to_string()) && said.contains("nothing was written"),
        "{said}"
    );
    assert!(bytes(&rig.image()) == before);
}

#[test]
fn features_that_are_built_on_others_go_with_them() {
    for (list, gone) in [("^has_journal", "orphan_file"), ("^extent", "64bit")] {
        let rig = Rig::new(&["-O", list]);
        let header = oracle::dumpe2fs(&rig.image()).expect("dumpe2fs answers");
        assert!(
            !header.has_feature(&list[1..]) && !header.has_feature(gone),
            "{list}"
        );
        rig.assert_clean();
        rig.ok(&["mkdir", "disk.img", "/dir"]);
        rig.assert_clean();
    }
    let rig = Rig::empty();
    let asked = ["mkfs", "disk.img", "64M", "-O", "^has_journal,orphan_file"];
    rig.fails(2, "orphan_file needs the feature has_journal", &asked);
}

#[test]
fn the_root_directory_belongs_to_its_maker() {
    let rig = Rig::new(&["-E", "root_owner"]);
    let owner = rustix::process::geteuid().as_raw();
    assert_eq!(rig.json(&["stat", "--json", "disk.img", "/"])["uid"], owner);
    if owner != 0 {
        return;
    }
    let made = crate::walks::as_user(&rig, "022", &["mkfs", "user.img", "16M"]);
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(
        made.status.success() && said.contains("root directory of 1234:1234"),
        "{said}"
    );
    let root = rig.json(&["stat", "--json", "home/user.img", "/"]);
    assert_eq!((&root["uid"], &root["gid"]), (&1234.into(), &1234.into()));
    let of_root = ["mkfs", "-q", "root.img", "16M", "-E", "root_owner=0:0"];
    assert!(
        crate::walks::as_user(&rig, "022", &of_root)
            .status
            .success()
    );
    assert_eq!(
        rig.json(&["stat", "--json", "home/root.img", "/"])["uid"],
        0
    );
    oracle::assert_clean(&rig.path("home/user.img"));
}

/// The same options of mke2fs, judged by dumpe2fs.
#[test]
fn extended_options_are_those_of_mke2fs() {
    for (options, labels) in [
        ("resize=1048576", &["Reserved GDT blocks"][..]),
        (
            "hash_seed=01234567-89ab-cdef-0123-456789abcdef",
            &["Directory Hash Seed"],
        ),
        ("orphan_file_size=48", &["Orphan file inode", "Free blocks"]),
        ("lazy_itable_init=1,nodiscard", &["Free blocks"]),
        ("lazy_itable_init=0,discard", &["Free blocks"]),
        (
            "stride=16,stripe-width=32",
            &["RAID stride", "RAID stripe width"],
        ),
    ] {
        let rig = Rig::new(&["-b", "1K", "-O", "orphan_file", "-E", options]);
        rig.assert_clean();
        let other = rig.path("other.img");
        let shape = ["-b", "1024", "-O", "orphan_file", "-E", options];
        oracle::mke2fs(&other, 64 << 20, &shape).expect("mke2fs runs");
        let [ours, theirs] = [rig.image(), other].map(|image| {
            let header = oracle::dumpe2fs(&image).expect("dumpe2fs answers");
            let text = |label: &&str| header.text(label).map(str::to_owned).expect("a line");
            labels.iter().map(text).collect::<Vec<_>>()
        });
        assert_eq!(ours, theirs, "{options}");
    }
}

#[test]
fn what_is_made_is_told_and_what_was_left_out() {
    for (args, word) in [
        (&["64M", "-O", "^has_journal"][..], "inodes, no journal"),
        (&["1M"], "made without has_journal"),
        (
            &["64M", "-E", "root_owner=7:8"],
            "root directory of 7:8; -E root_owner=0:0",
        ),
    ] {
        let rig = Rig::empty();
        let output = rig.run(&[&["mkfs", "disk.img"], args].concat());
        assert!(output.status.success(), "{output:?}");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).expect("text");
        assert!(said.contains(word), "{args:?}: {said}");
        rig.assert_clean();
    }
}

/// Nothing is written, or a file made, where the size or the place is not known.
#[test]
fn targets_without_a_size_or_place_are_refused() {
    let rig = Rig::empty();
    std::fs::write(rig.path("empty.img"), "").unwrap();
    std::fs::write(rig.path("short.img"), "only a few bytes").unwrap();
    for (status, word, args) in [
        (2, "how large?", "none.img"),
        (2, "how large?", "empty.img"),
        (1, "no such file", "none.img 9M --offset 1M"),
        (1, "too small", "short.img"),
        (2, "between 0 and 50", "none.img 9M -m 50.5"),
        (2, "between 0 and 50", "none.img 9M -m=-1"),
        (2, "not a number that fits", "none.img 9M -E stride=65536"),
        (2, "an owner is UID:GID", "none.img 9M -E root_owner=7"),
        (2, "too large", "none.img 18446744073709551615 -b 4K"),
    ] {
        for dry in [&[][..], &["-n"]] {
            let args: Vec<&str> = args.split(' ').collect();
            rig.fails(status, word, &[&["mkfs"], dry, &args].concat());
            assert!(!rig.path("none.img").exists(), "{args:?}");
            assert_eq!(bytes(&rig.path("empty.img")), b"");
            assert_eq!(bytes(&rig.path("short.img")), b"only a few bytes");
        }
    }
}

/// A file system in a part of a disk has the size that mke2fs gives it, and a dry run tells it.
#[test]
fn sizes_in_a_part_are_those_of_mke2fs() {
    for (size, offset) in [
        ("64M", 1 << 20),
        ("513M", 1 << 20),
        ("600000", 512 << 10),
        ("2M", 88 << 20),
        ("", 88 << 20),
    ] {
        let rig = Rig::empty();
        let offset = format!("{offset}");
        for name in ["disk.img", "other.img"] {
            let disk = std::fs::File::create(rig.path(name)).unwrap();
            disk.set_len(700 << 20).unwrap();
        }
        let args = ["--json", "disk.img", "--offset", &offset, size];
        let args: Vec<&str> = args.into_iter().filter(|arg| !arg.is_empty()).collect();
        let would = rig.json(&[&["mkfs", "-n"], &args[..]].concat());
        let disk = std::fs::metadata(rig.image()).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::blocks(&disk), 0, "{size}");
        let made = rig.json(&[&["mkfs"], &args[..]].concat());
        let mut mke2fs = std::process::Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-E", &format!("offset={offset}")]);
        mke2fs.arg(rig.path("other.img"));
        mke2fs.args(Some(size).filter(|size| !size.is_empty()));
        assert!(mke2fs.output().expect("mke2fs").status.success());
        let theirs = rig.json(&["info", "--json", "other.img", "--offset", &offset]);
        for name in ["blocks", "block_size", "inodes"] {
            assert_eq!(would[name], theirs[name], "{size} at {offset}: {name}");
            assert_eq!(made[name], theirs[name], "{size} at {offset}: {name}");
        }
    }
}
