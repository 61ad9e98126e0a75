//! Cookies: positions in the listing of a directory.
//!
//! Layout: 0 is the start. In hash order 1 is after "." and 2 after ".."; an entry's position is 3
//! plus its hash: 31 bits of major hash, then 32 bits that distinguish names of one major hash (the
//! minor hash, or a checksum of the name where the hash function has none). In linear order a
//! position is a byte offset. All positions fit 63 bits.
//! Invariants: a position in hash order depends on the name only, so no change of the directory
//! moves it.

use uext4_format::crc32c;
use uext4_format::hash::{DirHasher, HashVersion};

/// After "." in hash order.
pub(super) const AFTER_DOT: u64 = 1;
/// After ".." in hash order.
pub(super) const AFTER_DOTS: u64 = 2;
const FIRST: u64 = 3;

/// The position of the entry `name`.
pub(super) fn position(hasher: &DirHasher, name: &[u8]) -> u64 {
    let hash = hasher.hash(name);
    let apart = match hasher.version {
        HashVersion::Legacy => crc32c(!0, name),
        HashVersion::HalfMd4 | HashVersion::Tea => hash.minor,
    };
    FIRST + (u64::from(hash.major >> 1) << 32 | u64::from(apart))
}

/// The lowest major hash of entries from `cookie` on; `None` when none can follow.
pub(super) fn major(cookie: u64) -> Option<u32> {
    let hash = cookie.saturating_sub(FIRST) >> 32;
    u32::try_from(hash << 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::hash::CharSign;

    #[test]
    fn positions_follow_the_major_hash_and_fit_an_offset() {
        for version in [HashVersion::Legacy, HashVersion::HalfMd4, HashVersion::Tea] {
            let hasher = DirHasher {
                version,
                sign: CharSign::Signed,
                seed: [1, 2, 3, 4],
            };
            for i in 0..1000_u32 {
                let name = format!("name-{i}");
                let cookie = position(&hasher, name.as_bytes());
                assert!(cookie > AFTER_DOTS && i64::try_from(cookie + 1).is_ok());
                assert_eq!(major(cookie), Some(hasher.hash(name.as_bytes()).major));
            }
        }
        assert_eq!(major(0), Some(0));
        assert_eq!(major(u64::MAX), None);
    }
}
