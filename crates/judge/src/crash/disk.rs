//! Image of a run or a crash: one device, or two with an external journal.

use std::sync::Arc;

use anyhow::{Context, Result};
use uext4::device::{BlockDevice, MemDevice, Recorder};
use uext4::{Filesystem, MountOptions};

/// The devices of a file system.
pub(super) struct Disk {
    pub(super) main: Arc<MemDevice>,
    pub(super) journal: Option<Arc<MemDevice>>,
}

/// Recorders over the devices of a [`Disk`].
pub(super) struct Recorders {
    pub(super) main: Arc<Recorder>,
    pub(super) journal: Option<Arc<Recorder>>,
}

impl Disk {
    pub(super) fn snapshot(&self) -> Self {
        Self {
            main: copy(&self.main),
            journal: self.journal.as_ref().map(copy),
        }
    }

    /// Mounts with our engine.
    pub(super) fn mount(&self, options: MountOptions) -> Result<Filesystem> {
        let journal = self.journal.clone();
        mount(self.main.clone(), journal.map(|it| it as _), options)
    }
}

fn copy(device: &Arc<MemDevice>) -> Arc<MemDevice> {
    Arc::new(device.snapshot())
}

impl Recorders {
    pub(super) fn new(disk: &Disk) -> Self {
        let main = Arc::new(Recorder::new(disk.main.clone()));
        let journal = disk
            .journal
            .as_ref()
            .map(|device| Arc::new(main.beside(device.clone())));
        Self { main, journal }
    }

    pub(super) fn mount(&self, options: MountOptions) -> Result<Filesystem> {
        let journal = self.journal.clone();
        mount(self.main.clone(), journal.map(|it| it as _), options)
    }

    /// Forgets the events on all devices.
    pub(super) fn restart(&self) {
        self.main.restart();
        self.journal.iter().for_each(|journal| journal.restart());
    }
}

fn mount(
    main: Arc<dyn BlockDevice>,
    journal: Option<Arc<dyn BlockDevice>>,
    options: MountOptions,
) -> Result<Filesystem> {
    let options = MountOptions {
        journal_device: journal,
        ..options
    };
    Filesystem::mount(main, options).context("our mount")
}
