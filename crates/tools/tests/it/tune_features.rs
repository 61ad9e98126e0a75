//! Features and sizes that `uext4 tune` changes, next to what tune2fs makes of the same image.

use crate::rig::Rig;
use std::path::Path;
use std::process::Command;
use uext4::device::{Access, BlockDevice, FileDevice};

const MIB: u64 = 1 << 20;

/// What dumpe2fs says about the fields that these changes concern.
fn told(image: &Path) -> Vec<String> {
    let labels = [
        "Filesystem features:",
        "Block count:",
        "Free blocks:",
        "Free inodes:",
        "Reserved GDT blocks:",
        "Flex block group size:",
        "Inode size:",
        "Journal inode:",
        "Orphan file inode:",
    ];
    let output = Command::new("dumpe2fs").arg("-h").arg(image).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let is_asked = |line: &&str| labels.iter().any(|label| line.starts_with(label));
    text.lines().filter(is_asked).map(str::to_owned).collect()
}

/// An image that mke2fs made, with a directory and a file.
fn made(mke2fs: &[&str]) -> Rig {
    let rig = Rig::empty();
    let image = std::fs::File::create(rig.image()).unwrap();
    image.set_len(64 * MIB).unwrap();
    let (code, said) = run("mke2fs", &[&["-q", "-F"], mke2fs].concat(), &rig.image());
    assert_eq!(code, Some(0), "{said}");
    std::fs::write(rig.path("data"), vec![7; 300_000]).unwrap();
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.ok(&["put", "disk.img", "data", "/dir/data"]);
    rig
}

fn run(program: &str, args: &[&str], image: &Path) -> (Option<i32>, String) {
    let output = Command::new(program)
        .args(args)
        .arg(image)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Both programs do it, and e2fsck does what tune2fs asks for.
fn beside_tune2fs(mke2fs: &[&str], words: &[&str]) {
    let rig = made(mke2fs);
    let theirs = rig.path("theirs.img");
    std::fs::copy(rig.image(), &theirs).unwrap();
    let output = rig.run(&[&["tune", "disk.img"], words].concat());
    assert!(output.status.success(), "{mke2fs:?} {words:?}: {output:?}");
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/dir/data"]).len(), 300_000);
    let (code, said) = run("tune2fs", words, &theirs);
    assert_eq!(code, Some(0), "{mke2fs:?} {words:?}: {said}");
    let (code, said) = run("e2fsck", &["-fy"], &theirs);
    assert!(code.is_some_and(|code| code <= 1), "{said}");
    assert_eq!(told(&rig.image()), told(&theirs), "{mke2fs:?} {words:?}");
}

#[test]
fn features_as_tune2fs_changes_them() {
    let old = &["-t", "ext3"][..];
    let new = &["-t", "ext4"][..];
    let plain = &[
        "-t",
        "ext4",
        "-b",
        "4096",
        "-O",
        "^metadata_csum,^has_journal",
    ][..];
    let sums = &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,uninit_bg"][..];
    let cases: [(&[&str], &str); 11] = [
        (sums, "^uninit_bg"),
        (new, "^resize_inode"),
        (old, "^resize_inode"),
        (plain, "^resize_inode"),
        (old, "flex_bg"),
        (old, "uninit_bg"),
        (new, "^large_file"),
        (new, "^dir_index"),
        (old, "^dir_index"),
        (new, "read-only"),
        (plain, "read-only"),
    ];
    for (mke2fs, word) in cases {
        beside_tune2fs(mke2fs, &["-O", word]);
    }
    let size = ["-O", "orphan_file", "-E", "orphan_file_size=64"];
    beside_tune2fs(&["-t", "ext4", "-O", "^orphan_file"], &size);
}

#[test]
fn features_in_use_stay() {
    let rig = made(&["-t", "ext4", "-b", "1024"]);
    let refused = |word: &str, reason: &str| {
        rig.fails(1, reason, &["tune", "disk.img", "-O", word]);
    };
    refused("^flex_bg", "outside of their groups");
    refused("uninit_bg", "metadata_csum");
    refused("resize_inode,bigalloc", "cannot be turned on");
    for at in 0..60 {
        let name = format!("/dir/{at:03} with a name that is not short at all");
        rig.ok(&["mkdir", "disk.img", &name]);
    }
    refused("^dir_index", "has an index");
    let large = std::fs::File::create(rig.path("large")).unwrap();
    large.set_len(1 << 31).unwrap();
    rig.ok(&["put", "disk.img", "large", "/large"]);
    refused("^large_file", "2 GiB or more");
    rig.fails(
        1,
        "goes with the feature",
        &["tune", "disk.img", "-E", "orphan_file_size=64"],
    );
    rig.assert_clean();
    // Its resize inode says that it has more than 4 GiB.
    let rig = made(&["-t", "ext4", "-b", "4096"]);
    rig.fails(
        1,
        "2 GiB or more",
        &["tune", "disk.img", "-O", "^large_file"],
    );
    rig.assert_clean();
}

#[test]
fn a_read_only_file_system_is_made_writable_again() {
    let rig = made(&["-t", "ext4"]);
    let output = rig.run(&["tune", "disk.img", "-O", "read-only"]);
    assert!(output.status.success(), "{output:?}");
    assert!(!rig.run(&["mkdir", "disk.img", "/new"]).status.success());
    rig.ok(&["tune", "disk.img", "-O", "^read-only", "-L", "label"]);
    rig.ok(&["mkdir", "disk.img", "/new"]);
    rig.assert_clean();
    assert!(!told(&rig.image())[0].contains("read-only"));
}

#[test]
fn the_mmp_block_is_cleared_by_force() {
    let rig = made(&["-t", "ext4", "-b", "1024", "-O", "mmp,^metadata_csum"]);
    let device = FileDevice::open(rig.image(), Access::ReadWrite).unwrap();
    let disk = uext4::read_superblock(&device, None).unwrap();
    // The mark of a checker.
    let sequence = 0xE24D_4D50_u32.to_le_bytes();
    device
        .write_at((disk.mmp_block << 10) + 4, &sequence)
        .unwrap();
    drop(device);
    assert!(!rig.run(&["mkdir", "disk.img", "/new"]).status.success());
    rig.fails(2, "needs -f", &["tune", "disk.img", "-E", "clear_mmp"]);
    rig.fails(2, "goes with", &["tune", "disk.img", "-f", "-L", "label"]);
    rig.ok(&["tune", "disk.img", "-f", "-E", "clear_mmp"]);
    rig.ok(&["mkdir", "disk.img", "/new"]);
    rig.assert_clean();
    let other = made(&["-t", "ext4"]);
    other.fails(1, "no MMP", &["tune", "disk.img", "-f", "-E", "clear_mmp"]);
}

/// Without room in its group a table needs `flex_bg`; the advice helps.
#[test]
fn larger_inodes_of_full_groups_need_flex_bg() {
    let rig = made(&["-t", "ext3", "-b", "1024"]);
    std::fs::write(rig.path("large"), vec![3; 38 << 20]).unwrap();
    rig.ok(&["put", "disk.img", "large", "/large"]);
    let words = ["tune", "disk.img", "-I", "512"];
    rig.fails(1, "tune -O flex_bg", &words);
    rig.ok(&[&words[..], &["-O", "flex_bg"]].concat());
    rig.assert_clean();
    let told = told(&rig.image());
    assert!(told.iter().any(|line| line.ends_with(" 512")), "{told:?}");
    std::fs::write(rig.path("more"), vec![3; 9 << 20]).unwrap();
    rig.run(&["put", "disk.img", "more", "/more"]);
    rig.fails(
        1,
        "grow the file system first",
        &["tune", "disk.img", "-I", "1024"],
    );
}
