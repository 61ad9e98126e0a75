//! One run: eight threads on a failing device, and the check of their acknowledgements.

use super::model::{Due, Expected, Model};
use super::plan::{End, Pattern, Plan};
use super::storage::{Durable, Kind, Storage};
use uext4::device::{Fault, Operation};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_sync::Rng;

const THREADS: usize = 8;
const STEPS: u64 = 25;

/// Result of a run.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) injected: u64,
    pub(super) errors: u64,
    /// Losses and unreported errors.
    pub(super) failed: Vec<String>,
}

/// Whether e2fsck checks the image after an unmount without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum E2fsck {
    Asked,
    LeftOut,
}

/// Prints the seed on a panic.
struct Named<'a>(u64, &'a Plan);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("UEXT4_FAULT_SEED={} {:?}: a panic", self.0, self.1);
        }
    }
}

pub(super) struct Run {
    seed: u64,
    rng: Rng,
    pub(super) plan: Plan,
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(&mut rng);
        Self { seed, rng, plan }
    }

    /// Runs eight threads while the device fails. Returns their models.
    fn work(&mut self, storage: &Storage, fs: &Filesystem) -> Vec<Model> {
        let made = (0..THREADS).map(|id| Model::new(fs, id, self.rng.fork()));
        let mut models: Vec<Model> = made.collect();
        storage.faulty.arm(Fault {
            operation: self.plan.operation,
            when: self.plan.when.clone(),
            cause: self.plan.cause,
        });
        storage.faulty.set_delay(self.plan.delay);
        std::thread::scope(|scope| {
            for model in &mut models {
                scope.spawn(|| (0..STEPS).for_each(|_| model.step(fs)));
            }
        });
        models
    }

    /// Runs on storage of this kind, and judges.
    pub(super) fn go(mut self, kind: Kind, e2fsck: E2fsck) -> Outcome {
        let plan = self.plan.clone();
        let _named = Named(self.seed, &plan);
        let storage = Storage::new(kind, plan.template());
        let options = MountOptions::default().parse(&plan.options());
        let mounted = Filesystem::mount(storage.faulty.clone(), options.expect("known options"));
        let fs = mounted.expect("nothing fails yet");
        let models = self.work(&storage, &fs);
        let mut outcome = Outcome {
            errors: models.iter().map(|model| model.errors).sum(),
            ..Outcome::default()
        };
        let expected: Vec<Expected> = models.into_iter().flat_map(Model::expected).collect();
        if plan.end != End::Unmount {
            storage.faulty.disarm();
        }
        plan.judge_mount(&fs, &mut outcome);
        let unmounted = plan.end(&fs);
        drop(fs);
        outcome.injected = storage.faulty.injected();
        let durable = storage.cut();
        let due = match &unmounted {
            Some(Ok(())) => Due::Sure,
            _ if plan.has_journal => Due::Acked,
            _ => Due::AckedUnlogged,
        };
        if let Some(unmounted) = unmounted {
            plan.judge_unmount(&unmounted, &mut outcome);
        }
        if e2fsck == E2fsck::Asked && due == Due::Sure {
            outcome.failed.extend(durable.by_e2fsck().err());
        }
        let wrong = plan.judge_files(&durable, &expected, due);
        outcome.failed.extend(wrong);
        outcome
    }
}

impl Plan {
    /// Ends the mount. Returns the result of the unmount, if there was one.
    fn end(&self, fs: &Filesystem) -> Option<uext4::Result<()>> {
        match self.end {
            End::Cut => {
                fs.abandon();
                None
            }
            End::Unmount | End::Healthy => Some(fs.unmount()),
        }
    }

    /// A single transient read error must not stop the file system.
    fn judge_mount(&self, fs: &Filesystem, outcome: &mut Outcome) {
        let is_transient = self.operation == Operation::Read && self.pattern == Pattern::Single;
        if is_transient
            && self.on_errors.go_on()
            && let Err(error) = fs.check_writable()
        {
            outcome.failed.push(format!("stopped: {error}"));
        }
    }

    fn judge_unmount(&self, unmounted: &uext4::Result<()>, outcome: &mut Outcome) {
        outcome.errors += u64::from(unmounted.is_err());
        let flush_failed = self.operation == Operation::Flush && outcome.injected > 0;
        if flush_failed && unmounted.is_ok() {
            let said = "the unmount says nothing of a lost flush";
            outcome.failed.push(said.into());
        }
        if outcome.injected == 0 && outcome.errors > 0 {
            outcome.failed.push("an error without a cause".into());
        }
    }

    /// Problems of the files in the next mount.
    fn judge_files(&self, durable: &Durable, expected: &[Expected], due: Due) -> Vec<String> {
        let list = if self.has_journal { "" } else { "ro" };
        let options = MountOptions {
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        let options = options.parse(list).expect("known options");
        let device = durable.device().map_err(uext4::Error::from);
        match device.and_then(|device| Filesystem::mount(device, options)) {
            Ok(fs) => {
                let wrong = expected.iter().map(|file| file.judge(&fs, due));
                wrong.filter_map(Result::err).collect()
            }
            Err(error) => vec![format!("the next mount: {error}")],
        }
    }
}
