//! Trees packed by GNU tar and bsdtar in all their formats, compared with the trees themselves.

use std::path::Path;
use uext4_archive::{Options, Source};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::Program;
use uext4_testkit::tree::{Shape, TreeSpec};

use crate::recorder::Recorder;
use uext4_testkit::skip;

const EXTRAS: [&str; 4] = ["--xattrs", "--xattrs-include=*", "--acls", "--sparse"];

fn tree(seed: u64, entries: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut shape = Shape::new(entries);
    shape.data_max_bytes = 4 << 20;
    TreeSpec::generate(seed, &shape).apply(dir.path()).unwrap();
    dir
}

fn pack(program: &'static str, arguments: &[&str], dir: &Path, archive: &Path) -> bool {
    let Ok(program) = Program::new(program) else {
        assert_ne!(program, "tar", "GNU tar is needed");
        return false;
    };
    let program = program.args(arguments).arg("-c").arg("-f").arg(archive);
    program.arg("-C").arg(dir).arg(".").run_ok().unwrap();
    true
}

/// The manifest of a directory as an archive without fractions of seconds has it.
fn whole_seconds(mut manifest: Manifest) -> Manifest {
    for entry in manifest.entries.values_mut() {
        entry.mtime.nanos = 0;
    }
    manifest
}

/// bsdtar writes the seconds and the fraction of a negative time one behind the other, as if the
/// fraction counted downwards; POSIX and GNU tar read such a number as it stands.
/// In the old formats it has 33 bits of seconds.
fn as_bsdtar_writes(mut manifest: Manifest, keeps: Keeps) -> Manifest {
    for entry in manifest.entries.values_mut() {
        if keeps == Keeps::Basics {
            entry.mtime.seconds = entry.mtime.seconds.clamp(0, (1 << 33) - 1);
        }
        if entry.mtime.seconds < 0 && entry.mtime.nanos > 0 {
            entry.mtime.seconds -= 1;
            entry.mtime.nanos = 1_000_000_000 - entry.mtime.nanos;
        }
    }
    manifest
}

fn compare(program: &'static str, arguments: &[&str], keeps: Keeps) {
    let seed = 35;
    let dir = tree(seed, 150);
    let archive = dir.path().with_extension("tar");
    if !pack(program, arguments, dir.path(), &archive) {
        return;
    }
    let mut expected = Manifest::of_dir(dir.path()).unwrap();
    let mut policy = Policy::archived();
    if keeps == Keeps::Basics {
        policy = policy.ignore(Field::Xattrs);
        expected = whole_seconds(expected);
    }
    if program == "bsdtar" {
        expected = as_bsdtar_writes(expected, keeps);
    }
    let options = Options::default();
    let file = std::fs::File::open(&archive).unwrap();
    for source in [
        Source::open(&archive).unwrap(),
        Source::stream("pipe", file),
    ] {
        let recorder = Recorder::of(source, &options).unwrap();
        expected.assert_same(&recorder.manifest(), &policy);
    }
    std::fs::remove_file(archive).unwrap();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Everything,
    Basics,
}

#[test]
fn gnu_tar_posix_with_each_sparse_version() {
    if !skip::root_or_skip("gnu_tar_posix_with_each_sparse_version") {
        return;
    }
    for version in ["0.0", "0.1", "1.0"] {
        let version = format!("--sparse-version={version}");
        let mut arguments = vec!["--format=posix", "--numeric-owner", &version];
        arguments.extend(EXTRAS);
        compare("tar", &arguments, Keeps::Everything);
    }
}

#[test]
fn gnu_tar_in_its_own_format() {
    if !skip::root_or_skip("gnu_tar_in_its_own_format") {
        return;
    }
    compare("tar", &["--format=gnu", "--sparse"], Keeps::Basics);
    compare("tar", &["--format=gnu"], Keeps::Basics);
}

#[test]
fn bsdtar() {
    if !skip::root_or_skip("bsdtar") {
        return;
    }
    compare(
        "bsdtar",
        &["--format=pax", "--xattrs", "--acls"],
        Keeps::Everything,
    );
    compare(
        "bsdtar",
        &["--format=gnutar", "--no-xattrs", "--no-acls"],
        Keeps::Basics,
    );
}

#[test]
fn each_compression_by_its_bytes() {
    if !skip::root_or_skip("each_compression_by_its_bytes") {
        return;
    }
    let dir = tree(36, 60);
    let expected = Manifest::of_dir(dir.path()).unwrap();
    let plain = [
        "--format=posix",
        "--xattrs",
        "--xattrs-include=*",
        "--acls",
        "--numeric-owner",
    ];
    for compression in ["--gzip", "--zstd", "--xz"] {
        // A name that says something else.
        let archive = dir.path().with_extension("tar.bz2");
        let mut arguments = plain.to_vec();
        arguments.push(compression);
        pack("tar", &arguments, dir.path(), &archive);
        let source = Source::open(&archive).unwrap();
        let recorder = Recorder::of(source, &Options::default()).unwrap();
        expected.assert_same(&recorder.manifest(), &Policy::archived());
        std::fs::remove_file(archive).unwrap();
    }
}

/// The judge of the judges: a changed file is noticed.
#[test]
fn a_changed_tree_differs() {
    if !skip::root_or_skip("a_changed_tree_differs") {
        return;
    }
    let dir = tree(37, 20);
    let archive = dir.path().with_extension("tar");
    pack("tar", &["--format=gnu"], dir.path(), &archive);
    std::fs::write(dir.path().join("new"), b"x").unwrap();
    let recorder = Recorder::of(Source::open(&archive).unwrap(), &Options::default()).unwrap();
    let expected = whole_seconds(Manifest::of_dir(dir.path()).unwrap());
    let policy = Policy::archived().ignore(Field::Xattrs);
    assert!(!expected.diff(&recorder.manifest(), &policy).is_empty());
    std::fs::remove_file(archive).unwrap();
}
