//! Hostile archives on their whole way to an image: each ends with an image that e2fsck accepts, or
//! with one sentence that names the archive and the byte, and then with no file.
//!
//! A failure prints the seed, and `UEXT4_HOSTILE_FIRST=SEED UEXT4_HOSTILE_TARS=1` repeats it.

use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use uext4_archive::{Options, Source};
use uext4_builder::{BuildOptions, Builder, PlacementRule, Size};
use uext4_testkit::oracle;
use uext4_testkit::rng::Rng;

use crate::hostile::compressed;
use crate::made::{Header, Tar};
use crate::mutations::seal;

const NAME: &str = "made.tar";
/// Most time of one build, on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Most memory of the process, with the other tests that run in it.
const MEMORY_MAX_KIB: u64 = 900 << 10;
/// Errors that have no byte: of a decoder before the first entry, of the size as a whole, and of
/// links whose file could be in a layer below.
const WHOLE: [&str; 3] = [
    "made.tar: cannot be read: ",
    "it is a hard link to",
    "after decompression, the limit",
];

fn old_gnu() -> Tar {
    let mut sparse = Header::new(b'S', b"sparse", 1024);
    sparse.put(257, b"ustar  \0");
    sparse.put(
        386,
        b"00000000000\x0000000001000\x0000000020000\x0000000001000\0",
    );
    sparse.put(483, b"00000040000\0");
    Tar::default()
        .file("a", &[7; 5000])
        .add(&mut sparse, &[1; 1024])
        .extended(b'L', &[b'n'; 180])
        .file("short", b"long name")
        .extended(b'K', &[b't'; 300])
        .link(b'2', "link", "short")
        .link(b'1', "hard", "a")
}

fn pax() -> Tar {
    let acl: &[u8] = b"user::rw-,user:5:r--,group::r--,mask::r--,other::---";
    let records: [(&str, &[u8]); 6] = [
        ("path", b"d/some/other/name"),
        ("mtime", b"12.5"),
        ("uid", b"70000"),
        ("SCHILY.xattr.user.a", &[b'v'; 700]),
        ("LIBARCHIVE.xattr.user.b", b"AAEC"),
        ("SCHILY.acl.access", acl),
    ];
    let mut device = Header::new(b'3', b"d/null", 0);
    device.put(329, b"0000001\0").put(337, b"0000003\0");
    Tar::default()
        .extended(b'g', b"11 uid=500\n")
        .add(&mut Header::new(b'5', b"d/", 0), b"")
        .pax(&records)
        .file("x", &[9; 9000])
        .add(&mut device, b"")
        .add(&mut Header::new(b'6', b"d/fifo", 0), b"")
        .link(b'2', "d/link", "some/other/name")
}

fn sparse_0(version: &[(&str, &[u8])]) -> Tar {
    Tar::default().pax(version).file("sparse", &[3; 1500])
}

fn sparse_1() -> Tar {
    let mut data = b"2\n0\n512\n70000\n1000\n".to_vec();
    data.resize(512, 0);
    data.extend([5; 1512]);
    let version: [(&str, &[u8]); 4] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"real name"),
        ("GNU.sparse.realsize", b"100000"),
    ];
    Tar::default()
        .pax(&version)
        .file("GNUSparseFile.1/x", &data)
}

fn numbers_to_base_256() -> Tar {
    let mut large = Header::new(b'0', b"base-256", 0);
    large.put(124, b"\x80\0\0\0\0\0\0\0\0\0\x10\0");
    large.put(108, b"\x80\0\0\0\0\x01\0\0");
    large.put(136, b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0");
    let mut prefix = Header::new(b'0', b"name", 3);
    prefix.put(345, b"p/long/prefix/of/ustar");
    Tar::default()
        .add(&mut large, &[8; 4096])
        .add(&mut prefix, b"abc")
}

/// One archive for each form.
fn samples() -> Vec<Vec<u8>> {
    let pairs: [(&str, &[u8]); 6] = [
        ("GNU.sparse.size", b"50000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.offset", b"0"),
        ("GNU.sparse.numbytes", b"500"),
        ("GNU.sparse.offset", b"9000"),
        ("GNU.sparse.numbytes", b"1000"),
    ];
    let map: [(&str, &[u8]); 4] = [
        ("GNU.sparse.size", b"50000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.name", b"name in 0.1"),
        ("GNU.sparse.map", b"0,500,9000,1000"),
    ];
    let tars = [
        old_gnu(),
        pax(),
        sparse_0(&pairs),
        sparse_0(&map),
        sparse_1(),
        numbers_to_base_256(),
    ];
    let all = tars.iter().fold(Tar::default(), |mut all, one| {
        all.0.extend(&one.0);
        all
    });
    tars.into_iter().chain([all]).map(Tar::end).collect()
}

/// Changes bytes, fields or whole blocks.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let blocks = bytes.len() as u64 / 512;
    let block = rng.below(blocks) as usize * 512;
    match rng.below(12) {
        0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
        1 => drop(bytes.drain(block..block + 512)),
        2 => {
            let copy = bytes[block..block + 512].to_vec();
            let at = rng.below(blocks) as usize * 512;
            bytes.splice(at..at, copy);
        }
        3 => {
            let sizes: [&[u8]; 6] = [
                b"77777777777\0",
                b"\x80\0\0\0\0\0\0\x7F\xFF\xFF\xFF\xFF",
                b"\x80\0\0\0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                b"00000000000\0",
                b"00004000001\0",
                b"           \0",
            ];
            bytes[block + 124..block + 136].copy_from_slice(rng.pick::<&[u8]>(&sizes));
        }
        4 => bytes[block + 156] = *rng.pick(b"01234567SLKxgDVM\0"),
        5 => {
            let names: [&[u8]; 8] = [
                b"../up",
                b"/etc/passwd",
                b"a/../../b",
                b".",
                b"a",
                b"a/b",
                b"d",
                b"d/some",
            ];
            let name: &[u8] = rng.pick::<&[u8]>(&names);
            bytes[block..block + name.len()].copy_from_slice(name);
            bytes[block + name.len()] = 0;
        }
        _ => {
            for _ in 0..rng.between(1, 3) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = *rng.pick(b"\x00079=\n /.Sx,-\x80\xFF");
            }
        }
    }
}

fn hostile(seed: u64, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = rng.pick(samples).clone();
    for _ in 0..rng.between(1, 3) {
        if bytes.len() >= 1024 {
            mutate(&mut rng, &mut bytes);
        }
    }
    if rng.chance(85) {
        seal(&mut bytes);
    }
    if rng.chance(12) {
        bytes = compressed(
            rng.pick::<&str>(&["gzip", "zstd", "xz", "bzip2", "lz4"]),
            &bytes,
        );
        if rng.chance(50) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
    }
    bytes
}

/// Builds an image of an archive, as a file or as a stream.
fn build(seed: u64, dir: &Path, bytes: &[u8], limit: Option<u64>) -> Result<(), String> {
    let mut options = BuildOptions::new(Size::Min);
    options.threads = 2;
    options.format.time = Some(1_700_000_000);
    if seed.is_multiple_of(4) {
        options.size = Size::Bytes(64 << 20);
        options.places = PlacementRule::DiffFriendly;
    }
    let mut builder = Builder::create(&dir.join("image"), options).expect("builder");
    let tar = dir.join(NAME);
    let source = if seed.is_multiple_of(2) {
        std::fs::write(&tar, bytes).expect("tar");
        Source::open(&tar).expect("tar")
    } else {
        Source::stream(NAME, Cursor::new(bytes.to_vec()))
    };
    let options = Options {
        limit,
        ..Options::default()
    };
    let fed = source.feed(&mut builder, &options);
    let made = fed.and_then(|()| builder.finish().map(drop));
    let _not_made_for_streams = std::fs::remove_file(&tar);
    made.map_err(|error| error.to_string())
}

/// What is wrong with the end of a build.
fn judge(dir: &Path, end: &Result<(), String>) -> Result<(), String> {
    let names = std::fs::read_dir(dir).expect("directory");
    let names: Vec<_> = names.map(|name| name.expect("name").file_name()).collect();
    match end {
        Ok(()) => {
            if names != ["image"] {
                return Err(format!("files besides the image: {names:?}"));
            }
            let verdict = oracle::e2fsck(&dir.join("image")).expect("e2fsck");
            let problems = verdict.problems();
            // e2fsck asks about times after 2310, which are as meant.
            let expected = |line: &&str| line.contains("likely pre-1970") || *line == "Fix? no";
            if problems.iter().all(expected) {
                Ok(())
            } else {
                Err(format!("e2fsck: {problems:?}"))
            }
        }
        Err(_) if !names.is_empty() => Err(format!("an error, and files: {names:?}")),
        Err(error) => {
            let names_place = error.contains(" at byte ");
            let is_whole = WHOLE.iter().any(|words| error.contains(words));
            let is_one = !error.contains('\n') && error.len() < 4000;
            let names_archive = error.contains(NAME) || error.contains("it is a hard link to");
            if names_archive && is_one && (names_place || is_whole) {
                Ok(())
            } else {
                Err(format!("an error without its place: {error}"))
            }
        }
    }
}

fn number(variable: &str, usual: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(usual, |text| text.parse().expect("a number"))
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words = line.expect("VmHWM").split_whitespace().nth(1);
    words.expect("a number").parse().expect("a number")
}

#[test]
fn hostile_archives_make_clean_images_or_one_error() {
    let samples = samples();
    for sample in &samples {
        for seed in 0..4 {
            let dir = oracle::scratch_dir().expect("scratch");
            let end = build(seed, dir.path(), sample, None);
            assert_eq!(end, Ok(()), "a sample is sound");
            assert_eq!(judge(dir.path(), &end), Ok(()));
        }
    }
    let first = number("UEXT4_HOSTILE_FIRST", 0);
    let count = number("UEXT4_HOSTILE_TARS", 400);
    let mut refused = 0;
    for seed in first..first + count {
        let bytes = hostile(seed, &samples);
        let limit = seed.is_multiple_of(7).then_some(8000);
        let dir = oracle::scratch_dir().expect("scratch");
        let started = Instant::now();
        let end = build(seed, dir.path(), &bytes, limit);
        assert!(
            started.elapsed() < TIME_MAX,
            "seed {seed}: {:?}",
            started.elapsed()
        );
        if let Err(problem) = judge(dir.path(), &end) {
            panic!("seed {seed}: {problem}");
        }
        refused += u64::from(end.is_err());
    }
    assert!(peak_kib() < MEMORY_MAX_KIB, "{} KiB", peak_kib());
    if count >= 100 {
        assert!(
            refused > count / 10 && refused < count,
            "{refused} of {count} refused"
        );
    }
}

/// A bomb of 64 MiB behind each decoder, and a file that is larger than any file can be.
#[test]
fn bombs_leave_nothing() {
    let zeroes = Tar::default().file("zeroes", &vec![0; 64 << 20]).end();
    for program in ["gzip", "zstd"] {
        let bytes = compressed(program, &zeroes);
        for seed in 0..2 {
            let dir = oracle::scratch_dir().expect("scratch");
            let end = build(seed, dir.path(), &bytes, Some(1 << 20));
            assert!(
                end.as_ref().is_err_and(|error| error.contains("the limit")),
                "{end:?}"
            );
            assert_eq!(judge(dir.path(), &end), Ok(()));
        }
    }
    let size = i64::MAX.to_string();
    let records: [(&str, &[u8]); 2] = [
        ("GNU.sparse.size", size.as_bytes()),
        ("GNU.sparse.map", b"0,0"),
    ];
    let huge = Tar::default().pax(&records).file("hole", b"").end();
    let dir = oracle::scratch_dir().expect("scratch");
    let end = build(0, dir.path(), &huge, None);
    let words = "the entry hole at byte 0 is not accepted: /hole: the file has";
    assert!(
        end.as_ref().is_err_and(|error| error.contains(words)),
        "{end:?}"
    );
    assert_eq!(judge(dir.path(), &end), Ok(()));
}

/// The judge finds a damaged image, a file that is left, and an error without a place.
#[test]
fn canary_of_hostile_builds() {
    let dir = oracle::scratch_dir().expect("scratch");
    let end = build(0, dir.path(), &pax().end(), None);
    assert_eq!(judge(dir.path(), &end), Ok(()));
    let image = dir.path().join("image");
    let mut bytes = std::fs::read(&image).expect("image");
    bytes[1024 + 12] ^= 1; // the count of free blocks
    std::fs::write(&image, bytes).expect("image");
    judge(dir.path(), &end).expect_err("a wrong checksum");
    let error = Err(format!("{NAME}: the entry x at byte 0 is wrong"));
    judge(dir.path(), &error).expect_err("a file is left");
    std::fs::remove_file(image).expect("image");
    assert_eq!(judge(dir.path(), &error), Ok(()));
    judge(dir.path(), &Err("wrong".into())).expect_err("no place");
}
