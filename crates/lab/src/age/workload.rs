//! The aging workload as a stream of steps: files are created and removed in the proportions of a
//! profile, the same ones for every system.
//!
//! First files are created up to the utilisation. From then on, files are removed until the next
//! one fits, so the utilisation is held. A removed file is one of the age bucket that exceeds its
//! share in the profile most, as in Geriatrix. The age of a file is the number of files created
//! since, relative to the number of all files created so far.

use super::profile::Profile;
use uext4_testkit::rng::Rng;

pub(super) const BLOCK_BYTES: u64 = 4096;
/// A file takes at most this fraction of the space for data.
const LARGEST: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Position of its directory in [`Profile::parents`].
    pub(super) dir: usize,
    /// Number of files created before it.
    pub(super) nr: u64,
    pub(super) size_bytes: u64,
}

impl File {
    pub(super) fn name(&self) -> String {
        format!("file.{}", self.nr)
    }

    fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(BLOCK_BYTES)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Create(File),
    Remove(File),
}

/// Size of a workload in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    /// Blocks that the volume has for data.
    pub(super) capacity_blocks: u64,
    /// Blocks that all live files may have together.
    pub(super) used_blocks: u64,
    /// Blocks of all created files together, at the end.
    pub(super) written_blocks: u64,
}

/// An iterator of steps, and the files that are there after them.
pub(super) struct Workload {
    profile: &'static Profile,
    rng: Rng,
    amount: Amount,
    /// In the order of creation.
    live: Vec<File>,
    used_blocks: u64,
    written_blocks: u64,
    created: u64,
    /// The next file, until there is space for it.
    next: Option<File>,
}

impl Workload {
    pub(super) fn new(profile: &'static Profile, amount: Amount, seed: u64) -> Self {
        Self {
            profile,
            rng: Rng::new(seed),
            amount,
            live: Vec::new(),
            used_blocks: 0,
            written_blocks: 0,
            created: 0,
            next: None,
        }
    }

    /// The files that are there, in the order of creation.
    pub(super) fn live(&self) -> &[File] {
        &self.live
    }

    fn draw(&mut self) -> File {
        let max = self.amount.capacity_blocks * BLOCK_BYTES / LARGEST;
        File {
            dir: self.profile.dir(&mut self.rng),
            nr: self.created,
            size_bytes: self.profile.size_bytes(max, &mut self.rng),
        }
    }

    fn create(&mut self, file: File) -> Step {
        self.created += 1;
        self.used_blocks += file.blocks();
        self.written_blocks += file.blocks();
        self.live.push(file);
        Step::Create(file)
    }

    fn remove(&mut self) -> Option<Step> {
        let at = self.victim()?;
        let file = self.live.remove(at);
        self.used_blocks -= file.blocks();
        Some(Step::Remove(file))
    }

    /// Position of a random file of the age bucket that exceeds its share most.
    fn victim(&mut self) -> Option<usize> {
        let total = self.live.len() as u64;
        let mut end = self.live.len();
        let mut most = None;
        for (age, (weight, weights)) in self.profile.ages(self.created) {
            let oldest = self.created - age;
            let start = self.live.partition_point(|file| file.nr < oldest).min(end);
            let count = (end - start) as u64;
            let surplus = i128::from(count * weights) - i128::from(weight * total);
            if count > 0 && most.as_ref().is_none_or(|(other, _)| surplus > *other) {
                most = Some((surplus, start..end));
            }
            end = start;
        }
        let (_, bucket) = most?;
        Some(bucket.start + self.rng.below(bucket.len() as u64) as usize)
    }
}

impl Iterator for Workload {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let next = match self.next.take() {
            Some(file) => file,
            None if self.written_blocks >= self.amount.written_blocks => return None,
            None => self.draw(),
        };
        if self.used_blocks + next.blocks() <= self.amount.used_blocks {
            return Some(self.create(next));
        }
        self.next = Some(next);
        self.remove()
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile;
    use super::*;

    const AMOUNT: Amount = Amount {
        capacity_blocks: 60_000,
        used_blocks: 48_000,
        written_blocks: 1_200_000,
    };

    fn workload(seed: u64) -> Workload {
        Workload::new(profile::of_name("agrawal").unwrap(), AMOUNT, seed)
    }

    #[test]
    fn a_seed_gives_the_same_steps_again_and_another_seed_others() {
        let first = |seed| workload(seed).take(20_000).collect::<Vec<_>>();
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
    }

    /// Repeats the steps on a plain set.
    #[test]
    fn the_live_files_are_those_created_and_not_removed() {
        let mut workload = workload(3);
        let mut plain = std::collections::BTreeMap::new();
        let (mut used, mut written) = (0, 0);
        for step in workload.by_ref() {
            match step {
                Step::Create(file) => {
                    used += file.blocks();
                    written += file.blocks();
                    assert_eq!(plain.insert(file.nr, file), None);
                }
                Step::Remove(file) => {
                    used -= file.blocks();
                    assert_eq!(plain.remove(&file.nr), Some(file));
                }
            }
            assert!(used <= AMOUNT.used_blocks);
        }
        assert!(plain.values().eq(workload.live()));
        assert!(written >= AMOUNT.written_blocks);
        assert!(used > AMOUNT.used_blocks * 98 / 100, "{used} blocks");
    }

    #[test]
    fn ages_approach_the_profile() {
        let mut workload = workload(4);
        workload.by_ref().for_each(drop);
        let live = workload.live();
        let share = |age_permille: u64| {
            let oldest = workload.created - workload.created * age_permille / 1000;
            live.iter().filter(|file| file.nr >= oldest).count() * 100 / live.len()
        };
        // In the profile 440 of 464 files are in the youngest 12.86 %, 294 in the youngest 4.49 %.
        let (eighth, twentieth) = (share(129), share(45));
        assert!((92..=97).contains(&eighth), "{eighth} %");
        assert!((58..=68).contains(&twentieth), "{twentieth} %");
    }
}
