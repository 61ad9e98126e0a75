//! Parameters of a run, drawn from its seed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uext4::device::{Cause, Delay, MemDevice, Operation, When};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{OnError, Tuning};
use uext4_sync::Rng;

use crate::image;

/// Size of the file systems in MiB.
const MIB: u64 = 24;

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A power cut.
    Cut,
    /// An unmount while the device fails.
    Unmount,
    /// An unmount after the device works again.
    Healthy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Single,
    Random,
    Lasting,
}

/// Error behaviour, and where it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnErrors {
    does: OnError,
    /// If false, the option `errors=` sets it.
    by_superblock: bool,
}

/// The mount option refuses `panic`.
const ON_ERRORS: [OnErrors; 5] = [
    OnErrors::new(OnError::Continue, false),
    OnErrors::new(OnError::RemountReadOnly, false),
    OnErrors::new(OnError::Continue, true),
    OnErrors::new(OnError::RemountReadOnly, true),
    OnErrors::new(OnError::Panic, true),
];

impl OnErrors {
    const fn new(does: OnError, by_superblock: bool) -> Self {
        Self {
            does,
            by_superblock,
        }
    }

    pub(super) fn go_on(self) -> bool {
        self.does == OnError::Continue
    }
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) has_journal: bool,
    pub(super) on_errors: OnErrors,
    pub(super) delays_allocation: bool,
    pub(super) operation: Operation,
    pub(super) cause: Cause,
    pub(super) pattern: Pattern,
    pub(super) when: When,
    pub(super) delay: Option<Delay>,
    pub(super) end: End,
    /// An fsync may write a fast commit.
    pub(super) fast_commits: bool,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let pattern = pick(rng, &[Pattern::Single, Pattern::Random, Pattern::Lasting]);
        let delay = Delay {
            seed: rng.next_u64(),
            per_mille: 100,
            longest: Duration::from_micros(300),
        };
        Self {
            has_journal: rng.chance(1, 2),
            on_errors: pick(rng, &ON_ERRORS),
            delays_allocation: rng.chance(1, 2),
            operation: pick(rng, &[Operation::Read, Operation::Write, Operation::Flush]),
            cause: pick(rng, &[Cause::Io, Cause::Io, Cause::NoSpace]),
            pattern,
            when: when(rng, pattern),
            delay: rng.chance(1, 2).then_some(delay),
            end: pick(rng, &[End::Cut, End::Unmount, End::Healthy]),
            fast_commits: rng.chance(1, 2),
        }
    }

    /// Mount options.
    pub(super) fn options(&self) -> String {
        let errors = match (self.on_errors.by_superblock, self.on_errors.does) {
            (true, _) => "",
            (false, OnError::Continue) => "errors=continue",
            (false, _) => "errors=remount-ro",
        };
        let allocation = match self.delays_allocation {
            true => "delalloc",
            false => "nodelalloc",
        };
        [errors, allocation].join(",").trim_matches(',').to_owned()
    }

    /// The initial file system, created once per shape.
    pub(super) fn template(&self) -> &'static MemDevice {
        static MADE: [OnceLock<Arc<MemDevice>>; 16] = [const { OnceLock::new() }; 16];
        let says = match self.on_errors {
            OnErrors {
                by_superblock: false,
                ..
            } => OnError::Superblock,
            OnErrors { does, .. } => does,
        };
        let features = match (self.has_journal, self.fast_commits) {
            (false, _) => "^has_journal,^orphan_file",
            (true, false) => "",
            (true, true) => "fast_commit",
        };
        let shape = usize::from(self.has_journal) * 2 + usize::from(self.fast_commits);
        MADE[shape * 4 + says as usize].get_or_init(|| made(features, says))
    }
}

fn when(rng: &mut Rng, pattern: Pattern) -> When {
    let after = rng.below(60);
    match pattern {
        Pattern::Single => When::Counted { after, count: 1 },
        Pattern::Lasting => When::Counted {
            after,
            count: u64::MAX,
        },
        Pattern::Random => When::Random {
            seed: rng.next_u64(),
            per_mille: pick(rng, &[5, 20, 100]),
        },
    }
}

fn made(features: &str, says: OnError) -> Arc<MemDevice> {
    let mut options = MkfsOptions::new(Preset::Ext4);
    // UUID and hash seed are fixed, so that the run's seed alone reproduces it.
    (options.uuid, options.hash_seed) = (Some([0x5a; 16]), Some([0x33; 16]));
    let known = options.features.apply_list(features);
    known.expect("features that are known");
    let device = image::fresh(MIB, &options);
    let tuning = Tuning {
        on_error: Some(says),
        ..Tuning::default()
    };
    let fs = image::mount(&device);
    fs.tune(&tuning).expect("a field of the superblock");
    fs.unmount().expect("memory does not fail");
    device
}
