//! The check of a whole file system as a value: what is checked, and within which limits.

use crate::replay::{refuse_fast_commits, replay};
use crate::report::{CheckReport, Limits};
use crate::state::{self, Stop};
use crate::subject::{SharedData, Subject};
use uext4_device::{BlockDevice, Overlay, ReadOnly};
use uext4_sync::Arc;
use uext4_volume::superblock::write_superblock;
use uext4_volume::{Access, Error, Inspection, OpenOptions, Purpose, Result};

/// A check of a file system, which is not changed.
///
/// The log is replayed in memory first, but for fast commits, which only a mount can replay;
/// orphans are found, not freed. `uext4::check` replays the log by a mount, and then has what is
/// there checked by [`Self::of`].
pub struct Check {
    source: Source,
    limits: Limits,
}

enum Source {
    Device(Arc<dyn BlockDevice>, OpenOptions),
    Subject(Box<Subject>),
}

impl Check {
    /// A check of the file system on a device, which no program writes meanwhile; for example the
    /// [`Snapshot`](crate::Snapshot) of one that is mounted.
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self {
            source: Source::Device(device, OpenOptions::default()),
            limits: Limits::default(),
        }
    }

    /// A check of a file system that was opened, and whose log was replayed.
    pub fn of(subject: Subject) -> Self {
        Self {
            source: Source::Subject(Box::new(subject)),
            limits: Limits::default(),
        }
    }

    /// With the journal device, the superblock and the clock of these options. No effect on what
    /// was opened before.
    #[must_use]
    pub fn opened_by(self, options: OpenOptions) -> Self {
        let source = match self.source {
            Source::Device(device, _) => Source::Device(device, options),
            opened => opened,
        };
        Self { source, ..self }
    }

    /// Within these limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// On so many threads: [`Limits::threads`].
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.limits.threads = threads;
        self
    }

    /// Checks the file system. Damage is a [`Finding`](crate::Finding), even if the file system
    /// cannot be opened for it.
    ///
    /// # Errors
    /// An error of the device; what opening a file system refuses, and fast commits to replay.
    pub fn run(self) -> Result<CheckReport> {
        let subject = match self.source {
            Source::Subject(subject) => Ok(*subject),
            Source::Device(device, options) => opened(device, options),
        };
        match subject {
            Ok(subject) => check(&subject, &self.limits),
            Err(
                Error::Corrupt(corrupt) | Error::Journal(uext4_journal::Error::Corrupt(corrupt)),
            ) => Ok(CheckReport::of_damage(corrupt, &self.limits)),
            Err(error) => Err(error),
        }
    }
}

fn opened(device: Arc<dyn BlockDevice>, options: OpenOptions) -> Result<Subject> {
    let read_only = |device| -> Arc<dyn BlockDevice> { Arc::new(ReadOnly::new(device)) };
    let in_memory = |device| -> Arc<dyn BlockDevice> { Arc::new(Overlay::new(device)) };
    let mut device = read_only(device);
    let mut options = OpenOptions {
        purpose: Purpose::Structures,
        access: Access::ReadOnly,
        journal_device: options.journal_device.map(read_only),
        ..options
    };
    let mut found = Inspection::new(&*device, &options)?;
    if found.needs_replay {
        refuse_fast_commits(&found.superblock)?;
        device = in_memory(device);
        if options.superblock_kib.take().is_some() {
            write_superblock(&*device, &found.superblock)?;
        }
        options.journal_device = options.journal_device.map(in_memory);
        replay(&device, options.journal_device.as_ref())?;
        found = Inspection::new(&*device, &options)?;
    }
    Ok(Subject {
        device,
        superblock: found.superblock,
        geometry: found.geometry,
        replayed: None,
        shared_data: SharedData::Kept,
        journal_device: options.journal_device,
        clock: options.clock,
    })
}

/// Checks a file system, within the limits.
pub(crate) fn check(subject: &Subject, limits: &Limits) -> Result<CheckReport> {
    let mut check = state::Check::new(subject, limits);
    let ended = check.run();
    check.check_scratch()?;
    match ended {
        Ok(()) | Err(Stop::Incomplete | Stop::Changed) => Ok(check.report),
        Err(Stop::Failed(error)) => Err(error),
    }
}
