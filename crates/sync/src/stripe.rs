//! Sharded maps by number with locality: each run of `1 << STRIPE_BITS` numbers shares a shard and
//! is contiguous in its table. A thread that works through its own numbers rarely contends.
//!
//! Not here: keys that an attacker chooses. Block and inode numbers have a bounded range.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use uext4_num::low_u16;

/// Odd factors: the shard and the place in a table must not depend on the same mix.
const SHARD_MIX: u64 = 0x9E37_79B9_7F4A_7C15;
const PLACE_MIX: u64 = 0xD6E8_FEB8_6659_FD93;
/// The tag bits by which a table tells entries apart; the other bits place them.
const UPPER: u64 = !0 << 57;

/// A map with integer keys; runs of `1 << STRIPE_BITS` numbers stay together.
pub type StripeMap<K, V, const STRIPE_BITS: u32> =
    HashMap<K, V, BuildHasherDefault<StripeHasher<STRIPE_BITS>>>;

/// The shard of `number` among `shards`, a power of two, at least 2: the upper bits of the mix,
/// which spread neighbouring runs evenly.
pub fn stripe_shard<const STRIPE_BITS: u32>(number: u64, shards: usize) -> usize {
    debug_assert!(shards.is_power_of_two() && (2..=1 << 16).contains(&shards));
    let mixed = (number >> STRIPE_BITS).wrapping_mul(SHARD_MIX);
    usize::from(low_u16(mixed >> (u64::BITS - shards.trailing_zeros())))
}

/// Hasher of [`StripeMap`]: hashes of the numbers of one run are side by side in a table.
#[derive(Default)]
pub struct StripeHasher<const STRIPE_BITS: u32>(u64);

impl<const STRIPE_BITS: u32> Hasher for StripeHasher<STRIPE_BITS> {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are one integer each");
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        let stripe = (number >> STRIPE_BITS).wrapping_mul(PLACE_MIX) >> 32;
        let place = number ^ (stripe << STRIPE_BITS);
        self.0 = number.wrapping_mul(SHARD_MIX) & UPPER | place & !UPPER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hash(number: u64) -> u64 {
        let mut hasher = StripeHasher::<6>::default();
        hasher.write_u64(number);
        hasher.finish()
    }

    #[test]
    fn neighbours_stay_together_and_stripes_do_not() {
        let places: HashSet<u64> = (640..704)
            .map(|number| hash(number) >> 6 & 0xffff)
            .collect();
        assert_eq!(places.len(), 1, "64 neighbours in 64 places side by side");
        let shards = |numbers: std::ops::Range<u64>, step| {
            let shard = |number| stripe_shard::<6>(number, 64);
            let all: HashSet<usize> = numbers.step_by(step).map(shard).collect();
            all.len()
        };
        assert_eq!(shards(640..704, 1), 1);
        assert_eq!(shards(0..64 * 1000, 64), 64);
        let places: HashSet<u64> = (0..1000).map(|nr| hash(nr * 64) & 0xf_ffff).collect();
        assert!(places.len() > 900, "{} of 1000 places", places.len());
    }

    #[test]
    fn a_map_keeps_what_is_put_in() {
        let mut map: StripeMap<u64, u64, 8> = StripeMap::default();
        (0..5000).for_each(|number| _ = map.insert(number * 37, number));
        assert!((0..5000).all(|number| map.get(&(number * 37)) == Some(&number)));
        assert_eq!(map.get(&1), None);
    }
}
