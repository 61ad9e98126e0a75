//! Random identifiers and the clock, as defaults for options.

use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// A random UUID of version 4.
///
/// The standard library seeds its hash maps from the system's random numbers. A keyed hash of two
/// constants under fresh keys is as random as the keys, which suffices for identifiers.
pub fn random_uuid() -> [u8; 16] {
    let keys = RandomState::new();
    let high = u128::from(keys.hash_one(1u8));
    let low = u128::from(keys.hash_one(2u8));
    let mut uuid = (high << 64 | low).to_be_bytes();
    uuid[6] = uuid[6] & 0x0F | 0x40;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}

/// Seconds since 1970; 0 if the clock is before that.
pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}
