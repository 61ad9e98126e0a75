//! Seeded faults under eight threads: no acknowledged byte is lost, and every error is reported.
//!
//! `UEXT4_FAULT_SEEDS=10000` sets the number of runs, `UEXT4_FAULT_SEED` the first; a failure names
//! its seed.

use crate::fault_model::{Due, Expected, Model};
use crate::image;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uext4::device::{Cause, Delay, Fault, Faulty, MemDevice, Operation, VolatileDevice, When};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions};
use uext4_sync::Rng;

const THREADS: usize = 8;
const STEPS: u64 = 25;
/// Of so many images e2fsck sees one.
const CHECK_EVERY: u64 = 16;

/// How the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By a power cut.
    Cut,
    /// Unmounted while the device fails.
    Unmount,
    /// Unmounted when the device is healthy again.
    Healthy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Single,
    Random,
    Lasting,
}

#[derive(Debug)]
struct Plan {
    has_journal: bool,
    options: &'static str,
    operation: Operation,
    pattern: Pattern,
    when: When,
    delay: Option<Delay>,
    end: End,
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        let pattern = pick(rng, &[Pattern::Single, Pattern::Random, Pattern::Lasting]);
        let after = rng.below(60);
        let when = match pattern {
            Pattern::Single => When::Counted { after, count: 1 },
            Pattern::Lasting => When::Counted {
                after,
                count: u64::MAX,
            },
            Pattern::Random => When::Random {
                seed: rng.next_u64(),
                per_mille: pick(rng, &[5, 20, 100]),
            },
        };
        let delay = Delay {
            seed: rng.next_u64(),
            per_mille: 100,
            longest: Duration::from_micros(300),
        };
        let lists = [
            "errors=continue",
            "errors=continue,nodelalloc",
            "errors=remount-ro",
            "errors=remount-ro,nodelalloc",
        ];
        Self {
            has_journal: rng.chance(1, 2),
            options: pick(rng, &lists),
            operation: pick(rng, &[Operation::Read, Operation::Write, Operation::Flush]),
            pattern,
            when,
            delay: rng.chance(1, 2).then_some(delay),
            end: pick(rng, &[End::Cut, End::Unmount, End::Healthy]),
        }
    }

    fn goes_on(&self) -> bool {
        self.options.starts_with("errors=continue")
    }
}

/// A fresh file system, made once.
fn template(has_journal: bool) -> &'static MemDevice {
    static MADE: [OnceLock<Arc<MemDevice>>; 2] = [OnceLock::new(), OnceLock::new()];
    MADE[usize::from(has_journal)].get_or_init(|| {
        let mut options = MkfsOptions::new(Preset::Ext4);
        if !has_journal {
            options
                .features
                .apply_list("^has_journal,^orphan_file")
                .unwrap();
        }
        image::fresh(24, &options)
    })
}

/// What a run came to.
#[derive(Default)]
struct Outcome {
    injected: u64,
    errors: u64,
    failed: Vec<String>,
}

struct Run {
    plan: Plan,
    cache: Arc<VolatileDevice>,
    faulty: Arc<Faulty>,
}

impl Run {
    fn new(rng: &mut Rng) -> Self {
        let plan = Plan::draw(rng);
        let cache = Arc::new(VolatileDevice::new(template(plan.has_journal)));
        let faulty = Arc::new(Faulty::over_cache(cache.clone()));
        Self {
            plan,
            cache,
            faulty,
        }
    }

    /// Eight threads while the device fails; what they know at the end.
    fn work(&self, fs: &Filesystem, rng: &mut Rng) -> Vec<Model> {
        let made = (0..THREADS).map(|id| Model::new(fs, id, rng.fork()));
        let mut models: Vec<Model> = made.collect();
        self.faulty.arm(Fault {
            operation: self.plan.operation,
            when: self.plan.when.clone(),
            cause: Cause::Io,
        });
        self.faulty.set_delay(self.plan.delay);
        std::thread::scope(|scope| {
            for model in &mut models {
                scope.spawn(|| (0..STEPS).for_each(|_| model.step(fs)));
            }
        });
        models
    }

    fn go(&self, rng: &mut Rng, checks: bool) -> Outcome {
        let options = MountOptions::default().parse(self.plan.options).unwrap();
        let fs = Filesystem::mount(self.faulty.clone(), options).unwrap();
        let models = self.work(&fs, rng);
        let mut outcome = Outcome {
            injected: self.faulty.injected(),
            errors: models.iter().map(|model| model.errors).sum(),
            failed: Vec::new(),
        };
        let expected: Vec<Expected> = models.into_iter().flat_map(Model::expected).collect();
        if self.plan.end != End::Unmount {
            self.faulty.disarm();
        }
        self.judge_mount(&fs, &mut outcome);
        let unmounted = match self.plan.end {
            End::Cut => {
                fs.abandon();
                None
            }
            _ => Some(fs.unmount()),
        };
        outcome.injected = self.faulty.injected();
        self.faulty.disarm();
        if let Some(unmounted) = &unmounted {
            self.judge_unmount(unmounted, &mut outcome);
        }
        drop(fs);
        let due = match unmounted {
            Some(Ok(())) => Due::Sure,
            _ if self.plan.has_journal => Due::Acked,
            _ => Due::AckedUnlogged,
        };
        self.judge_files(&expected, due, &mut outcome);
        if checks && matches!(unmounted, Some(Ok(()))) {
            image::assert_clean(&self.cache.durable());
        }
        outcome
    }

    /// One block that cannot be read for a moment stops nothing.
    fn judge_mount(&self, fs: &Filesystem, outcome: &mut Outcome) {
        let plan = &self.plan;
        let is_transient = plan.operation == Operation::Read && plan.pattern == Pattern::Single;
        if is_transient
            && plan.goes_on()
            && let Err(error) = fs.check_writable()
        {
            outcome.failed.push(format!("stopped: {error}"));
        }
    }

    fn judge_unmount(&self, unmounted: &uext4::Result<()>, outcome: &mut Outcome) {
        outcome.errors += u64::from(unmounted.is_err());
        let flush_failed = self.plan.operation == Operation::Flush && outcome.injected > 0;
        if flush_failed && unmounted.is_ok() {
            outcome
                .failed
                .push("the unmount says nothing of a lost flush".into());
        }
        if outcome.injected == 0 && outcome.errors > 0 {
            outcome.failed.push("an error without a cause".into());
        }
    }

    fn judge_files(&self, expected: &[Expected], due: Due, outcome: &mut Outcome) {
        let device = Arc::new(self.cache.durable());
        let mounted = match self.plan.has_journal {
            true => image::mount_with(&device, ""),
            false => image::mount_with(&device, "ro"),
        };
        match mounted {
            Ok(fs) => {
                let wrong = expected
                    .iter()
                    .filter_map(|file| file.judge(&fs, due).err());
                outcome.failed.extend(wrong);
            }
            Err(error) => outcome.failed.push(format!("the next mount: {error}")),
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    let asked = std::env::var(name).ok();
    asked
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

#[test]
fn no_acknowledged_byte_is_lost_and_every_error_is_reported() {
    let (first, count) = (
        number("UEXT4_FAULT_SEED", 1),
        number("UEXT4_FAULT_SEEDS", 40),
    );
    let (mut hit, mut errors, mut failures) = (0, 0, Vec::new());
    for seed in first..first + count {
        let mut rng = Rng::new(seed);
        let run = Run::new(&mut rng);
        let outcome = run.go(&mut rng, seed % CHECK_EVERY == 0);
        hit += u64::from(outcome.injected > 0);
        errors += outcome.errors;
        if !outcome.failed.is_empty() {
            let (plan, failed) = (&run.plan, outcome.failed.join("\n  "));
            let said = format!("UEXT4_FAULT_SEED={seed} {plan:?}:\n  {failed}");
            eprintln!("{said}");
            failures.push(said);
        }
        if seed % 500 == 0 {
            eprintln!(
                "{seed}: {hit} with faults, {errors} errors, {} failed",
                failures.len()
            );
        }
    }
    println!("{count} runs, {hit} with faults, {errors} errors reported");
    assert!(
        failures.is_empty(),
        "{} failed: {}",
        failures.len(),
        failures.join("\n")
    );
    assert!(hit > count / 4 && errors > 0, "the faults were not met");
}
