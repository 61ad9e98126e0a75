//! Hashes of names, which order the entries of an indexed directory.
//!
//! Three functions, each over the bytes of the name as signed or unsigned numbers, by the
//! superblock flags. A seed of zeroes means the initial state of MD4. The lowest bit of the major
//! hash is always clear (index entries use it as the continuation flag), and the value that telldir
//! reserves for the end of a directory is skipped.
//! References: kernel documentation, "directory" (hash tree directories); RFC 1320 (MD4); Wheeler
//! and Needham, "TEA, a Tiny Encryption Algorithm".

use crate::Superblock;
use crate::superblock::flag;
use uext4_num::clamp_u32;

const MD4_STATE: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
/// The major hash that means "end of directory" in a cookie of 32 bits.
const END: u32 = 0x7FFF_FFFF << 1;

/// The function; its number is stored in the root of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashVersion {
    /// The hash of the first htree version (0); ignores the seed.
    Legacy,
    /// MD4 cut to three short rounds (1), the default.
    HalfMd4,
    /// TEA as a compression function (2).
    Tea,
}

impl HashVersion {
    /// From the byte in a directory root or in the superblock.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Legacy),
            1 => Some(Self::HalfMd4),
            2 => Some(Self::Tea),
            _ => None,
        }
    }

    /// The byte in a directory root.
    pub const fn code(self) -> u8 {
        match self {
            Self::Legacy => 0,
            Self::HalfMd4 => 1,
            Self::Tea => 2,
        }
    }
}

/// Signedness of the bytes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CharSign {
    /// -128 to 127, as on x86.
    Signed,
    /// 0 to 255, as on Arm.
    Unsigned,
}

/// A name's place in the order of a directory: by `major`, then by `minor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirHash {
    /// The hash in the index; the lowest bit is clear.
    pub major: u32,
    /// Orders names of equal major hash for telldir; 0 with the legacy function.
    pub minor: u32,
}

/// A hash function with everything that its result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirHasher {
    /// The hash function, as the directory or `s_def_hash_version` names it.
    pub version: HashVersion,
    /// Whether bytes of names from 0x80 on count as negative.
    pub sign: CharSign,
    /// `s_hash_seed` as four little-endian words.
    pub seed: [u32; 4],
}

impl DirHasher {
    /// The hash of a new index, by the superblock; half MD4 if the version there is unknown: no
    /// root is written with such a version.
    pub fn of(superblock: &Superblock) -> Self {
        let version = HashVersion::from_code(superblock.def_hash_version);
        Self {
            version: version.unwrap_or(HashVersion::HalfMd4),
            sign: if superblock.flags & flag::UNSIGNED_HASH != 0 {
                CharSign::Unsigned
            } else {
                CharSign::Signed
            },
            seed: superblock.hash_seed,
        }
    }

    /// Major and minor hash of `name`; the major one has bit 0 clear.
    pub fn hash(&self, name: &[u8]) -> DirHash {
        let mut state = if self.seed == [0; 4] {
            MD4_STATE
        } else {
            self.seed
        };
        let (major, minor) = match self.version {
            HashVersion::Legacy => (self.legacy(name), 0),
            HashVersion::HalfMd4 => {
                self.chunks::<8>(name, |words| half_md4(&mut state, words));
                let [_, major, minor, _] = state;
                (major, minor)
            }
            HashVersion::Tea => {
                self.chunks::<4>(name, |words| tea(&mut state, words));
                let [major, minor, ..] = state;
                (major, minor)
            }
        };
        let major = major & !1;
        DirHash {
            major: if major == END { END - 2 } else { major },
            minor,
        }
    }

    fn value(&self, byte: u8) -> u32 {
        match self.sign {
            CharSign::Signed => i32::from(byte.cast_signed()).cast_unsigned(),
            CharSign::Unsigned => u32::from(byte),
        }
    }

    fn legacy(&self, name: &[u8]) -> u32 {
        let (mut newer, mut older) = (0x12A3_FE2D_u32, 0x37AB_E8F9_u32);
        for &byte in name {
            let mixed = newer ^ self.value(byte).wrapping_mul(7_152_373);
            let sum = older.wrapping_add(mixed);
            let folded = if sum >> 31 == 1 {
                sum.wrapping_sub(0x7FFF_FFFF)
            } else {
                sum
            };
            (older, newer) = (newer, folded);
        }
        newer << 1
    }

    /// Four bytes as a big-endian word. A negative byte borrows one from the bytes above.
    fn word(&self, bytes: [u8; 4]) -> u32 {
        let word = u32::from_be_bytes(bytes);
        match self.sign {
            CharSign::Signed => word.wrapping_sub((word & 0x0080_8080) << 1),
            CharSign::Unsigned => word,
        }
    }

    fn short_word(&self, filler: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(filler, |word, byte| {
            (word << 8).wrapping_add(self.value(*byte))
        })
    }

    /// Feeds the name in pieces of `WORDS` big-endian words; the last piece is padded with the
    /// number of bytes that were left when it began.
    fn chunks<const WORDS: usize>(&self, name: &[u8], mut mix: impl FnMut(&[u32; WORDS])) {
        let mut left = name;
        while !left.is_empty() {
            let length = clamp_u32(left.len());
            let filler = (length | length << 8).wrapping_mul(0x0001_0001);
            let (piece, rest) = left.split_at(left.len().min(WORDS.saturating_mul(4)));
            let mut words = [filler; WORDS];
            let (whole, last) = piece.as_chunks();
            for (word, bytes) in words.iter_mut().zip(whole) {
                *word = self.word(*bytes);
            }
            if let (Some(word), false) = (words.get_mut(whole.len()), last.is_empty()) {
                *word = self.short_word(filler, last);
            }
            mix(&words);
            left = rest;
        }
    }
}

fn half_md4(state: &mut [u32; 4], words: &[u32; 8]) {
    let [a, b, c, d, e, f, g, h] = *words;
    let mut mixed = *state;
    let first = [[a, b, c, d], [e, f, g, h]];
    md4_round(&mut mixed, first, [3, 7, 11, 19], |x, y, z| {
        z ^ (x & (y ^ z))
    });
    let second = [[b, d, f, h], [a, c, e, g]].map(|half| add_to_all(half, 0x5A82_7999));
    md4_round(&mut mixed, second, [3, 5, 9, 13], |x, y, z| {
        (x & y).wrapping_add((x ^ y) & z)
    });
    let third = [[d, h, c, g], [b, f, a, e]].map(|half| add_to_all(half, 0x6ED9_EBA1));
    md4_round(&mut mixed, third, [3, 9, 11, 15], |x, y, z| x ^ y ^ z);
    for (old, new) in state.iter_mut().zip(mixed) {
        *old = old.wrapping_add(new);
    }
}

fn add_to_all(words: [u32; 4], constant: u32) -> [u32; 4] {
    words.map(|word| word.wrapping_add(constant))
}

/// One round of the shortened MD4. Inlined, so that shifts and function are constants in it: every
/// index lookup hashes a name, and a leaf split hashes all names of the leaf.
#[inline(always)]
fn md4_round(
    state: &mut [u32; 4],
    words: [[u32; 4]; 2],
    shifts: [u32; 4],
    function: impl Fn(u32, u32, u32) -> u32,
) {
    let [mut a, mut b, mut c, mut d] = *state;
    for half in words {
        for (word, shift) in half.into_iter().zip(shifts) {
            let sum = a.wrapping_add(function(b, c, d)).wrapping_add(word);
            (a, b, c, d) = (d, sum.rotate_left(shift), b, c);
        }
    }
    *state = [a, b, c, d];
}

fn tea(state: &mut [u32; 4], key: &[u32; 4]) {
    let [first, second, ..] = state;
    let [a, b, c, d] = *key;
    let (mut left, mut right) = (*first, *second);
    let mut sum = 0_u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        left = left.wrapping_add(tea_half(right, sum, a, b));
        right = right.wrapping_add(tea_half(left, sum, c, d));
    }
    *first = first.wrapping_add(left);
    *second = second.wrapping_add(right);
}

fn tea_half(value: u32, sum: u32, high: u32, low: u32) -> u32 {
    (value << 4).wrapping_add(high) ^ value.wrapping_add(sum) ^ (value >> 5).wrapping_add(low)
}

#[cfg(test)]
mod tests;
