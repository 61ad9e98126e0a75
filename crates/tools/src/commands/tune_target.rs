//! The devices that `uext4 tune` changes: those of the image, or memory over them.
//!
//! A tune has several changes, each of which is refused with nothing changed. To refuse all of them
//! by one, they are made in memory first: on overlays that the image never sees.

use super::tune_journal::Wanted;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{self, ImageArgs, Purpose};
use std::path::PathBuf;
use uext4::device::{BlockDevice, Overlay};
use uext4::{Filesystem, MountOptions};
use uext4_sync::Arc;

/// Memory that a rehearsal may take for each device, in bytes.
const REHEARSAL_BYTES: u64 = 512 << 20;

/// The image and, if it has one, its external journal.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) home: Arc<dyn BlockDevice>,
    /// The external journal in use.
    pub(super) journal: Option<Arc<dyn BlockDevice>>,
    /// The one that is to be used.
    pub(super) new_journal: Option<(PathBuf, Arc<dyn BlockDevice>)>,
}

impl Target {
    /// Opens the devices, which stay open and claimed.
    pub(super) fn open(image: &ImageArgs, wanted: Option<&Wanted>) -> Result<Self> {
        let name = image.name();
        let home = image.device(Purpose::Change)?;
        // Names what is there if it is no ext4.
        image::superblock(&*home).at(&name)?;
        let options = image.journal_options(Purpose::Change).at(&name)?;
        let new_journal = match wanted {
            Some(Wanted::Device(path)) => {
                let device = image::open_journal(path, Purpose::Change).at(&name)?;
                Some((path.clone(), device))
            }
            _ => None,
        };
        Ok(Self {
            name,
            home,
            journal: options.journal_device,
            new_journal,
        })
    }

    /// Options of mounts, with the external journal.
    pub(super) fn options(&self) -> MountOptions {
        MountOptions {
            journal_device: self.journal.clone(),
            ..MountOptions::default()
        }
    }

    /// Mounts, runs `change`, and unmounts even if it failed.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&Filesystem) -> uext4::Result<()>,
    ) -> Result<()> {
        let fs = Filesystem::mount(self.home.clone(), self.options()).at(&self.name)?;
        let done = change(&fs).at(&self.name);
        let closed = fs.unmount().at(&self.name);
        done.and(closed)
    }

    /// Makes the changes in memory only: they fail as they would on the devices.
    pub(super) fn rehearse(&self, changes: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let mut overlays = Vec::new();
        let mut over = |device: &Arc<dyn BlockDevice>| -> Arc<dyn BlockDevice> {
            let overlay = Arc::new(Overlay::rehearsal(device.clone(), REHEARSAL_BYTES));
            overlays.push(overlay.clone());
            overlay
        };
        let mut rehearsal = Self {
            name: self.name.clone(),
            home: over(&self.home),
            journal: self.journal.as_ref().map(&mut over),
            new_journal: self
                .new_journal
                .as_ref()
                .map(|(path, device)| (path.clone(), over(device))),
        };
        let done = changes(&mut rehearsal);
        if overlays.iter().any(|overlay| overlay.is_full()) {
            Err(self.too_much())
        } else {
            done
        }
    }

    fn too_much(&self) -> Failure {
        let problem = format!(
            "{}: to check all words before the first change takes more than {} MiB of memory; \
             nothing was changed",
            self.name,
            REHEARSAL_BYTES >> 20
        );
        Failure::new(Exit::Failed, problem)
            .hint("give -I, and each other word, by a command of its own")
    }
}
