//! `uext4 convert`: ext2 and ext3 become ext4, judged by e2fsck, dumpe2fs and the kernel.

use crate::rig::Rig;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{self, KernelMount, Program};

/// Files with block maps of every depth, links and a large directory.
fn fill(root: &Path) {
    std::fs::create_dir_all(root.join("d/many")).unwrap();
    for nr in 0..700 {
        std::fs::write(root.join(format!("d/many/name-{nr}")), nr.to_string()).unwrap();
    }
    std::fs::write(root.join("large"), vec![5; 6 << 20]).unwrap();
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    for at in [0, 1 << 20, 90 << 20, 300 << 20] {
        sparse.write_all_at(b"data", at).unwrap();
    }
    std::fs::hard_link(root.join("large"), root.join("same")).unwrap();
    symlink("large", root.join("short")).unwrap();
    symlink("x".repeat(200), root.join("long")).unwrap();
}

/// Makes an image of 64 MiB.
fn make(rig: &Rig, kind: &[&str]) {
    let file = std::fs::File::create(rig.image()).unwrap();
    file.set_len(64 << 20).unwrap();
    let made = Program::new("mke2fs").unwrap().args(["-q", "-F"]);
    made.args(kind).arg(rig.image()).run_ok().unwrap();
}

fn manifest(image: &Path) -> Manifest {
    let kernel = KernelMount::new(image, "ro").unwrap();
    let seen = Manifest::of_dir(kernel.path()).unwrap();
    kernel.unmount().unwrap();
    seen
}

#[test]
fn old_file_systems_become_ext4_with_the_same_files() {
    if !KernelMount::available_or_skip("old_file_systems_become_ext4_with_the_same_files") {
        return;
    }
    let kinds: [(&[&str], bool); 5] = [
        (&["-t", "ext2"], true),
        (&["-t", "ext3"], true),
        (&["-t", "ext2", "-b", "1024", "-I", "128"], false),
        (&["-t", "ext3", "-I", "128", "-O", "^dir_index"], false),
        (
            &[
                "-t",
                "ext2",
                "-b",
                "1024",
                "-O",
                "none,filetype,sparse_super",
            ],
            true,
        ),
    ];
    for (kind, is_wide) in kinds {
        let rig = Rig::empty();
        make(&rig, kind);
        let kernel = KernelMount::new(&rig.image(), "").unwrap();
        fill(kernel.path());
        kernel.unmount().unwrap();
        rig.assert_clean();
        let before = manifest(&rig.image());
        let said = rig.ok(&["convert", "disk.img"]);
        assert!(said.contains("is ext4 now"), "{said}");
        rig.assert_clean();
        let header = oracle::dumpe2fs(&rig.image()).unwrap();
        let features = header.text("Filesystem features").unwrap();
        let wanted = [
            "has_journal",
            "extent",
            "dir_index",
            "dir_nlink",
            "huge_file",
        ];
        for feature in wanted.into_iter().chain(is_wide.then_some("extra_isize")) {
            assert!(
                features.split(' ').any(|one| one == feature),
                "{kind:?}: {features}"
            );
        }
        before.assert_same(&manifest(&rig.image()), &Policy::everything());
        let kernel = KernelMount::new(&rig.image(), "").unwrap();
        std::fs::write(kernel.path().join("new"), vec![8; 1 << 20]).unwrap();
        let large = std::fs::File::options()
            .write(true)
            .open(kernel.path().join("large"));
        large.unwrap().write_all_at(&[9; 4096], 7 << 20).unwrap();
        std::fs::remove_file(kernel.path().join("d/many/name-3")).unwrap();
        kernel.unmount().unwrap();
        rig.assert_clean();
        assert!(
            rig.debugfs("stat /new").contains("EXTENTS"),
            "new files have extents"
        );
        assert!(
            rig.debugfs("stat /sparse").contains("BLOCKS"),
            "old ones keep their maps"
        );
        assert!(rig.ok(&["convert", "disk.img"]).contains("already"));
        let old = ["large", "sparse", "long", "d", "d/many"];
        let maps = |rig: &Rig| {
            let shown = old.map(|path| rig.debugfs(&format!("stat /{path}")));
            shown.map(|shown| shown.contains("EXTENTS:") && !shown.contains("\nBLOCKS:"))
        };
        assert_eq!(maps(&rig), [false; 5]);
        let before = manifest(&rig.image());
        let made = rig.json(&["convert", "disk.img", "--extents", "--json"]);
        let count = |name: &str| made["extents"][name].as_u64().unwrap();
        assert!(
            count("files") > 700 && count("freed_blocks") > 5,
            "{kind:?}: {made}"
        );
        assert_eq!(count("too_fragmented") + count("without_space"), 0);
        rig.assert_clean();
        let policy = Policy::everything().ignore(Field::AllocatedSectors);
        before.assert_same(&manifest(&rig.image()), &policy);
        assert_eq!(maps(&rig), [true; 5]);
        let said = rig.ok(&["convert", "disk.img", "--extents"]);
        assert!(
            said.contains("already") && said.contains(" 0 files got"),
            "{said}"
        );
    }
}

#[test]
fn what_is_added_and_what_is_refused() {
    let rig = Rig::empty();
    make(&rig, &["-t", "ext2"]);
    let made = rig.json(&["convert", "disk.img", "--json", "--journal-size", "4"]);
    let added = made["added"].as_array().unwrap();
    assert!(added.contains(&"has_journal".into()) && added.contains(&"extent".into()));
    rig.assert_clean();
    let journal = rig.debugfs("stat <8>");
    assert!(journal.contains("Size: 4194304"), "{journal}");
    rig.fails(
        2,
        "-J` replaces",
        &["convert", "disk.img", "--journal-size", "8"],
    );
    std::fs::write(rig.path("none"), vec![0; 1 << 20]).unwrap();
    rig.fails(3, "magic", &["convert", "none"]);
}
