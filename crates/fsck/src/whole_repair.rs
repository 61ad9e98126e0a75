//! The repair of a whole file system as a value: what is repaired, by which decisions, and where
//! what is overwritten is kept.

use crate::repair::{
    Decisions, Optimised, RepairReport, RepairSafe, Restoration, optimise, repair,
};
use crate::replay::{refuse_fast_commits, replay};
use crate::report::{Finding, Limits};
use crate::subject::{SharedData, Subject};
use crate::undo::UndoRecorder;
use std::fs::File;
use uext4_device::BlockDevice;
use uext4_format::{Feature, Superblock};
use uext4_sync::Arc;
use uext4_volume::mmp::{self, Claim, MmpGuard};
use uext4_volume::superblock::read_primary;
use uext4_volume::{
    Access, Error, Inspection, Media, OpenOptions, Purpose, Result, Writes, access_for,
};

/// A repair of a file system that is not mounted; other hosts are kept out by its MMP block, if it
/// has one.
///
/// The log is replayed first, but for fast commits, which only a mount can replay; with those the
/// repair is refused. Orphans stay in their list; the next mount frees them.
/// `uext4::repair` replays the log and frees orphans by a mount before it repairs.
pub struct Repair<'d> {
    device: Arc<dyn BlockDevice>,
    options: OpenOptions,
    limits: Limits,
    decisions: Option<&'d mut dyn Decisions>,
    undo: Option<Arc<UndoRecorder>>,
    shared_data: SharedData,
    is_restored: bool,
}

impl<'d> Repair<'d> {
    /// A repair of what loses nothing: [`RepairSafe`].
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self {
            device,
            options: OpenOptions::default(),
            limits: Limits::default(),
            decisions: None,
            undo: None,
            shared_data: SharedData::Kept,
            is_restored: false,
        }
    }

    /// With the journal device and the clock of these options, and the backup of the superblock
    /// that they name.
    #[must_use]
    pub fn opened_by(self, options: OpenOptions) -> Self {
        Self { options, ..self }
    }

    /// As these decisions say.
    #[must_use]
    pub fn decisions(self, decisions: &'d mut dyn Decisions) -> Self {
        Self {
            decisions: Some(decisions),
            ..self
        }
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

    /// With this for data that files share by the feature `shared_blocks`.
    #[must_use]
    pub fn shared_data(self, shared_data: SharedData) -> Self {
        Self {
            shared_data,
            ..self
        }
    }

    /// Keeps what is overwritten in an empty file, for [`undo`](crate::undo::undo).
    #[must_use]
    pub fn undo(self, file: File) -> Self {
        let recorder = Arc::new(UndoRecorder::new(self.device, 0, file));
        Self {
            device: recorder.clone(),
            undo: Some(recorder),
            ..self
        }
    }

    /// The first step of [`Self::run`]: replaces a damaged primary superblock by a backup, if the
    /// decisions accept that, and returns the damage if they do not. A backup that the options name
    /// replaces it in any case.
    ///
    /// # Errors
    /// As [`Self::run`].
    #[doc(hidden)]
    pub fn restore(&mut self) -> Result<Option<Finding>> {
        let named_kib = self.options.superblock_kib.take();
        let Some(restoration) = Restoration::find(&*self.device, named_kib)? else {
            return Ok(None);
        };
        let refused = match &mut self.decisions {
            Some(decisions) => restoration.refused(*decisions),
            None => restoration.refused(&mut RepairSafe),
        };
        if refused.is_some() {
            return Ok(refused);
        }
        let disk = restoration.superblock().clone();
        self.under_claim(&disk, |device| restoration.write(&**device))?;
        self.is_restored = true;
        Ok(None)
    }

    /// Checks the file system and repairs it. At the end it is marked as checked, and as clean if
    /// nothing is left to repair.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; what opening a file system refuses, and fast commits to replay; an
    /// error of the device, after which what was written is consistent in itself.
    pub fn run(mut self) -> Result<RepairReport> {
        let repaired = match self.restore() {
            Ok(Some(left)) => Ok(RepairReport::of_left(left)),
            Ok(None) => self.replay().and_then(|()| self.repair_replayed()),
            Err(error) => Err(error),
        };
        self.finish(repaired)
    }

    /// The second step of [`Self::run`]: replays the log.
    ///
    /// # Errors
    /// As [`Self::run`].
    #[doc(hidden)]
    pub fn replay(&self) -> Result<()> {
        let needs_replay = || -> Result<Option<Superblock>> {
            let disk = read_primary(&*self.device, None)?;
            Ok(disk.features().has(Feature::RECOVER).then_some(disk))
        };
        let Some(disk) = needs_replay()? else {
            return Ok(());
        };
        refuse_fast_commits(&disk)?;
        self.under_claim(&disk, |device| {
            // Another host may have done it before the claim.
            match needs_replay()? {
                Some(_) => replay(device, self.options.journal_device.as_ref()),
                None => Ok(()),
            }
        })
    }

    /// The last step of [`Self::run`]: checks and repairs what the replay has left. A log that it
    /// could not read is damage.
    ///
    /// # Errors
    /// As [`Self::run`].
    #[doc(hidden)]
    pub fn repair_replayed(&mut self) -> Result<RepairReport> {
        let (subject, mmp) = self.claimed()?;
        let repaired = match &mut self.decisions {
            Some(decisions) => repair(subject, &mut **decisions, &self.limits),
            None => repair(subject, &mut RepairSafe, &self.limits),
        };
        mmp.map_or(Ok(()), |mmp| mmp.release())?;
        let mut report = repaired?;
        report.n_repaired += u64::from(self.is_restored);
        Ok(report)
    }

    /// Builds directories anew that become smaller by that, or get an index, as `e2fsck -D` does;
    /// of a sound file system. The log is replayed first.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn optimise(self) -> Result<Optimised> {
        let optimised = self.replay().and_then(|()| self.optimise_replayed());
        self.finish(optimised)
    }

    fn optimise_replayed(&self) -> Result<Optimised> {
        let (subject, mmp) = self.claimed()?;
        let optimised = optimise(subject, &self.limits);
        mmp.map_or(Ok(()), |mmp| mmp.release())?;
        optimised
    }

    /// Ends the undo file; the first failure counts.
    fn finish<T>(&self, done: Result<T>) -> Result<T> {
        let finished = self.undo.as_ref().map_or(Ok(()), |undo| undo.finish());
        let done = done?;
        finished?;
        Ok(done)
    }

    /// Makes a change while other hosts are kept out by the MMP block.
    fn under_claim(
        &self,
        disk: &Superblock,
        change: impl FnOnce(&Arc<dyn BlockDevice>) -> Result<()>,
    ) -> Result<()> {
        if access_for(Purpose::Structures, disk, Access::ReadWrite)? == Access::ReadOnly {
            return Err(Error::ReadOnly);
        }
        let claim = Claim::new(&self.device, disk, &self.options.clock)?;
        let mmp = match mmp::claim(claim.as_ref(), Access::ReadWrite) {
            // A damaged block keeps no host out.
            Err(Error::Corrupt(_)) => None,
            claimed => claimed?,
        };
        let done = change(&self.device);
        mmp.map_or(Ok(()), |mmp| mmp.release())?;
        done
    }

    /// The file system to repair, kept from other hosts.
    fn claimed(&self) -> Result<(Subject, Option<MmpGuard>)> {
        let options = OpenOptions {
            purpose: Purpose::Structures,
            ..self.options.clone()
        };
        let mut found = Inspection::new(&*self.device, &options)?;
        if found.access != Access::ReadWrite {
            return Err(Error::ReadOnly);
        }
        let claim = Claim::new(&self.device, &found.superblock, &options.clock)?;
        let journal = options.journal_device.clone();
        let media = Media::new(self.device.clone(), journal, claim, Writes::Device);
        let mmp = match mmp::claim(media.claim(), found.access) {
            // The repair writes a new block.
            Err(Error::Corrupt(_)) => None,
            claimed => claimed?,
        };
        if mmp.is_some() {
            media.home.base().forget_cache();
            found = Inspection::new(&**media.home.base(), &options)?;
        }
        let subject = Subject {
            journal_device: media.journal_device(),
            device: media.home.clone(),
            superblock: found.superblock,
            geometry: found.geometry,
            replayed: None,
            shared_data: self.shared_data,
            clock: options.clock,
        };
        Ok((subject, mmp))
    }
}
