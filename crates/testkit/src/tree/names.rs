//! Names of entries: short, long, UTF-8 and raw bytes.

use crate::rng::Rng;

/// Longest name in bytes.
const NAME_MAX: usize = 255;

const STEMS: [&str; 12] = [
    "main",
    "README",
    "lib",
    "index",
    "test_data",
    "Makefile",
    "x",
    "config",
    "photo",
    "данные",
    "日本語",
    "naïve",
];
const ENDINGS: [&str; 8] = ["", ".rs", ".c", ".tar.gz", ".txt", "~", ".ü", ".bin"];

/// A name, unique per `number`.
pub(super) fn name(rng: &mut Rng, number: usize) -> Vec<u8> {
    match rng.below(100) {
        0..=1 => filled(rng, number, NAME_MAX),
        2..=3 => {
            let len = rng.between(60, 254) as usize;
            filled(rng, number, len)
        }
        4..=6 => raw(rng, number),
        7 => format!(" -{number}\n\t\\\"*?").into_bytes(),
        _ => format!("{}_{number}{}", rng.pick(&STEMS), rng.pick(&ENDINGS)).into_bytes(),
    }
}

fn filled(rng: &mut Rng, number: usize, len: usize) -> Vec<u8> {
    let mut name = format!("{number}-").into_bytes();
    while name.len() < len {
        name.push(b'a' + rng.below(26) as u8);
    }
    name
}

/// Bytes of 0x80 and above that are not UTF-8: their sign matters to the directory hash.
fn raw(rng: &mut Rng, number: usize) -> Vec<u8> {
    let mut name = vec![0xFF];
    for _ in 0..rng.between(1, 40) {
        name.push(0x80 | rng.below(128) as u8);
    }
    name.extend_from_slice(number.to_string().as_bytes());
    name
}
