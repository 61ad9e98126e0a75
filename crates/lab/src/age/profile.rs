//! Profiles of aged file systems: sizes, ages and directory depths of files, from published
//! studies.
//!
//! The numbers are the profiles of the same names that Geriatrix ships (Kadekodi, Nagarajan,
//! Ganger, Gibson: "Geriatrix: Aging what you see and what you don't see", USENIX ATC 2018), which
//! are taken from histograms of the studies. Sizes and ages are upper bounds of buckets; within a
//! bucket a size is drawn uniformly.

use uext4_testkit::rng::Rng;

/// Upper bound of a bucket, and its weight by number of files.
type Bucket = (u64, u64);

/// Number of trees of directories.
const TREES: usize = 4;

#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    /// Sizes in bytes, ascending.
    sizes: &'static [Bucket],
    /// Ages, ascending; only their ratios to the greatest one count.
    ages: &'static [Bucket],
    /// Number of directories of a depth, and weight of their files; the first depth is below the
    /// root.
    depths: &'static [Depth],
}

#[derive(Debug)]
struct Depth {
    weight: u64,
    dirs: usize,
}

const fn depth(weight: u64, dirs: usize) -> Depth {
    Depth { weight, dirs }
}

/// Agrawal, Bolosky, Douceur, Lorch: "A five-year study of file-system metadata", FAST 2007.
const AGRAWAL: Profile = Profile {
    name: "agrawal",
    sizes: &[
        (8, 1),
        (32, 7),
        (128, 16),
        (512, 40),
        (2048, 50),
        (8192, 46),
        (32_768, 35),
        (131_072, 20),
        (524_288, 10),
        (2_097_152, 4),
        (8_388_608, 1),
    ],
    // In hundredths of the unit of Geriatrix.
    ages: &[
        (1074, 1),
        (3100, 2),
        (8598, 8),
        (24_000, 20),
        (68_787, 44),
        (194_559, 75),
        (550_298, 144),
        (1_576_800, 146),
        (4_402_390, 23),
        (12_264_000, 1),
    ],
    depths: &[
        depth(1, 1),
        depth(2, 5),
        depth(14, 13),
        depth(15, 19),
        depth(23, 30),
        depth(24, 36),
        depth(42, 32),
        depth(22, 26),
        depth(15, 22),
        depth(12, 17),
        depth(7, 8),
        depth(4, 5),
        depth(3, 2),
        depth(2, 1),
        depth(1, 1),
    ],
};

/// Meyer, Bolosky: "A study of practical deduplication", FAST 2011. A depth without directories of
/// its own in the profile of Geriatrix has one here; the root has no files.
const MEYER: Profile = Profile {
    name: "meyer",
    sizes: &[
        (0, 100),
        (1, 20),
        (2, 40),
        (4, 30),
        (8, 30),
        (16, 100),
        (32, 100),
        (64, 170),
        (128, 220),
        (256, 400),
        (512, 680),
        (1024, 1180),
        (2048, 1230),
        (4096, 1150),
        (8192, 1020),
        (16_384, 900),
        (32_768, 700),
        (65_536, 680),
        (131_072, 440),
        (262_144, 300),
        (524_288, 230),
        (1_048_576, 175),
        (2_097_152, 130),
        (4_194_304, 100),
        (8_388_608, 60),
        (16_777_216, 40),
        (33_554_432, 20),
        (67_108_864, 10),
        (134_217_728, 10),
    ],
    ages: &[
        (2, 3),
        (4, 90),
        (6, 70),
        (8, 30),
        (10, 20),
        (12, 10),
        (14, 14),
        (16, 10),
        (18, 10),
        (20, 4),
        (22, 4),
        (24, 18),
        (26, 11),
        (28, 8),
        (30, 2),
        (32, 4),
        (34, 5),
        (36, 1),
        (38, 15),
        (40, 8),
        (42, 1),
        (44, 1),
        (46, 2),
        (48, 1),
    ],
    depths: &[
        depth(30, 32),
        depth(100, 64),
        depth(830, 32),
        depth(600, 16),
        depth(800, 8),
        depth(900, 4),
        depth(930, 2),
        depth(860, 1),
        depth(780, 1),
        depth(550, 1),
        depth(300, 1),
        depth(190, 1),
        depth(130, 1),
        depth(90, 1),
        depth(50, 1),
        depth(20, 1),
        depth(10, 1),
        depth(5, 1),
        depth(4, 1),
        depth(3, 1),
    ],
};

static ALL: [Profile; 2] = [AGRAWAL, MEYER];

/// Names of all profiles.
pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(|profile| profile.name).collect()
}

/// The profile of this name.
pub(crate) fn of_name(name: &str) -> Option<&'static Profile> {
    ALL.iter().find(|profile| profile.name == name)
}

/// Position of a random bucket, by weight.
fn pick(weights: impl Iterator<Item = u64> + Clone, rng: &mut Rng) -> usize {
    let mut left = rng.below(weights.clone().sum());
    let mut weights = weights;
    weights
        .position(|weight| {
            let hit = left < weight;
            left = left.saturating_sub(weight);
            hit
        })
        .unwrap_or(0)
}

impl Profile {
    /// The parent of each directory, `None` for the root; parents come first. The directories of
    /// the profile are there several times, so that the allocator of inodes spreads them.
    pub(super) fn parents(&self) -> Vec<Option<usize>> {
        let mut parents = Vec::new();
        for _ in 0..TREES {
            let mut above = 0..0;
            for depth in self.depths {
                let first = parents.len();
                parents.extend(
                    (0..depth.dirs)
                        .map(|nr| (!above.is_empty()).then(|| above.start + nr % above.len())),
                );
                above = first..parents.len();
            }
        }
        parents
    }

    /// A random directory: its position in [`Profile::parents`].
    pub(super) fn dir(&self, rng: &mut Rng) -> usize {
        let depth = pick(self.depths.iter().map(|depth| depth.weight), rng);
        let tree = rng.below(TREES as u64) as usize * dirs_of(self.depths);
        tree + dirs_of(&self.depths[..depth]) + rng.below(self.depths[depth].dirs as u64) as usize
    }

    /// A random size in bytes, from the buckets up to `max`.
    pub(super) fn size_bytes(&self, max: u64, rng: &mut Rng) -> u64 {
        let fitting = self.sizes.partition_point(|(size, _)| *size <= max).max(1);
        let bucket = pick(self.sizes[..fitting].iter().map(|(_, weight)| *weight), rng);
        let low = bucket
            .checked_sub(1)
            .map_or(0, |bucket| self.sizes[bucket].0 + 1);
        rng.between(low, self.sizes[bucket].0)
    }

    /// For each age bucket, youngest first: its greatest age relative to `age_max`, and its share
    /// of the files as a fraction `(weight, sum of the weights)`.
    pub(super) fn ages(&self, age_max: u64) -> impl Iterator<Item = (u64, (u64, u64))> {
        let oldest = self.ages.last().map_or(1, |(age, _)| *age);
        let sum: u64 = self.ages.iter().map(|(_, weight)| weight).sum();
        self.ages
            .iter()
            .map(move |(age, weight)| (age_max * age / oldest, (*weight, sum)))
    }
}

fn dirs_of(depths: &[Depth]) -> usize {
    depths.iter().map(|depth| depth.dirs).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_a_tree_with_ascending_buckets() {
        for profile in &ALL {
            let ascends = |buckets: &[Bucket]| buckets.windows(2).all(|two| two[0].0 < two[1].0);
            assert!(ascends(profile.sizes) && ascends(profile.ages));
            let parents = profile.parents();
            let comes_later =
                |(nr, parent): (usize, &Option<usize>)| parent.is_none_or(|of| of < nr);
            assert!(parents.iter().enumerate().all(comes_later));
            assert!(parents.len() > 100, "{}", profile.name);
            let mut rng = Rng::new(1);
            assert!((0..1000).all(|_| profile.dir(&mut rng) < parents.len()));
        }
    }

    #[test]
    fn sizes_are_drawn_by_weight_and_not_above_the_limit() {
        let mut rng = Rng::new(2);
        let mut draw = |max| AGRAWAL.size_bytes(max, &mut rng);
        let all: Vec<u64> = (0..20_000).map(|_| draw(u64::MAX)).collect();
        // 160 of 230 files have at most 8 KiB.
        let small = all.iter().filter(|size| **size <= 8192).count();
        assert!((13_600..14_200).contains(&small), "{small}");
        assert!(all.iter().any(|size| *size > 2 << 20));
        assert!((0..20_000).all(|_| draw(1 << 20) <= 524_288));
    }
}
