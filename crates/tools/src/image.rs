//! Opens and mounts the image that a command works on.

use crate::failure::{At, Failure, Result};
use crate::location::Location;
use std::fmt;
use std::path::{Path, PathBuf};
use uext4::check::{CheckReport, Limits};
use uext4::device::{self, BlockDevice, FileDevice, Overlay};
use uext4::format::Superblock;
use uext4::path::PathError;
use uext4::{Filesystem, MountOptions, Threads};
use uext4_sync::{Arc, OnceLock};

/// Memory for cached extent maps of a mount that reads each file once, in bytes.
const EXTENT_CACHE_BYTES: u64 = 256 << 10;
/// Memory for a log that the server of another user sends, in bytes.
const FOREIGN_LOG_BYTES: u64 = 256 << 20;

/// Which image, and where in it the file system starts.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ImageArgs {
    /// File or block device with an ext4 file system
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// Block device that shows the image and is opened instead of it.
    #[arg(skip)]
    shown_by: Option<PathBuf>,
    /// A snapshot of the mount that the path names.
    #[arg(skip)]
    snapshot: Shown,
    #[command(flatten)]
    pub(crate) place: Location,
    /// Image of the external journal
    #[arg(long, value_name = "FILE", help_heading = "Image")]
    journal_path: Option<PathBuf>,
}

/// Devices of a snapshot, which are set once.
#[derive(Clone, Default)]
struct Shown(Arc<OnceLock<SnapshotDevices>>);

/// The devices of a snapshot.
#[derive(Clone)]
pub(crate) struct SnapshotDevices {
    pub(crate) home: Arc<dyn BlockDevice>,
    /// That of an external journal.
    pub(crate) journal: Option<Arc<dyn BlockDevice>>,
    /// The server of another user sends them.
    pub(crate) is_foreign: bool,
}

impl SnapshotDevices {
    /// For a mount or a check, which replays the log unless [`Self::replays`] says otherwise. A log
    /// of another user is replayed before, in memory with a limit.
    pub(crate) fn to_mount(&self) -> uext4::Result<Self> {
        if !self.is_foreign {
            return Ok(self.clone());
        }
        let home = Arc::new(Overlay::rehearsal(self.home.clone(), FOREIGN_LOG_BYTES));
        let journal = self.journal.clone();
        let journal =
            journal.map(|journal| -> Arc<dyn BlockDevice> { Arc::new(home.beside(journal)) });
        let home: Arc<dyn BlockDevice> = home;
        let options = MountOptions {
            journal_device: journal.clone(),
            ..MountOptions::default()
        };
        uext4::repair::recover(&home, &options)?;
        Ok(Self {
            home,
            journal,
            ..*self
        })
    }

    /// Whether a mount of them replays the log. That of another user was replayed before; its
    /// server may answer otherwise the next time, with a log that knows no limit.
    pub(crate) fn replays(&self) -> bool {
        !self.is_foreign
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.0.get().map(|shown| shown.home.describe());
        device.fmt(f)
    }
}

pub(crate) fn open_journal(path: &Path, purpose: Purpose) -> uext4::Result<Arc<dyn BlockDevice>> {
    match FileDevice::open(path, purpose.access()) {
        Ok(file) => Ok(Arc::new(file)),
        Err(error @ device::Error::Busy { .. }) => Err(error.into()),
        Err(error) => {
            let problem = format!("the external journal {}: {error}", path.display());
            Err(uext4::Error::Mount(problem))
        }
    }
}

/// Access that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Nothing in the image changes.
    Read,
    /// The image may change, so no other process may have it open for writing.
    Change,
}

impl Purpose {
    fn access(self) -> device::Access {
        match self {
            Purpose::Read => device::Access::ReadOnly,
            Purpose::Change => device::Access::ReadWrite,
        }
    }
}

/// Open devices of a mount.
pub(crate) struct Devices {
    purpose: Purpose,
    home: Arc<dyn BlockDevice>,
    journal: Option<Arc<dyn BlockDevice>>,
    /// Whether the mount replays the log.
    replays: bool,
}

impl Devices {
    /// Mounts the file system on these devices.
    pub(crate) fn mount(self, options: MountOptions) -> uext4::Result<Filesystem> {
        let access = match self.purpose {
            Purpose::Read => uext4::Access::ReadOnly,
            Purpose::Change => options.access,
        };
        let options = MountOptions {
            access,
            journal_device: self.journal,
            replay: options.replay && self.replays,
            ..options
        };
        let home = Arc::clone(&self.home);
        Filesystem::mount(self.home, options).map_err(|error| explained(error, &*home))
    }
}

/// Adds the content of the device to the error if no ext4 was found.
fn explained(error: uext4::Error, device: &dyn BlockDevice) -> uext4::Error {
    match error {
        uext4::Error::Mount(problem) if problem.contains(NO_MAGIC) => {
            let found = crate::foreign::describe(device);
            let found =
                found.unwrap_or_else(|| "on a whole disk --partition or --offset finds it".into());
            uext4::Error::Mount(format!("{problem}; {found}"))
        }
        other => other,
    }
}

/// Reads the superblock of a device that is not mounted.
pub(crate) fn superblock(device: &dyn BlockDevice) -> uext4::Result<Superblock> {
    uext4::read_superblock(device, None).map_err(|error| explained(error, device))
}

/// Part of the message of a mount that finds no superblock.
const NO_MAGIC: &str = "no magic";

impl ImageArgs {
    /// The first given option that says where in an image, or beside it, something is.
    pub(crate) fn first_option(&self) -> Option<&'static str> {
        let given = [
            ("--offset", self.place.offset.is_some()),
            ("--partition", self.place.partition.is_some()),
            ("--journal-path", self.journal_path.is_some()),
        ];
        let first = given.into_iter().find(|(_, is_given)| *is_given);
        first.map(|(name, _)| name)
    }

    /// Another image, where the file system is in the same place.
    pub(crate) fn beside(&self, image: PathBuf) -> Self {
        Self {
            image,
            shown_by: None,
            snapshot: Shown::default(),
            place: self.place.clone(),
            journal_path: None,
        }
    }

    /// The same image, with this external journal.
    pub(crate) fn with_journal(self, path: PathBuf) -> Self {
        Self {
            journal_path: Some(path),
            ..self
        }
    }

    /// Name of the image in messages.
    pub(crate) fn name(&self) -> String {
        self.image.display().to_string()
    }

    /// Name of a path of the image in messages.
    pub(crate) fn name_of(&self, path: &[u8]) -> String {
        format!("{}:{}", self.name(), crate::show::name(path))
    }

    /// The failure of an operation by path, at its path.
    pub(crate) fn failure(&self, failed: &PathError) -> Failure {
        let mut place = self.name_of(failed.path());
        if let Some(target) = failed.target() {
            place = format!("{place} -> {}", crate::show::name(target));
        }
        Failure::at(failed, place)
    }

    /// Opens `device` instead of the image from now on; messages name the image.
    pub(crate) fn show_by(&mut self, device: &Path) {
        self.shown_by = Some(device.to_owned());
    }

    /// Reads these devices of a snapshot from now on.
    pub(crate) fn show_snapshot(&self, devices: SnapshotDevices) {
        // A command takes one of each mount.
        let _ = self.snapshot.0.set(devices);
    }

    /// The file or block device that is opened.
    pub(crate) fn storage(&self) -> &PathBuf {
        self.shown_by.as_ref().unwrap_or(&self.image)
    }

    /// Files that a mount with these options opens.
    pub(crate) fn files(&self, options: &MountOptions) -> Vec<PathBuf> {
        let files = std::iter::once(self.storage()).chain(self.journal(options));
        files.cloned().collect()
    }

    /// Path of the external journal; `--journal-path` precedes the mount option.
    fn journal<'a>(&'a self, options: &'a MountOptions) -> Option<&'a PathBuf> {
        self.journal_path.as_ref().or(options.journal_path.as_ref())
    }

    /// Refuses `--journal-path` in commands that would ignore it.
    pub(crate) fn without_journal(&self) -> Result<()> {
        match &self.journal_path {
            Some(_) => Err(Failure::usage(
                "--journal-path: the journal is not looked at",
            )),
            None => Ok(()),
        }
    }

    /// Opens the device without mounting it.
    pub(crate) fn device(&self, purpose: Purpose) -> Result<Arc<dyn BlockDevice>> {
        if let Some(shown) = self.snapshot.0.get() {
            return Ok(shown.home.clone());
        }
        let opened = match purpose {
            Purpose::Read => self.place.open_whole(self.storage(), purpose.access()),
            Purpose::Change => self.place.open(self.storage(), purpose.access()),
        };
        opened.at(self.name())
    }

    /// Opens the device to make a file system smaller, also one that ends behind its partition.
    pub(crate) fn device_to_shrink(&self) -> Result<Arc<dyn BlockDevice>> {
        let access = Purpose::Change.access();
        self.place
            .open_whole(self.storage(), access)
            .at(self.name())
    }

    /// Mounts the file system in this process.
    pub(crate) fn mount(&self, purpose: Purpose) -> Result<Filesystem> {
        self.open(purpose, MountOptions::default()).at(self.name())
    }

    /// As [`Self::mount`], with these options.
    pub(crate) fn open(
        &self,
        purpose: Purpose,
        options: MountOptions,
    ) -> uext4::Result<Filesystem> {
        self.devices(purpose, &options)?.mount(options)
    }

    /// As [`Self::mount`] to read each file once: no threads, and little memory besides
    /// `metadata_bytes` for unused inodes and metadata blocks.
    pub(crate) fn mount_to_read_once(&self, metadata_bytes: u64) -> Result<Filesystem> {
        let options = MountOptions {
            metadata_cache_bytes: Some(metadata_bytes),
            extent_cache_bytes: EXTENT_CACHE_BYTES,
            prefetch_bitmaps: false,
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        self.open(Purpose::Read, options).at(self.name())
    }

    /// Opens the devices of a mount. For writing it claims them exclusively.
    pub(crate) fn devices(
        &self,
        purpose: Purpose,
        options: &MountOptions,
    ) -> uext4::Result<Devices> {
        if let Some(shown) = self.snapshot.0.get() {
            let shown = shown.to_mount()?;
            return Ok(Devices {
                purpose,
                replays: shown.replays(),
                home: shown.home,
                journal: shown.journal,
            });
        }
        let journal = self.journal(options);
        Ok(Devices {
            purpose,
            replays: true,
            journal: journal
                .map(|path| open_journal(path, purpose))
                .transpose()?,
            home: self.place.open(self.storage(), purpose.access())?,
        })
    }

    /// Options of a mount with the external journal, opened.
    pub(crate) fn journal_options(&self, purpose: Purpose) -> uext4::Result<MountOptions> {
        let options = MountOptions::default();
        if let Some(shown) = self.snapshot.0.get() {
            return Ok(MountOptions {
                journal_device: shown.journal.clone(),
                ..options
            });
        }
        let journal = self.journal(&options);
        let journal = journal.map(|path| open_journal(path, purpose));
        Ok(MountOptions {
            journal_device: journal.transpose()?,
            ..options
        })
    }

    /// Another writer of the image, as far as the system reports one.
    pub(crate) fn other_writer(&self) -> Option<device::User> {
        device::writer_of(self.storage())
    }

    /// Prints a note if something else writes to the image, which is opened to read.
    pub(crate) fn say_other_writer(&self) {
        if self.snapshot.0.get().is_some() {
            return;
        }
        if let Some(user) = self.other_writer() {
            let name = self.name();
            let text = format!("{name}: in use: {user}; what is read here may be stale or torn");
            crate::failure::info(text);
        }
    }

    /// Checks the whole file system read-only.
    pub(crate) fn check(
        &self,
        options: MountOptions,
        limits: &Limits,
    ) -> uext4::Result<CheckReport> {
        let journal = self.journal(&options);
        let journal = journal.map(|path| open_journal(path, Purpose::Read));
        let device = self
            .place
            .open_whole(self.storage(), device::Access::ReadOnly)?;
        let options = MountOptions {
            journal_device: journal.transpose()?,
            ..options
        };
        let looked = uext4::check::check(Arc::clone(&device), options, limits);
        looked.map_err(|error| explained(error, &*device))
    }

    /// Mounts, runs `change`, and unmounts even if `change` failed.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&Filesystem) -> Result<T>) -> Result<T> {
        self.change_with(MountOptions::default(), change)
    }

    /// As [`Self::change`], with mount options.
    pub(crate) fn change_with<T>(
        &self,
        options: MountOptions,
        change: impl FnOnce(&Filesystem) -> Result<T>,
    ) -> Result<T> {
        let fs = self.open(Purpose::Change, options).at(self.name())?;
        let answer = change(&fs);
        let closed = fs.unmount().at(self.name());
        let answer = answer?;
        closed?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4::device::MemDevice;
    use uext4::mkfs::{MkfsOptions, Preset};

    /// A log that was not replayed is, and the device of the other user stays as it was. A mount
    /// does not replay again, whatever the server says then.
    #[test]
    fn a_foreign_log_is_replayed_apart() {
        let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(32 << 20));
        uext4::mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4)).expect("it has room");
        let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("mount");
        let root = fs.root().expect("the root");
        let made = fs.create(&root, b"file", 0o644, &uext4::Caller::root());
        drop(made.expect("there is room"));
        fs.sync().expect("it is sound");
        let snapshot = fs.snapshot(device::SnapshotLimits::default());
        let snapshot = snapshot.expect("a snapshot");
        let shown = SnapshotDevices {
            home: snapshot.device.clone(),
            journal: None,
            is_foreign: true,
        };
        let needs = |device: &dyn BlockDevice| {
            let disk = uext4::read_superblock(device, None).expect("it is there");
            uext4::repair::needs_recovery(&disk)
        };
        assert!(needs(&*shown.home));
        let replayed = shown.to_mount().expect("it is small");
        assert!(!needs(&*replayed.home));
        assert!(needs(&*shown.home));
        let has_file = |home: &Arc<dyn BlockDevice>, replays| {
            let devices = Devices {
                purpose: Purpose::Read,
                home: home.clone(),
                journal: None,
                replays,
            };
            let fs = devices.mount(MountOptions::default()).expect("mount");
            let root = fs.root().expect("the root");
            fs.lookup(&root, b"file", &uext4::Caller::root()).is_ok()
        };
        assert!(has_file(&replayed.home, replayed.replays()));
        assert!(has_file(&shown.home, true));
        assert!(!has_file(&shown.home, shown.replays()), "it is in the log");
    }
}
