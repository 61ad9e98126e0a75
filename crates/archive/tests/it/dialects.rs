//! Forms that the programs of today write rarely or not at all.

use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::ops::Range;
use uext4_archive::Options;
use uext4_format::Timestamp;
use uext4_testkit::manifest::FileKind;

use crate::made::{Header, Tar, read, read_file};
use crate::recorder::Recorder;

fn reads(bytes: &[u8]) -> Recorder {
    read(bytes, &Options::default()).unwrap()
}

fn xattrs(recorder: &Recorder, path: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let xattrs = recorder.file(path).attributes.xattrs.iter();
    xattrs
        .map(|xattr| (xattr.name.clone(), xattr.value.clone()))
        .collect()
}

#[test]
fn prefixes_of_ustar_and_star() {
    let mut ustar = Header::new(b'0', b"name", 0);
    ustar.put(345, b"a/prefix");
    let mut star = Header::new(b'0', b"name", 0);
    star.put(345, &[b'p'; 131])
        .put(476, b"00000000001 00000000002 ")
        .put(508, b"tar\0");
    let mut gnu = Header::new(b'0', b"name", 0);
    gnu.put(257, b"ustar  \0").put(345, b"00000000001\0");
    let tar = Tar::default()
        .add(&mut ustar, b"")
        .add(&mut star, b"")
        .add(&mut gnu, b"");
    let paths = reads(&tar.end()).paths();
    assert_eq!(
        paths,
        [
            "a/prefix/name",
            "name",
            &format!("{}/name", "p".repeat(131))
        ]
    );
}

#[test]
fn old_tars_say_directory_by_the_name() {
    let mut old = Header::new(0, b"dir/", 0);
    old.put(257, &[0; 8]).put(329, b"garbage!");
    let recorder = reads(
        &Tar::default()
            .add(&mut old, b"")
            .file("dir/file", b"abc")
            .end(),
    );
    assert_eq!(recorder.file("dir").kind, FileKind::Directory);
    assert_eq!(recorder.file("dir/file").bytes, b"abc");
}

#[test]
fn long_names_and_links_of_gnu() {
    let long = "o".repeat(200);
    let target = "t".repeat(300);
    let tar = Tar::default()
        .extended(b'K', format!("{target}\0").as_bytes())
        .extended(b'L', format!("{long}\0").as_bytes())
        .link(b'2', "short", "short")
        .file("next", b"");
    let recorder = reads(&tar.end());
    assert_eq!(
        recorder.file(&long).target.as_deref(),
        Some(target.as_bytes())
    );
    assert_eq!(recorder.paths(), ["next".into(), long]);
}

#[test]
fn global_records_are_defaults() {
    let global = b"11 uid=500\n";
    let tar = Tar::default()
        .extended(b'g', global)
        .file("global", b"")
        .pax(&[("uid", b"600")])
        .file("own", b"")
        .pax(&[("uid", b"")])
        .file("header", b"");
    let recorder = reads(&tar.end());
    let uid = |path| recorder.file(path).attributes.uid;
    assert_eq!((uid("global"), uid("own"), uid("header")), (500, 600, 7));
}

#[test]
fn attributes_of_pax() {
    let capability = b"\x01\0\0\x02\n\n=\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let acl = b"user::rw-,user:adm:r--:3,group::r--,mask::rw-,other::---";
    let tar = Tar::default().pax(&[
        ("SCHILY.xattr.security.capability", capability),
        ("SCHILY.xattr.user.a%3Db", b"1"),
        ("LIBARCHIVE.xattr.user.x%20y", b"AAEC"),
        ("LIBARCHIVE.xattr.com.apple.provenance", b"AAEC"),
        ("RHT.security.selinux", b"u:r:t:s0"),
        ("SCHILY.acl.access", acl),
        ("mtime", b"-1.25"),
        ("uid", b"4294967294"),
        ("comment", b"nothing"),
    ]);
    let recorder = reads(&tar.file("a", b"").end());
    let attributes = &recorder.file("a").attributes;
    assert_eq!(attributes.mtime, Timestamp::new(-2, 750_000_000));
    assert_eq!((attributes.uid, attributes.gid), (4_294_967_294, 8));
    assert_eq!(attributes.permissions, 0o660);
    let xattrs = xattrs(&recorder, "a");
    let names: Vec<_> = xattrs
        .keys()
        .map(|name| String::from_utf8_lossy(name))
        .collect();
    assert_eq!(
        names,
        [
            "security.capability",
            "security.selinux",
            "system.posix_acl_access",
            "user.a=b",
            "user.x y",
        ]
    );
    assert_eq!(xattrs[b"security.capability".as_slice()], capability);
    assert_eq!(xattrs[b"security.selinux".as_slice()], b"u:r:t:s0\0");
    assert_eq!(xattrs[b"user.x y".as_slice()], b"\0\x01\x02");
    let acl = &xattrs[b"system.posix_acl_access".as_slice()];
    assert_eq!(
        acl[..20],
        *b"\x02\0\0\0\x01\0\x06\0\xFF\xFF\xFF\xFF\x02\0\x04\0\x03\0\0\0"
    );
}

#[test]
fn devices_and_pipes() {
    let mut char_device = Header::new(b'3', b"null", 0);
    char_device.put(329, b"0000001\0").put(337, b"0000003\0");
    let mut block = Header::new(b'4', b"big", 0);
    block
        .put(329, b"\x80\0\0\0\0\0\x0F\xFF")
        .put(337, b"\x80\0\0\0\0\x0F\xFF\xFF");
    let tar = Tar::default()
        .add(&mut char_device, b"")
        .add(&mut block, b"");
    let recorder = reads(&tar.add(&mut Header::new(b'6', b"pipe", 0), b"").end());
    assert_eq!(recorder.file("null").device, Some((1, 3)));
    assert_eq!(recorder.file("big").device, Some((0xFFF, 0xF_FFFF)));
    assert_eq!(recorder.file("pipe").kind, FileKind::Fifo);
}

/// 30 ranges: 4 in the header, 21 in the next block, and 5 in one more.
#[test]
fn sparse_maps_that_go_on_in_more_blocks() {
    let ranges: Vec<Range<u64>> = (0..30).map(|n| n * 4096..n * 4096 + 512).collect();
    let size = 30 * 4096;
    let mut header = Header::new(b'S', b"sparse", 30 * 512);
    header
        .put(257, b"ustar  \0")
        .put(483, format!("{size:011o}\0").as_bytes());
    let pairs: Vec<u8> = ranges
        .iter()
        .flat_map(|r| format!("{:011o}\0{:011o}\0", r.start, 512).into_bytes())
        .collect();
    header.put(386, &pairs[..4 * 24]).put(482, b"\x01");
    let mut more = pairs[4 * 24..25 * 24].to_vec();
    more.resize(504, 0);
    more.push(1);
    more.resize(512, 0);
    more.extend(&pairs[25 * 24..]);
    more.resize(1024, 0);
    let data: Vec<u8> = (0..30_u8).flat_map(|n| [n + 1; 512]).collect();
    more.extend(&data);
    let bytes = Tar::default()
        .add(&mut header, &more)
        .file("next", b"x")
        .end();
    for recorder in [
        reads(&bytes),
        read_file(&bytes, &Options::default()).unwrap(),
    ] {
        let file = recorder.file("sparse");
        assert_eq!((file.size, &file.ranges), (size, &ranges));
        for (n, range) in ranges.iter().enumerate() {
            assert_eq!(
                file.bytes[range.start as usize..][..512],
                [n as u8 + 1; 512]
            );
        }
        assert_eq!(recorder.read, 30 * 512 + 1);
        assert_eq!(recorder.file("next").bytes, b"x");
    }
}

/// Ten gigabytes in the header in base 256, and in a pax record: only the header exists, so the
/// error must say that the data are cut off, not that the size is wrong.
#[test]
fn sizes_beyond_octal_digits() {
    let mut header = Header::new(b'0', b"big", 0);
    header.put(124, b"\x80\0\0\0\0\0\0\x02\x80\0\0\0");
    let binary = Tar::default().add(&mut header, b"").end();
    let pax = Tar::default()
        .pax(&[("size", b"10737418240")])
        .file("big", b"")
        .end();
    for bytes in [binary, pax] {
        let error = read_file(&bytes, &Options::default()).unwrap_err();
        assert!(
            error.contains("the entry big at byte 0 is cut off"),
            "{error}"
        );
    }
}

#[test]
fn names_of_any_bytes_below_a_target() {
    let options = Options {
        at: b"srv/x".to_vec(),
        ..Options::default()
    };
    let mut header = Header::new(b'0', b"./a\xFF\n", 0);
    let tar = Tar::default()
        .add(&mut Header::new(b'5', b"./", 0), b"")
        .add(&mut header, b"");
    let recorder = read(&tar.end(), &options).unwrap();
    assert_eq!(recorder.paths(), ["srv/x", "srv/x/a\\xff\\n"]);
    let tar = Tar::default()
        .file("./f", b"1")
        .link(b'1', "hard", "./f")
        .link(b'1', "/absolute", "/f")
        .link(b'2', "soft", "f");
    let recorder = read(&tar.end(), &options).unwrap();
    let paths = ["srv/x/absolute", "srv/x/f", "srv/x/hard", "srv/x/soft"];
    assert_eq!(recorder.paths(), paths);
    assert_eq!(
        recorder.file("srv/x/hard").target.as_deref(),
        Some(b"srv/x/f".as_slice())
    );
    assert_eq!(
        recorder.file("srv/x/soft").target.as_deref(),
        Some(b"f".as_slice())
    );
}

#[test]
fn a_later_entry_and_one_zero_block() {
    let mut bytes = Tar::default().file("a", b"1").file("a", b"2").0;
    bytes.extend([0; 512]);
    let recorder = reads(&bytes);
    assert_eq!(recorder.file("a").bytes, b"2");
    assert!(!recorder.file("a").is_later);
    assert!(
        read_file(&bytes, &Options::default())
            .unwrap()
            .file("a")
            .is_later
    );
}

/// `gzip` and `tar` ignore them; archives on tapes and of some build systems have them.
#[test]
fn zeroes_behind_the_last_gzip_member_are_padding() {
    let tar = Tar::default().file("a", b"1").end();
    let mut bytes = crate::hostile::compressed("gzip", &tar[..512]);
    bytes.extend(crate::hostile::compressed("gzip", &tar[512..]));
    bytes.resize(bytes.len() + 70_000, 0);
    assert_eq!(reads(&bytes).file("a").bytes, b"1");
    bytes.push(1);
    assert!(read(&bytes, &Options::default()).is_err());
}

#[test]
fn more_memory_than_a_decoder_gets_is_refused_with_advice() {
    if !uext4_testkit::skip::programs_or_skip("more_memory_than_a_decoder_gets", &["zstd"]) {
        return;
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&Tar::default().file("a", &[7; 1000]).end())
        .unwrap();
    file.rewind().unwrap();
    // The length of a stream is not known, so its window is the one that is asked for.
    let mut zstd = std::process::Command::new("zstd");
    let packed = zstd.args(["-q", "-c", "--long=31"]).stdin(file).output();
    let packed = packed.unwrap().stdout;
    let error = read(&packed, &Options::default()).unwrap_err();
    assert!(
        error.contains("allow more, as with --decoder-memory 2G"),
        "{error}"
    );
    let more = Options {
        decoder_memory: Some(2 << 30),
        ..Options::default()
    };
    assert_eq!(read(&packed, &more).unwrap().file("a").bytes, [7; 1000]);
}
