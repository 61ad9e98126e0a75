//! Seedable pseudorandom generator (splitmix64) for reproducible runs. Not for secrets.
//!
//! References: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (splitmix64);
//! Lemire, "Fast random integer generation in an interval".

use uext4_num::low_u64;

/// A splitmix64 generator; equal seeds give equal streams, on every machine and version.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of numbers that `seed` determines.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }
    /// The next 64 bits of the stream, uniformly distributed.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number in `0..end`, close enough to uniform for tests and policies; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        low_u64((u128::from(self.next_u64()) * u128::from(end)) >> 64)
    }
    /// True `numerator` times out of `denominator`.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
    /// Fills `bytes` from the stream, eight bytes per number.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
    /// An independent stream, for a thread or a subsystem of its own.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_is_the_published_one() {
        let mut rng = Rng::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        let known = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, known);
    }

    #[test]
    fn bounded_numbers_cover_their_range_evenly() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[rng.below(10) as usize] += 1);
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!((0..1000).filter(|_| rng.chance(1, 1)).count(), 1000);
    }

    #[test]
    fn every_byte_is_filled() {
        let mut bytes = [0; 21];
        Rng::new(3).fill(&mut bytes);
        assert!(bytes.iter().filter(|b| **b == 0).count() < 3);
    }
}
