//! The crash suite at the size of a test run; `cargo xtask crash` does more.
//!
//! `UEXT4_CRASH_SEEDS` and `UEXT4_CRASH_OPS` enlarge it, `UEXT4_CRASH_CASE` repeats one crash.

use std::collections::BTreeSet;

use uext4_judge::crash::{
    Case, Config, Effort, Figures, Judge, Plant, Plot, Run, record, run_case, run_suite,
    run_threads, run_torn_superblock, run_unjournaled,
};
use uext4_testkit::oracle::KernelMount;

/// Runs within which a planted bug must be found.
const PLANT_SEEDS: u64 = 6;

fn number(variable: &str, default: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().expect("the variable holds a number"),
        Err(_) => default,
    }
}

/// Kinds that must occur among the successful recorded steps.
const KINDS: [&str; 42] = [
    "Create",
    "Mkdir",
    "Mkfifo",
    "Symlink",
    "Link",
    "Unlink",
    "Rmdir",
    "Rename Replace",
    "Rename NoReplace",
    "Rename Exchange",
    "Rename Whiteout",
    "Write",
    "Write at 0",
    "Truncate",
    "Chmod",
    "Chown",
    "SetXattr",
    "RemoveXattr",
    "Fsync",
    "Fdatasync",
    "Sync",
    "Tmpfile",
    "WriteHeld",
    "LinkHeld",
    "UnlinkHeld",
    "Close",
    "SetAcl",
    "Utimes",
    "Fallocate Allocate",
    "Fallocate PunchHole",
    "Fallocate AllocateKeepSize",
    "Fallocate ZeroRange",
    "Fallocate ZeroRangeKeepSize",
    "Fallocate WriteZeroes",
    "Fallocate CollapseRange",
    "Fallocate InsertRange",
    "Flag",
    "Relocate",
    "Defragment",
    "Compact",
    "Trim",
    "Freeze",
];

/// Recorded steps of a run.
fn steps() -> usize {
    number("UEXT4_CRASH_OPS", 60)
}

/// The runs of one kind of file system, with a different workload per kind.
fn runs(config: Config) -> impl Iterator<Item = Run> {
    let place = Config::ALL.iter().position(|other| *other == config);
    let first = place.map_or(0, |place| place as u64 * 100);
    let seeds = number("UEXT4_CRASH_SEEDS", 2) as u64;
    (first..first + seeds).map(move |seed| Run::of(config, seed, steps()))
}

/// Runs the suite on one kind of file system.
fn suite(name: &str) {
    let config = Config::named(name).expect("a known configuration");
    for run in runs(config) {
        let seed = run.seed;
        match run_suite(run, &Effort::SAMPLE) {
            Ok(figures) => println!("{name} seed {seed}: {figures}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn ext4() {
    suite("ext4");
}

#[test]
fn ext4_4k() {
    suite("ext4-4k");
}

#[test]
fn orphan_list() {
    suite("orphan-list");
}

#[test]
fn no_checksums() {
    suite("no-checksums");
}

#[test]
fn ext3() {
    suite("ext3");
}

#[test]
fn inline() {
    suite("inline");
}

#[test]
fn value_inodes() {
    suite("value-inodes");
}

#[test]
fn bigalloc() {
    suite("bigalloc");
}

#[test]
fn fast_commit() {
    suite("fast-commit");
}

#[test]
fn quota() {
    suite("quota");
}

#[test]
fn external_journal() {
    // e2fsck wants a device for the journal.
    if KernelMount::available_or_skip("external_journal") {
        suite("external-journal");
    }
}

#[test]
fn discard() {
    suite("discard");
}

#[test]
fn sync() {
    suite("sync");
}

#[test]
fn linear() {
    suite("linear");
}

#[test]
fn optimized() {
    suite("optimized");
}

#[test]
fn freespace_tree() {
    suite("freespace-tree");
}

#[test]
fn bigalloc_optimized() {
    suite("bigalloc-optimized");
}

#[test]
fn bigalloc_linear() {
    suite("bigalloc-linear");
}

#[test]
fn full_linear() {
    suite("full-linear");
}

#[test]
fn full_optimized() {
    suite("full-optimized");
}

#[test]
fn full_tree() {
    suite("full-tree");
}

#[test]
fn full_bigalloc() {
    suite("full-bigalloc");
}

#[test]
fn nodelalloc() {
    suite("nodelalloc");
}

#[test]
fn nodelalloc_ext3() {
    suite("nodelalloc-ext3");
}

#[test]
fn nodelalloc_bigalloc() {
    suite("nodelalloc-bigalloc");
}

#[test]
fn full_nodelalloc() {
    suite("full-nodelalloc");
}

#[test]
fn fast_commit_4k() {
    suite("fast-commit-4k");
}

#[test]
fn fast_commit_nodelalloc() {
    suite("fast-commit-nodelalloc");
}

/// Repeats the crash that `UEXT4_CRASH_CASE` names.
#[test]
fn the_case() {
    let Ok(text) = std::env::var("UEXT4_CRASH_CASE") else {
        return;
    };
    let case: Case = text.parse().expect("a case");
    match run_case(case) {
        Ok(figures) => println!("{case}: {figures}"),
        Err(error) => panic!("{error:?}"),
    }
}

/// The suite finds planted bugs.
#[test]
fn planted_bugs_are_caught() {
    for plant in [
        Plant::AllFlushes,
        Plant::BeforeCommitBlock,
        Plant::Durability,
    ] {
        let caught = (1..=PLANT_SEEDS).find_map(|seed| violation(plant, seed));
        let text = caught.unwrap_or_else(|| panic!("{plant:?} is not caught"));
        println!("{plant:?}: {text}");
    }
}

#[test]
fn lost_data_of_fdatasync_are_caught() {
    let config = Config::named("nodelalloc").expect("a known configuration");
    let run = |seed| Run::of_plot(config, Plot::Files, seed);
    let violation = |seed| violation_of(Plant::BeforeReturn, run(seed));
    let caught = (1..=PLANT_SEEDS).find_map(violation);
    println!("{}", caught.expect("it is caught"));
}

#[test]
fn planted_bugs_of_fast_commits_are_caught() {
    let config = Config::named("fast-commit-nodelalloc").expect("a known configuration");
    for plant in [
        Plant::BeforeFastCommit,
        Plant::AfterFastCommit,
        Plant::NoRemovedRanges,
    ] {
        let run = |seed| Run::of_plot(config, Plot::Files, seed);
        let caught = (1..=PLANT_SEEDS).find_map(|seed| violation_of(plant, run(seed)));
        let text = caught.unwrap_or_else(|| panic!("{plant:?} is not caught"));
        println!("{plant:?}: {text}");
    }
}

/// The violation found by our own recovery alone. Without delayed allocation there are more
/// commits.
fn violation(plant: Plant, seed: u64) -> Option<String> {
    let config = Config::named("nodelalloc").expect("a known configuration");
    violation_of(plant, Run::of(config, seed, 60))
}

fn violation_of(plant: Plant, run: Run) -> Option<String> {
    let recording = record(run).expect("a run");
    let recording = plant.into_recording(recording).expect("a worse recording");
    let mut judge = Judge::new(recording);
    let error = judge.all(&Effort::OURS).err()?;
    Some(format!("after {}: {error:#}", judge.figures))
}

#[test]
fn what_threads_synced_is_there() {
    for (name, seed) in [
        ("ext4", 1),
        ("orphan-list", 2),
        ("bigalloc", 3),
        ("inline", 4),
        ("fast-commit", 5),
    ] {
        let config = Config::named(name).expect("a known configuration");
        match run_threads(config, seed, 40) {
            Ok(figures) => println!("{name} seed {seed}: {figures:?}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn every_operation_is_crashed() {
    let all = Config::ALL.into_iter().flat_map(runs);
    let done: BTreeSet<String> = all
        .flat_map(|run| record(run).expect("a run").done)
        .collect();
    let missing: Vec<_> = KINDS.iter().filter(|kind| !done.contains(**kind)).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} never succeeds; what does: {done:?}"
    );
}

#[test]
fn without_a_journal_nothing_panics() {
    for seed in 1..=2 {
        match run_unjournaled(Run::of(Config::NO_JOURNAL, seed, steps())) {
            Ok(figures) => {
                println!("seed {seed}: {figures:?}");
                assert!(figures.synced > 0, "no sync was crashed");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn a_torn_superblock_is_refused_and_repaired() {
    for name in ["ext4", "no-checksums"] {
        let config = Config::named(name).expect("a known configuration");
        match run_torn_superblock(Run::of(config, 1, steps())) {
            Ok(figures) => {
                println!("{name}: {figures:?}");
                assert_eq!(figures.refused > 0, name == "ext4", "{figures:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A seed with which the operation begins in one transaction and ends in another.
const CROSSING_SEED: u64 = 14;

/// Plays a plot and checks its crashes.
fn crash_plot(name: &str, plot: Plot, seed: u64, effort: &Effort) -> Figures {
    let config = Config::named(name).expect("a known configuration");
    let run = Run::of_plot(config, plot, seed);
    match run_suite(run, effort) {
        Ok(figures) => {
            println!("{run}: {figures}");
            figures
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn space_held_behind_the_end_is_crashed() {
    let effort = Effort {
        cut: 2,
        check: 1,
        ..Effort::SAMPLE
    };
    for (name, seed) in [("ext4", 1), ("inline", 3), ("bigalloc", 4)] {
        crash_plot(name, Plot::Beyond, seed, &effort);
    }
}

#[test]
fn moved_data_are_crashed() {
    for (name, seed) in [
        ("ext4", 1),
        ("ext3", 2),
        ("bigalloc", 3),
        ("fast-commit", 4),
    ] {
        crash_plot(name, Plot::Move, seed, &Effort::SAMPLE);
    }
}

/// A copy that may reach the disk after the commit of the map is caught.
#[test]
fn lost_copies_of_moved_data_are_caught() {
    let config = Config::named("nodelalloc").expect("a known configuration");
    let run = |seed| Run::of_plot(config, Plot::Move, seed);
    let violation = |seed| violation_of(Plant::BeforeCommitBlock, run(seed));
    let caught = (1..=PLANT_SEEDS).find_map(violation);
    println!("{}", caught.expect("it is caught"));
}

/// The kernel finishes a half-done truncate with the same result as our engine, except the time.
#[test]
fn the_kernel_finishes_the_same_cut() {
    let effort = Effort {
        cut: 4,
        kernel: 1,
        ..Effort::OURS
    };
    crash_plot("ext4", Plot::Truncate, 9500, &effort);
}

#[test]
fn fast_commits_are_crashed() {
    for name in ["fast-commit", "fast-commit-4k", "fast-commit-nodelalloc"] {
        for plot in [Plot::Files, Plot::Names] {
            let figures = crash_plot(name, plot, 3, &Effort::SAMPLE);
            assert!(figures.fast_commits > 10, "{name}: {figures}");
            assert!(figures.by_e2fsck > 4 * figures.refused, "{name}: {figures}");
        }
    }
}

#[test]
fn long_operations_are_cut_inside() {
    for plot in Plot::LONG {
        let effort = match plot {
            // This plot writes zeros to the device, one range after the other.
            Plot::WriteZeroes => Effort {
                cut: 50,
                ..Effort::PLOT
            },
            _ => Effort::PLOT,
        };
        let figures = crash_plot("nodelalloc", plot, CROSSING_SEED, &effort);
        assert!(figures.inside > 0, "no commit inside {}", plot.name());
    }
}

#[test]
fn long_operations_of_block_tables_are_cut_inside() {
    for plot in [Plot::Truncate, Plot::Reclaim] {
        let figures = crash_plot("ext3", plot, CROSSING_SEED, &Effort::PLOT);
        assert!(figures.inside > 0, "no commit inside {}", plot.name());
    }
}

#[test]
fn a_full_orphan_file_a_deep_index_and_nodes_are_crashed() {
    crash_plot("few-orphans", Plot::Orphans, 1, &Effort::SAMPLE);
    crash_plot("ext4", Plot::Index, 1, &Effort::SAMPLE);
    crash_plot("ext4", Plot::Nodes, 1, &Effort::SAMPLE);
}
