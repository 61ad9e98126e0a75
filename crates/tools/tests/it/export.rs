//! `export`: GNU tar, bsdtar, skopeo and umoci read what it writes.

use crate::rig::{Rig, bytes};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, lchown, symlink};
use std::path::{Path, PathBuf};
use uext4_testkit::manifest::{Difference, Field, HostDir, Manifest, Policy};
use uext4_testkit::oracle::{self, KernelMount, Program};
use uext4_testkit::tree::{Shape, TreeSpec};

/// What an archive keeps; `put` does not set the attributes of the root.
fn policy() -> Policy {
    Policy::archived().ignore(Field::Root)
}

fn manifest(dir: &Path) -> Manifest {
    Manifest::of(&HostDir::new(dir)).expect("the tree is walked")
}

/// Unpacks as root with everything an archive has.
fn unpack(program: &'static str, archive: &Path, dir: &Path) {
    fs::create_dir(dir).unwrap();
    let mut tar = Program::new(program).expect("it is installed");
    tar = tar.args(["-xp", "--numeric-owner", "--acls", "--xattrs"]);
    tar = match program {
        "tar" => tar.arg("--xattrs-include=*"),
        // It takes paths in UTF-8 in such a locale only.
        _ => tar.env("LC_ALL", "C.UTF-8"),
    };
    let tar = tar.arg("-f").arg(archive).arg("-C").arg(dir);
    tar.run_ok().expect("it unpacks");
}

/// libarchive adds the fraction of a time before 1970 instead of subtracting it, and takes ids of
/// lists up to 2^31 only; trees of tests have no such ids.
fn as_bsdtar_reads(mut expected: Manifest, found: &Manifest) -> Manifest {
    for (path, entry) in &mut expected.entries {
        if entry.mtime.seconds < 0
            && let Some(found) = found.entries.get(path)
        {
            entry.mtime = found.mtime;
        }
    }
    expected
}

/// Exports the image and unpacks it with both programs.
fn assert_comes_back(rig: &Rig, expected: &Manifest) {
    let quiet = rig.run(&["export", "disk.img", "-o", "out.tar"]);
    assert!(quiet.status.success(), "{quiet:?}");
    for program in ["tar", "bsdtar"] {
        unpack(program, &rig.path("out.tar"), &rig.path(program));
        let found = manifest(&rig.path(program));
        let expected = match program {
            "tar" => expected.clone(),
            _ => as_bsdtar_reads(expected.clone(), &found),
        };
        expected.assert_same(&found, &policy());
    }
}

/// The names in an archive, as GNU tar lists them.
fn names(archive: &Path) -> String {
    let tar = Program::new("tar").unwrap().arg("-tf").arg(archive);
    tar.run_ok().expect("tar lists it").stdout
}

fn with_tree(name: &str, make: impl FnOnce(&Path)) -> Option<(Rig, Manifest)> {
    if !KernelMount::available_or_skip(name) || !is_installed("bsdtar") {
        return None;
    }
    let rig = Rig::empty();
    rig.ok(&["mkfs", "disk.img", "256M", "-q", "-b", "4K"]);
    fs::create_dir(rig.path("tree")).unwrap();
    make(&rig.path("tree"));
    rig.ok(&["put", "-r", "disk.img", "tree/.", "/"]);
    let expected = manifest(&rig.path("tree"));
    Some((rig, expected))
}

fn is_installed(program: &str) -> bool {
    let is_there = oracle::is_installed(program);
    if !is_there {
        eprintln!("skipped: {program} is not installed");
    }
    is_there
}

#[test]
fn trees_come_back_through_gnu_tar_and_bsdtar() {
    let made = with_tree("trees_come_back_through_gnu_tar_and_bsdtar", |tree| {
        let shape = Shape {
            data_max_bytes: 16 << 20,
            ..Shape::new(500)
        };
        let spec = TreeSpec::generate(11, &shape);
        spec.apply(tree).expect("the tree is made");
    });
    let Some((rig, expected)) = made else { return };
    let before = bytes(&rig.image());
    assert_comes_back(&rig, &expected);
    rig.run(&["export", "disk.img", "/", "-o", "again.tar"]);
    let archive = bytes(&rig.path("out.tar"));
    assert!(bytes(&rig.path("again.tar")) == archive);
    assert!(bytes(&rig.image()) == before, "export does not write");
    assert_canary(&rig, archive, &expected);
}

/// An archive with another attribute is not the tree.
fn assert_canary(rig: &Rig, mut archive: Vec<u8>, expected: &Manifest) {
    let key = b"SCHILY.xattr.user.kit.0=";
    let at = archive.windows(key.len()).position(|text| text == key);
    archive[at.expect("the tree has attributes") + key.len() - 2] = b'9';
    fs::write(rig.path("canary.tar"), archive).unwrap();
    unpack("tar", &rig.path("canary.tar"), &rig.path("canary"));
    let found: Vec<Difference> = expected.diff(&manifest(&rig.path("canary")), &policy());
    assert!(!found.is_empty());
}

fn odd(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(name))
}

/// A file with 2 bytes of data in 1 MiB.
fn sparse(path: &Path, size: u64) {
    let file = File::create_new(path).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(b"zz", size / 2).unwrap();
}

fn odd_tree(tree: &Path) {
    let long = [b"long\xff".as_slice(), &[b'l'; 200]].concat();
    for name in [
        b"bad\xff\xfe".as_slice(),
        &[b'n'; 200],
        "\u{fc}".as_bytes(),
        &long,
    ] {
        fs::write(odd(tree, name), name).unwrap();
    }
    fs::hard_link(odd(tree, &long), tree.join("zz-link")).unwrap();
    let deep = tree.join("p".repeat(90)).join("q".repeat(90));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), "deep").unwrap();
    symlink(OsStr::from_bytes(&[0xff; 150]), tree.join("link-bytes")).unwrap();
    symlink("t".repeat(150), tree.join("link-text")).unwrap();
    sparse(&tree.join("sparse"), 1 << 20);
    sparse(&tree.join("s".repeat(200)), 1 << 20);
    sparse(&odd(tree, b"sparse\xff"), 1 << 20);
    File::create_new(tree.join("hole"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    lchown(tree.join("hole"), Some(4_000_000_000), Some(3_000_000)).unwrap();
    let value = b"\0\n=";
    setxattr(tree.join("sparse"), "user.odd", value, XattrFlags::empty()).unwrap();
    for (name, kind, device) in [
        ("char", FileType::CharacterDevice, makedev(5, 300)),
        ("block", FileType::BlockDevice, makedev(259, 70_000)),
        ("pipe", FileType::Fifo, 0),
    ] {
        mknodat(CWD, tree.join(name), kind, Mode::RUSR, device).unwrap();
    }
}

#[test]
fn odd_names_sizes_and_owners_come_back() {
    if let Some((rig, expected)) = with_tree("odd_names_sizes_and_owners_come_back", odd_tree) {
        assert_comes_back(&rig, &expected);
        let size = fs::metadata(rig.path("out.tar")).unwrap().len();
        assert!(size < 256 << 10, "holes are not stored: {size} bytes");
    }
}

#[test]
fn a_size_over_8_gib_comes_back() {
    if !is_installed("bsdtar") {
        return;
    }
    let rig = Rig::new(&[]);
    sparse(&rig.path("large"), 20 << 30);
    rig.ok(&["put", "disk.img", "large", "/large"]);
    rig.ok(&["export", "disk.img", "-o", "out.tar"]);
    for program in ["tar", "bsdtar"] {
        unpack(program, &rig.path("out.tar"), &rig.path(program));
        let found = File::open(rig.path(program).join("large")).unwrap();
        let mut data = [0; 4];
        found.read_exact_at(&mut data, (10 << 30) - 1).unwrap();
        assert_eq!(
            (found.metadata().unwrap().len(), &data),
            (20 << 30, b"\0zz\0")
        );
    }
}

/// GNU tar reads the form in which it escapes `=`.
#[test]
fn attributes_with_an_equals_sign_come_back_through_gnu_tar() {
    let made = with_tree("attributes_with_an_equals_sign", |tree| {
        let file = tree.join("file");
        fs::write(&file, "x").unwrap();
        for name in ["user.a=b%c", "user.%3D"] {
            setxattr(&file, name, b"value", XattrFlags::empty()).unwrap();
        }
    });
    let Some((rig, expected)) = made else { return };
    rig.ok(&["export", "disk.img", "-o", "out.tar"]);
    unpack("tar", &rig.path("out.tar"), &rig.path("out"));
    expected.assert_same(&manifest(&rig.path("out")), &policy());
}

#[test]
fn sockets_are_told_and_left_out() {
    let rig = Rig::new(&[]);
    let tree = rig.path("tree");
    fs::create_dir(&tree).unwrap();
    let socket = tree.join("a\u{1b}[2J");
    mknodat(CWD, socket, FileType::Socket, Mode::RUSR, 0).unwrap();
    rig.ok(&["put", "-r", "disk.img", "tree", "/"]);
    let output = rig.run(&["export", "disk.img", "/tree", "-o", "out.tar", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("disk.img:/tree/a\\x1b[2J: a socket"),
        "{said:?}"
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["files"], &report["sockets"]),
        (&1.into(), &1.into())
    );
    let sum = Program::new("sha256sum").unwrap().arg(rig.path("out.tar"));
    let sum = sum.run_ok().unwrap().stdout;
    let digest = report["digest"].as_str().unwrap().replace("sha256:", "");
    assert!(sum.starts_with(&digest), "{sum} {digest}");
}

#[test]
fn files_are_complete_or_not_there() {
    let rig = Rig::new(&[]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig.fed(b"content", &["put", "disk.img", "-", "/dir/file"]);
    rig.ok(&["export", "disk.img", "/dir", "-o", "out.tar"]);
    let archive = bytes(&rig.path("out.tar"));
    rig.fails(1, "--force", &["export", "disk.img", "-o", "out.tar"]);
    rig.ok(&[
        "export",
        "disk.img",
        "/dir/file",
        "-o",
        "out.tar",
        "--force",
    ]);
    assert_eq!(names(&rig.path("out.tar")), "file\n");
    let piped = rig.run(&["export", "disk.img", "/dir"]);
    assert!(piped.status.success() && piped.stdout == archive);
    rig.ok(&["export", "disk.img", "-o", "/dev/null"]);
    rig.fails(
        1,
        "no such file",
        &["export", "disk.img", "/no", "-o", "no.tar"],
    );
    rig.fails(1, "no/out.tar", &["export", "disk.img", "-o", "no/out.tar"]);
    rig.fails(2, "--json", &["export", "disk.img", "--json"]);
    rig.fails(2, "-o", &["export", "disk.img", "--format", "oci"]);
    rig.fails(
        2,
        "oci",
        &["export", "disk.img", "--tag", "x", "-o", "no.tar"],
    );
    rig.fails(
        1,
        "empty",
        &["export", "disk.img", "--format", "oci", "-o", "."],
    );
    let names = fs::read_dir(rig.path(".")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// A file without a readable map is told and left out; with `--strict` nothing is made.
#[test]
fn damaged_files_are_told_and_the_rest_is_kept() {
    let rig = Rig::empty();
    oracle::mke2fs(&rig.image(), 16 << 20, &["-b", "1024"]).expect("mke2fs");
    for name in ["/a", "/b", "/c"] {
        rig.fed(name.as_bytes(), &["put", "disk.img", "-", name]);
    }
    rig.debugfs("stat /b");
    oracle::debugfs(
        &rig.image(),
        oracle::Access::Write,
        &["sif /b block[0] 0x1234".to_owned()],
    )
    .expect("debugfs");
    rig.fails(4, "/b", &["export", "disk.img", "-o", "no.tar", "--strict"]);
    assert!(!rig.path("no.tar").exists());
    let output = rig.run(&["export", "disk.img", "-o", "out.tar"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("disk.img:/b: ") && said.contains("1 files failed"),
        "{said}"
    );
    assert_eq!(names(&rig.path("out.tar")), "./\na\nc\n");
}

#[test]
fn container_tools_take_oci_images() {
    if !is_installed("skopeo") || !is_installed("umoci") {
        return;
    }
    let rig = Rig::new(&[]);
    rig.ok(&["mkdir", "disk.img", "/etc"]);
    rig.fed(b"content", &["put", "disk.img", "-", "/etc/file"]);
    for compress in ["none", "gzip", "zstd"] {
        let [one, two] = ["1", "2"].map(|number| format!("{compress}-{number}"));
        for out in [&one, &two] {
            let options = [
                "--compress",
                compress,
                "--platform",
                "linux/arm/v7",
                "--tag",
                "v1",
            ];
            let start = ["export", "disk.img", "--format", "oci", "-o", out];
            let epoch = [("SOURCE_DATE_EPOCH", "86400")];
            let output = rig.run_with(&epoch, &[&start[..], &options].concat());
            assert!(output.status.success(), "{output:?}");
        }
        let index = |out: &str| bytes(&rig.path(out).join("index.json"));
        assert!(index(&one) == index(&two), "{compress}");
        assert_taken(&rig.path(&one), compress);
    }
}

/// skopeo and umoci take a layout.
fn assert_taken(layout: &Path, compress: &str) {
    let skopeo = |args: &[&str]| {
        let arm = ["--override-arch", "arm", "--override-variant", "v7"];
        let program = Program::new("skopeo").unwrap().args(arm).args(args);
        program.run_ok().expect("skopeo takes it").stdout
    };
    let place = format!("oci:{}:v1", layout.display());
    let told: serde_json::Value = serde_json::from_str(&skopeo(&["inspect", &place])).unwrap();
    assert_eq!(told["Created"], "1970-01-02T00:00:00Z");
    let platform = (&told["Architecture"], &told["Os"]);
    assert_eq!(platform, (&"arm".into(), &"linux".into()));
    let copy = layout.with_extension("copy");
    if compress == "zstd" {
        // Docker's format has no zstd, and umoci 0.4 reads none.
        skopeo(&["copy", &place, &format!("oci:{}:v1", copy.display())]);
        return;
    }
    skopeo(&[
        "copy",
        &place,
        &format!("docker-archive:{}:a:b", copy.display()),
    ]);
    let bundle = layout.with_extension("bundle");
    let umoci = Program::new("umoci")
        .unwrap()
        .args(["unpack", "--rootless", "--image"]);
    let umoci = umoci.arg(format!("{}:v1", layout.display())).arg(&bundle);
    umoci.run_ok().expect("umoci takes it");
    assert_eq!(bytes(&bundle.join("rootfs/etc/file")), b"content");
}
