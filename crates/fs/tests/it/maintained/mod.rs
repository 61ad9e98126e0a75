//! Seeded lives of file systems: used, grown, shrunk, defragmented, compacted, tuned, converted,
//! shared, given extents, other journals and checksums.
//!
//! Each life has a kind, files from a stream of operations, and some steps. After each step e2fsck
//! and `check` find nothing, and the tree is the same; a step of use makes a new one. In some lives
//! one step is cut at every write. A failure names the seed.
//!
//! `UEXT4_LIVES=N` and `UEXT4_LIVES_CUT=N` set how many, `UEXT4_LIVES_FIRST` the first seed.

mod cuts;
mod life;
mod step;

use life::Life;
use std::ops::Range;
use step::Step;
use uext4_testkit::manifest::Policy;
use uext4_testkit::oracle::KernelMount;

/// Steps of one life.
const STEPS: u64 = 5;

/// Lives that have steps of all kinds.
const ALL_KINDS_LIVES: u64 = 100;

/// Prints the seed of a life that ends in a panic.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("UEXT4_LIVES_FIRST={} repeats it", self.0);
        }
    }
}

fn seeds(variable: &str, default: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).map(|text| text.parse().expect("a number"));
    let first = number("UEXT4_LIVES_FIRST").unwrap_or(0);
    first..first + number(variable).unwrap_or(default)
}

#[test]
fn files_stay_through_all_maintenance() {
    let mut done = [0; Step::KINDS];
    let seeds = seeds("UEXT4_LIVES", 6);
    let is_small = seeds.end - seeds.start < ALL_KINDS_LIVES;
    for seed in seeds {
        let _named = Named(seed);
        let mut life = Life::begin(seed);
        for nr in 0..STEPS {
            let step = life.draw();
            let what = format!("seed {seed}, {}, step {nr}, {step:?}", life.kind_name());
            if life
                .take(&step)
                .unwrap_or_else(|error| panic!("{what}: {error}"))
            {
                done[step.number()] += 1;
            }
            life.judge(&what);
        }
        if seed % 4 == 0 && life.has_kernel() && KernelMount::available_or_skip("maintenance") {
            life.judge_by_kernel(&format!("seed {seed}"));
        }
    }
    assert!(is_small || done.iter().all(|count| *count > 0), "{done:?}");
}

#[test]
fn a_crash_at_any_write_of_a_step_keeps_all_files() {
    for seed in seeds("UEXT4_LIVES_CUT", 1) {
        if let Some(failure) = cuts::first_failure(seed, cuts::Flushes::Heeded) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// The control: a device that forgets what was not flushed, and says that it flushed, is noticed.
#[test]
fn a_step_without_flushes_is_noticed() {
    let noticed = (0..8).any(|seed| cuts::first_failure(seed, cuts::Flushes::Ignored).is_some());
    assert!(noticed, "no cut was noticed");
}

/// The control of the trees.
#[test]
fn a_changed_file_is_noticed() {
    let life = Life::begin(3);
    let tree = life.tree().clone();
    life.image()
        .mounted(|fs| fs.paths().write("/another", "file").unwrap());
    assert!(
        !tree
            .diff(&life.image().tree(), &Policy::default())
            .is_empty()
    );
}
