//! Deterministic pattern of used blocks, by group.
//!
//! Free runs of 1 to 8 blocks between used runs of 1 to 35, both uniformly distributed: one block
//! in five is free. A few groups also have one long free run.

use uext4_sync::Rng;

/// Words of a group's bitmap: groups have 32 768 blocks.
pub(super) const WORDS: usize = 512;
const BITS: u32 = WORDS as u32 * 64;
const USED_MAX: u64 = 35;
/// Length of the long run (32 MiB in blocks of 4 KiB), and its offset in the group.
const LONG_BLOCKS: u32 = 8192;
const LONG_START: u32 = 8192;
/// Most long runs of a file system.
const LONG_RUNS_MAX: u32 = 16;

/// Bits of one group, least significant first; set: used.
pub(super) type Bits = [u64; WORDS];

/// Index in its flexible group of the group with a long run.
const LONG_GROUP: u32 = 5;

/// True for the few, evenly spread groups with a long run; a file system of less than six groups
/// has none.
pub(super) fn has_long_run(group: u32, groups: u32, per_flex: u32) -> bool {
    let flexes = groups.div_ceil(per_flex);
    let runs = LONG_RUNS_MAX.min(flexes);
    let flex = group / per_flex;
    let slot = u64::from(flex) * u64::from(runs) / u64::from(flexes);
    let middle = (slot * 2 + 1) * u64::from(flexes) / (u64::from(runs) * 2);
    u64::from(flex) == middle && group % per_flex == LONG_GROUP.min(per_flex - 1)
}

/// Used blocks of a group, the same in each run.
pub(super) fn pattern(group: u32, long_run: bool) -> Bits {
    let mut bits = [!0; WORDS];
    let mut rng = Rng::new(u64::from(group) << 32);
    let mut at = 0;
    loop {
        let drawn = rng.next_u64();
        at += 1 + (((drawn >> 32) * USED_MAX) >> 32) as u32;
        let len = 1 + (drawn & 7) as u32;
        if at + len >= BITS {
            break;
        }
        clear(&mut bits, at, len);
        at += len;
    }
    if long_run {
        carve(&mut bits);
    }
    bits
}

/// Clears up to 8 bits.
fn clear(bits: &mut Bits, at: u32, len: u32) {
    let (word, shift) = ((at / 64) as usize, at % 64);
    let mask = (1u64 << len) - 1;
    bits[word] &= !(mask << shift);
    if shift + len > 64 {
        bits[word + 1] &= !(mask >> (64 - shift));
    }
}

/// Frees the long run, and marks its neighbours used.
fn carve(bits: &mut Bits) {
    let (first, end) = (LONG_START / 64, (LONG_START + LONG_BLOCKS) / 64);
    bits[first as usize..end as usize].fill(0);
    bits[first as usize - 1] |= 1 << 63;
    bits[end as usize] |= 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_runs(bits: &Bits) -> Vec<u32> {
        let mut runs = Vec::new();
        let mut len = 0;
        for at in 0..BITS {
            if bits[at as usize / 64] >> (at % 64) & 1 == 0 {
                len += 1;
            } else if len > 0 {
                runs.push(len);
                len = 0;
            }
        }
        runs
    }

    #[test]
    fn a_fifth_is_free_in_short_runs() {
        let (mut free, mut lens) = (0, [0; 9]);
        for group in 0..50 {
            for len in free_runs(&pattern(group, false)) {
                free += len;
                lens[len as usize] += 1;
            }
        }
        let share = f64::from(free) / f64::from(50 * BITS);
        assert!((0.19..0.21).contains(&share), "{share}");
        assert!(lens[1..].iter().all(|count| *count > 8000), "{lens:?}");
        assert_eq!(pattern(7, false), pattern(7, false));
    }

    #[test]
    fn long_runs_are_as_long_as_they_should_and_few() {
        let runs = free_runs(&pattern(3, true));
        assert_eq!(runs.iter().max(), Some(&LONG_BLOCKS));
        for (groups, expected) in [(491_520, 16), (512, 16), (64, 4), (16, 1), (3, 0)] {
            let long = (0..groups).filter(|group| has_long_run(*group, groups, 16));
            assert_eq!(long.count(), expected, "{groups} groups");
        }
    }
}
