//! debugfs is the reference for the hash functions.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

const SEED: &str = "01020304-0506-0708-f9fa-fbfcfdfeff10";
const SEED_WORDS: [u32; 4] = [0x0403_0201, 0x0807_0605, 0xFCFB_FAF9, 0x10FF_FEFD];

/// The answer of debugfs to each command; `None` if it is not installed.
fn debugfs(commands: &[u8]) -> Option<Vec<DirHash>> {
    let mut child = Command::new("/usr/sbin/debugfs")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let commands = commands.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&commands));
    let output = child.wait_with_output().expect("debugfs runs");
    feeder
        .join()
        .expect("no panic there")
        .expect("debugfs reads its commands");
    let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let lines = output
        .stdout
        .split(|&byte| byte == b'\n')
        .map(String::from_utf8_lossy);
    let hashes = lines
        .filter(|line| line.starts_with("Hash of "))
        .map(|line| {
            let tail = line
                .rsplit_once(" is ")
                .expect("a hash follows")
                .1
                .to_string();
            let minor = tail.split_once("minor ").expect("a minor hash follows").1;
            let minor = number(minor.trim_end_matches(')'));
            DirHash {
                major: number(tail.split(' ').next().unwrap()),
                minor,
            }
        });
    Some(hashes.collect())
}

fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [&b"a"[..], b"hello", b"lost+found", "na\u{ef}ve".as_bytes()]
        .map(<[u8]>::to_vec)
        .to_vec();
    let mut state = 12345_u32;
    for len in (1..70).chain([127, 128, 200, 254, 255]) {
        let name = (0..len).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let byte = (state >> 24) as u8;
            let plain = byte.is_ascii_alphanumeric() || byte >= 0x80;
            if plain { byte } else { b'a' + byte % 26 }
        });
        names.push(name.collect());
    }
    names
}

fn compare(algorithm: &str, hasher: DirHasher) {
    let names = names();
    let mut commands = Vec::new();
    for name in &names {
        let seed = if hasher.seed == [0; 4] {
            String::new()
        } else {
            format!("-s {SEED} ")
        };
        commands.extend(format!("dx_hash -h {algorithm} {seed}").bytes());
        commands.extend(name);
        commands.push(b'\n');
    }
    let Some(theirs) = debugfs(&commands) else {
        return;
    };
    assert_eq!(theirs.len(), names.len());
    for (name, theirs) in names.iter().zip(theirs) {
        assert_eq!(hasher.hash(name), theirs, "{algorithm} of {name:x?}");
    }
}

#[test]
fn all_functions_agree_with_debugfs() {
    let functions = [
        ("legacy", HashVersion::Legacy),
        ("half_md4", HashVersion::HalfMd4),
        ("tea", HashVersion::Tea),
    ];
    for (name, version) in functions {
        for seed in [[0; 4], SEED_WORDS] {
            compare(
                name,
                DirHasher {
                    version,
                    sign: CharSign::Signed,
                    seed,
                },
            );
            let unsigned = DirHasher {
                version,
                sign: CharSign::Unsigned,
                seed,
            };
            // debugfs has no names for the unsigned variants, but accepts their numbers.
            compare(&format!("HASHALG_{}", version.code() + 3), unsigned);
        }
    }
}

#[test]
fn known_values_hold_without_debugfs() {
    let seed = [0x0403_0201, 0x0807_0605, 0x0C0B_0A09, 0x100F_0E0D];
    let hasher = DirHasher {
        version: HashVersion::HalfMd4,
        sign: CharSign::Signed,
        seed,
    };
    assert_eq!(
        hasher.hash(b"hello"),
        DirHash {
            major: 0xE2DD_F968,
            minor: 0xC8BC_0924
        }
    );
    let name = "h\u{e4}llo".as_bytes();
    let default = DirHasher {
        seed: [0; 4],
        ..hasher
    };
    assert_eq!(
        default.hash(name),
        DirHash {
            major: 0xE5A1_DD5C,
            minor: 0xB13D_8A81
        }
    );
    let unsigned = DirHasher {
        sign: CharSign::Unsigned,
        ..default
    };
    assert_eq!(
        unsigned.hash(name),
        DirHash {
            major: 0xE3E6_7076,
            minor: 0x31AC_CA88
        }
    );
    let legacy = DirHasher {
        version: HashVersion::Legacy,
        ..unsigned
    };
    assert_eq!(
        legacy.hash(name),
        DirHash {
            major: 0x61E9_7E1A,
            minor: 0
        }
    );
}
