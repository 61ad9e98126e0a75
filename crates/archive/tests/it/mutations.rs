//! Archives with random changes: any answer is right, but there must be one, with little memory.

use uext4_archive::Options;
use uext4_testkit::rng::Rng;

use crate::made::{Header, Tar, read};

fn sample() -> Vec<u8> {
    let mut sparse = Header::new(b'S', b"sparse", 512);
    sparse
        .put(257, b"ustar  \0")
        .put(386, b"00000010000\x0000000001000\0")
        .put(483, b"00000020000\0");
    let records: [(&str, &[u8]); 6] = [
        ("path", b"some/other/name"),
        ("mtime", b"12.5"),
        ("SCHILY.xattr.user.a", b"value"),
        ("LIBARCHIVE.xattr.user.b", b"AAEC"),
        (
            "SCHILY.acl.access",
            b"user::rw-,user:5:r--,group::r--,mask::r--,other::---",
        ),
        ("GNU.sparse.map", b"0,1"),
    ];
    let one: [(&str, &[u8]); 3] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.realsize", b"4096"),
    ];
    let mut data = b"1\n1024\n3\n".to_vec();
    data.resize(512, 0);
    data.extend(b"abc");
    Tar::default()
        .file("a", &[7; 100])
        .add(&mut sparse, &[1; 512])
        .pax(&records)
        .file("x", b"y")
        .pax(&one)
        .file("x", &data)
        .extended(b'L', b"long/name\0")
        .link(b'1', "b", "a")
        .extended(b'g', b"11 uid=500\n")
        .link(b'2', "c", "a")
        .end()
}

/// Puts right checksums into all blocks that may be headers, so that changes get behind them.
pub(crate) fn seal(bytes: &mut [u8]) {
    for block in bytes.as_chunks_mut::<512>().0 {
        if &block[257..262] == b"ustar" {
            *block = Header(*block).sealed();
        }
    }
}

#[test]
fn changed_archives_give_answers() {
    let whole = sample();
    assert_eq!(read(&whole, &Options::default()).unwrap().files.len(), 6);
    let rounds = std::env::var("UEXT4_ARCHIVE_ROUNDS").ok();
    let rounds: u64 = rounds.map_or(3000, |rounds| rounds.parse().unwrap());
    let mut refused = 0;
    for seed in 0..rounds {
        let mut rng = Rng::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            let interesting = [
                0, b'0', b'7', b'9', b'=', b'\n', b' ', 0x80, 0xFF, b'/', b'.', b'S', b'x',
            ];
            bytes[at] = *rng.pick(&interesting);
        }
        if rng.chance(80) {
            seal(&mut bytes);
        }
        refused += u64::from(read(&bytes, &Options::default()).is_err());
    }
    assert!(
        refused > rounds / 10 && refused < rounds,
        "{refused} of {rounds} refused"
    );
}
