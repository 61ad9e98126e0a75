//! Archives that want something else than to be unpacked, and damaged ones: each is refused with
//! one sentence that names the entry and its byte.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use uext4_archive::{Form, Options, Source};

use crate::made::{Header, Tar, read, read_file};
use crate::recorder::Recorder;

fn named(name: &[u8]) -> Tar {
    Tar::default()
        .file("first", b"1")
        .add(&mut Header::new(b'0', name, 0), b"")
}

fn with(change: impl FnOnce(&mut Header)) -> Tar {
    let mut header = Header::new(b'0', b"bad", 0);
    change(&mut header);
    Tar::default().file("first", b"1").add(&mut header, b"")
}

fn records(records: &[(&str, &[u8])]) -> Tar {
    Tar::default()
        .file("first", b"1")
        .pax(records)
        .file("bad", b"")
}

#[test]
fn one_sentence_each() {
    let acl = b"user::rw-,user:adm:r--,group::r--,mask::rw-,other::---";
    let huge = vec![b'x'; 65 << 20];
    let wrong_sum = {
        let mut tar = Tar::default().file("first", b"1").file("bad", b"");
        tar.0[1024] ^= 1;
        tar
    };
    let cases: Vec<(Tar, &str)> = vec![
        (
            Tar::default()
                .file("first", b"1")
                .extended(b'g', b"10 path=a\n"),
            "has a global header with a name, size or map of one file",
        ),
        (
            records(&[("path", &b"a/".repeat(4097))]),
            "has a name with more than 4096 levels of directories",
        ),
        (
            named(b"../x"),
            "entry ../x at byte 1024 has `..` in its name",
        ),
        (named(b"a/../../x"), "entry a/../../x at byte 1024 has `..`"),
        (named(b""), "header at byte 1024 has no name"),
        (
            Tar::default().file("first", b"1").link(b'1', "bad", "../x"),
            "bad at byte 1024 is a hard link to a file that has `..`",
        ),
        (
            Tar::default().file("first", b"1").link(b'2', "bad", ""),
            "bad at byte 1024 is a symbolic link without a target",
        ),
        (wrong_sum, "header at byte 1024 has a wrong checksum"),
        (
            with(|h| {
                h.put(124, b"0000000000x\0");
            }),
            "bad at byte 1024 has a size that is no number",
        ),
        (
            with(|h| {
                h.put(124, &[0xFF; 12]);
            }),
            "bad at byte 1024 has a size that is no number",
        ),
        (
            with(|h| {
                h.put(124, b"\x80\0\0\0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
            }),
            "bad at byte 1024 has a size beyond 63 bits",
        ),
        (
            with(|h| {
                h.0[156] = b'Q';
            }),
            "bad at byte 1024 has the type 'Q', which is not known",
        ),
        (
            with(|h| {
                h.0[156] = b'M';
            }),
            "has the type 'M'",
        ),
        (
            with(|h| {
                h.put(108, b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
            }),
            "bad at byte 1024 has an owner or a group",
        ),
        (
            records(&[("uid", b"4294967295")]),
            "bad at byte 1024 has an owner or a group",
        ),
        (
            records(&[("uid", b"-1")]),
            "header at byte 1024 has a bad value of uid",
        ),
        (records(&[("mtime", b"now")]), "has a bad value of mtime"),
        (
            records(&[("SCHILY.acl.access", acl)]),
            "bad at byte 1024 has the ACL entry user:adm:r-- without a number",
        ),
        (
            records(&[("SCHILY.acl.access", b"user::rwx")]),
            "bad at byte 1024 has a bad ACL",
        ),
        (
            records(&[("SCHILY.acl.default", b"user::rwx,group::r-x,other::r-x")]),
            "has a default ACL, but is no directory",
        ),
        (
            records(&[("LIBARCHIVE.xattr.user.a", b"!")]),
            "has a bad value of LIBARCHIVE.xattr.user.a",
        ),
        (
            Tar::default()
                .file("first", b"1")
                .extended(b'x', b"no record"),
            "header at byte 1024 has an extended header that is no pax record",
        ),
        (
            Tar::default().file("first", b"1").extended(b'x', &huge),
            "header at byte 1024 has extended headers of more than 67108864 bytes",
        ),
        (
            Tar::default().file("first", b"1").extended(b'L', &huge),
            "header at byte 1024 has extended headers of more than",
        ),
        (
            Tar::default().file("first", b"1").extended(b'g', &huge),
            "header at byte 1024 has extended headers of more than",
        ),
        (
            Tar::default().file("first", b"1").pax(&[("path", b"x")]),
            "header at byte 1024 is an extended header without an entry",
        ),
        (records(&[("path", b"a\0b")]), "has a name with a zero byte"),
        (
            records(&[("GNU.sparse.size", b"100"), ("GNU.sparse.map", b"0,200")]),
            "bad at byte 1024 has a sparse map that ends behind its file",
        ),
        (
            records(&[
                ("GNU.sparse.size", b"100"),
                ("GNU.sparse.map", b"50,10,0,10"),
            ]),
            "sparse map that is not in ascending order",
        ),
        (
            records(&[("GNU.sparse.size", b"100"), ("GNU.sparse.map", b"0,50")]),
            "sparse map of another length than its data",
        ),
        (
            records(&[("GNU.sparse.size", b"100"), ("GNU.sparse.map", b"0")]),
            "sparse map with half a range",
        ),
        (
            records(&[
                ("GNU.sparse.size", b"100"),
                ("GNU.sparse.map", b"18446744073709551615,2"),
            ]),
            "sparse map beyond 64 bits",
        ),
        (
            records(&[
                ("GNU.sparse.realsize", b"9"),
                ("GNU.sparse.major", b"2"),
                ("GNU.sparse.minor", b"0"),
            ]),
            "unknown version of the sparse format",
        ),
        (
            sparse_1_0(b"99999999\n"),
            "sparse map of more than 1048576 ranges",
        ),
        (
            sparse_1_0(b"1\nx\n5\n"),
            "sparse map that is no list of numbers",
        ),
        (
            sparse_1_0(b"1\n0\n5\n"),
            "sparse map of another length than its data",
        ),
        (
            with(|h| {
                h.0[156] = b'3';
                h.put(329, b"0020000\0");
            }),
            "bad at byte 1024 is the device 8192:0, which Linux cannot have",
        ),
    ];
    for (tar, words) in cases {
        for read in [read, read_file] {
            let bytes = tar.clone().end();
            let Err(error) = read(&bytes, &Options::default()) else {
                panic!("accepted, but must say: {words}");
            };
            let has_words = error.contains(words) && error.starts_with("made.tar: ");
            assert!(
                has_words && error.contains("; "),
                "{error}\nmust say: {words}"
            );
            assert!(!error.contains('\n') && error.len() < 700, "{error}");
        }
    }
}

fn sparse_1_0(map: &[u8]) -> Tar {
    let mut data = map.to_vec();
    data.resize(512, 0);
    let version: [(&str, &[u8]); 3] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.realsize", b"1000"),
    ];
    Tar::default()
        .file("first", b"1")
        .pax(&version)
        .file("bad", &data)
}

/// A small archive cut at every block, and around each.
#[test]
fn every_truncation_is_noticed() {
    let tar = Tar::default()
        .file("first", &[1; 700])
        .pax(&[("path", b"second"), ("SCHILY.xattr.user.a", b"b")])
        .file("x", &[2; 512])
        .link(b'2', "third", "target");
    let data_end = tar.0.len();
    let bytes = tar.end();
    for cut in (0..bytes.len()).filter(|cut| matches!(cut % 512, 0 | 1 | 511)) {
        for read in [read, read_file] {
            let result = read(&bytes[..cut], &Options::default());
            assert_eq!(
                result.is_ok(),
                cut >= data_end + 512,
                "cut at {cut}: {result:?}"
            );
            let error = result.err().unwrap_or_default();
            assert!(error.is_empty() || error.contains(" at byte "), "{error}");
        }
    }
}

/// All of a file is a hole, and its size the largest: no memory, no time.
#[test]
fn huge_sparse_files_cost_nothing() {
    let size = i64::MAX.to_string();
    let records: [(&str, &[u8]); 2] = [
        ("GNU.sparse.size", size.as_bytes()),
        ("GNU.sparse.map", b"0,0"),
    ];
    let bytes = Tar::default().pax(&records).file("hole", b"").end();
    let recorder = read(&bytes, &Options::default()).unwrap();
    assert_eq!(recorder.file("hole").size, i64::MAX as u64);
    assert!(recorder.file("hole").ranges.is_empty());
}

pub(crate) fn compressed(program: &str, bytes: &[u8]) -> Vec<u8> {
    let mut command = Command::new(program);
    command
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let mut out = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    out
}

#[test]
fn bombs_end_at_the_limit() {
    let tar = Tar::default().file("zeroes", &vec![0; 3 << 20]).end();
    let limited = |limit| Options {
        limit: Some(limit),
        ..Options::default()
    };
    let exact = tar.len() as u64;
    for program in ["gzip", "zstd", "xz", "bzip2", "lz4", "cat"] {
        let bytes = match program {
            "cat" => tar.clone(),
            _ => compressed(program, &tar),
        };
        for read in [read, read_file] {
            assert!(read(&bytes, &limited(exact)).is_ok());
            let error = read(&bytes, &limited(exact - 1)).unwrap_err();
            let words = format!(
                "has more than {} bytes after decompression, the limit",
                exact - 1
            );
            assert!(error.contains(&words), "{program}: {error}");
        }
    }
}

/// A stream of zeroes without an end that is a bomb by its ratio.
#[test]
fn bombs_end_without_a_limit() {
    let mut header = Header::new(b'0', b"zeroes", 0);
    header.put(124, b"\x80\0\0\0\0\0\x01\0\0\0\0\0");
    let head = header.sealed().to_vec();
    let frame = compressed("zstd", &vec![0; 64 << 20]);
    let mut bytes = compressed("zstd", &head);
    for _ in 0..20 {
        bytes.extend(&frame);
    }
    let error = read(&bytes, &Options::default()).unwrap_err();
    assert!(error.contains("the limit by default"), "{error}");
}

#[test]
fn damaged_streams_and_other_files() {
    let mut contents = vec![0; 200_000];
    contents
        .iter_mut()
        .enumerate()
        .for_each(|(n, byte)| *byte = ((n * n) >> 5) as u8);
    let tar = Tar::default().file("a", &contents).end();
    for program in ["gzip", "zstd", "xz", "bzip2", "lz4"] {
        let bytes = compressed(program, &tar);
        let cut = &bytes[..bytes.len() - 3];
        assert!(read(cut, &Options::default()).is_err(), "{program}");
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 0x55;
        let result = read(&damaged, &Options::default());
        // zstd frames have a checksum as zstd makes them.
        assert!(result.is_err(), "{program}");
    }
    for text in [&b"#!/bin/sh\n"[..], b"", &[b'x'; 2048]] {
        let error = read(text, &Options::default()).unwrap_err();
        assert!(
            error.contains("header at byte 0 is none of a tar file; give a tar file"),
            "{error}"
        );
    }
    let error = Source::open("/nonexistent/x.tar")
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("/nonexistent/x.tar: cannot be read"),
        "{error}"
    );
}

#[test]
fn target_paths_are_checked() {
    for at in ["../x", "/x", "x/", "x//y", "./x"] {
        let options = Options {
            at: at.into(),
            ..Options::default()
        };
        let error = read(&Tar::default().end(), &options).unwrap_err();
        assert!(error.contains("the target path"), "{error}");
    }
    assert!(
        read(&Tar::default().end(), &Options::default())
            .unwrap()
            .files
            .is_empty()
    );
}

/// Names of an image in front make no image.
#[test]
fn a_root_that_looks_like_an_image_is_a_tar() {
    let tar = Tar::default()
        .file("manifest.json", b"[1]")
        .file("blobs/x", b"y")
        .end();
    for form in [Form::Detect, Form::Tar] {
        let options = Options {
            form,
            ..Options::default()
        };
        for read in [read, read_file] {
            let recorder: Recorder = read(&tar, &options).unwrap();
            assert_eq!(recorder.paths(), ["blobs/x", "manifest.json"]);
        }
    }
    let options = Options {
        form: Form::Image,
        ..Options::default()
    };
    assert!(
        read(&tar, &options)
            .unwrap_err()
            .contains("its file manifest.json is not as it must be")
    );
}
