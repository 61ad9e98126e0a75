//! Snapshots of running mounts, for `fsck`, `backup`, and commands that read images.

use super::foreign_size::refuse_more_than_the_file_system;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, SnapshotDevices};
use rustix::fs::{FileType, Mode, OFlags};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use uext4::device::{BlockDevice, SnapshotEnd};
use uext4_fuse::{Ask, Client, Continued, Remote, Since, SnapshotPurpose, SnapshotWanted};
use uext4_sync::Arc;

/// The lowest priority of `nice(2)`.
const LOWEST_PRIORITY: i32 = 19;

/// What the server of a mount keeps while a snapshot is read.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct SnapshotArgs {
    /// Directory for a temporary file with what is overwritten meanwhile, and with what a check has
    /// no memory for. Default: $TMPDIR or /var/tmp; `none`: no file
    #[arg(long, value_name = "DIR", help_heading = "Mount")]
    pub(super) spill: Option<PathBuf>,
    /// Maximum size of that file; beyond it the command fails, and the mount goes on. Default: 16G
    #[arg(long, value_name = "BYTES", help_heading = "Mount", value_parser = crate::numbers::size)]
    pub(super) spill_limit: Option<u64>,
    /// Memory of the server before the file is used. Default: 64M
    #[arg(long, value_name = "BYTES", help_heading = "Mount", value_parser = crate::numbers::size)]
    pub(super) keep_memory: Option<u64>,
}

/// `f_type` of overlayfs, statfs(2).
const OVERLAYFS_MAGIC: u64 = 0x794c_7630;
const SPILL_BYTES: u64 = 16 << 30;
const KEEP_BYTES: u64 = 64 << 20;

impl SnapshotArgs {
    /// The directory for the temporary file.
    pub(super) fn spill_dir(&self) -> Option<PathBuf> {
        spill_dir(self.spill.as_deref())
    }

    /// The first given option that is for mounts only.
    pub(super) fn first_option(&self) -> Option<&'static str> {
        let given = [
            ("--spill-limit", self.spill_limit.is_some()),
            ("--keep-memory", self.keep_memory.is_some()),
        ];
        let first = given.into_iter().find(|(_, is_given)| *is_given);
        first.map(|(name, _)| name)
    }

    /// Takes a snapshot of the mount on `target`. For a check, this process has the lowest priority
    /// from then on.
    pub(super) fn take(&self, target: &Path, purpose: SnapshotPurpose) -> Result<Remote> {
        self.take_chained(target, purpose, Continued::Never, None)
    }

    /// The same for a copy that another one is to continue, or that continues one.
    pub(super) fn take_chained(
        &self,
        target: &Path,
        purpose: SnapshotPurpose,
        continues: Continued,
        since: Option<Since>,
    ) -> Result<Remote> {
        if purpose == SnapshotPurpose::Check {
            // It takes longer then, and delays no other process.
            let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
        }
        // Old contents and copies have what only the superuser may read.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        let spill = self.spill_file()?;
        self.ask(target, (purpose, continues), since, spill.as_ref())
    }

    /// Takes a snapshot to read some of it. Where no file for old contents can be, memory is used
    /// alone.
    pub(super) fn take_to_read(target: &Path) -> Result<Remote> {
        let args = Self::default();
        let spill = args.spill_file().ok().flatten();
        let purpose = (SnapshotPurpose::Read, Continued::Never);
        match args.ask(target, purpose, None, spill.as_ref()) {
            Err(_) if spill.is_some() => args.ask(target, purpose, None, None),
            taken => taken,
        }
    }

    fn ask(
        &self,
        target: &Path,
        (purpose, continues): (SnapshotPurpose, Continued),
        since: Option<Since>,
        spill: Option<&File>,
    ) -> Result<Remote> {
        let wanted = SnapshotWanted {
            purpose,
            pid: std::process::id(),
            memory_bytes: self.keep_memory.unwrap_or(KEEP_BYTES),
            spill_bytes: spill.map(|file| self.spill_bytes(free_bytes(file))),
            continues,
            since,
        };
        let taken = Remote::take(target, &wanted, spill);
        taken.map_err(|error| super::control::failure(target, &error))
    }

    /// Maximum size of the file where so much is free: others need that as well.
    fn spill_bytes(&self, free_bytes: Option<u64>) -> u64 {
        let limit = self.spill_limit.unwrap_or(SPILL_BYTES);
        free_bytes.map_or(limit, |free| limit.min(free / 2))
    }

    /// A file without a name.
    fn spill_file(&self) -> Result<Option<File>> {
        let Some(dir) = self.spill_dir() else {
            return Ok(None);
        };
        let opened = tempfile::tempfile_in(&dir).at(dir.display());
        let opened = opened.and_then(|file| refuse_overlay(&file, &dir).map(|()| file));
        opened
            .map(Some)
            .map_err(|failure| failure.hint("--spill names another directory"))
    }
}

/// The directory for a temporary file: as given, or the one of the system; `None` for `none`.
pub(super) fn spill_dir(given: Option<&Path>) -> Option<PathBuf> {
    match given {
        Some(dir) if dir == Path::new("none") => None,
        Some(dir) => Some(dir.to_path_buf()),
        None => {
            let dir = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
            Some(dir.map_or("/var/tmp".into(), PathBuf::from))
        }
    }
}

/// Refuses a file of overlayfs: its upper layer may be on the mount, so that a write to it would
/// wait for itself, and the server cannot see that.
fn refuse_overlay(file: &File, dir: &Path) -> Result<()> {
    let found = rustix::fs::fstatfs(file).at(dir.display())?;
    if u64::try_from(found.f_type).is_ok_and(|kind| kind == OVERLAYFS_MAGIC) {
        let text = format!("{}: old contents cannot go to overlayfs", dir.display());
        return Err(Failure::new(Exit::Failed, text));
    }
    Ok(())
}

/// What an ordinary user may still write on the file system of a file.
fn free_bytes(file: &File) -> Option<u64> {
    let found = rustix::fs::fstatvfs(file).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Has a command that reads an image read a snapshot of a mount, if it names one.
///
/// # Errors
/// The mount has no snapshot; an option that only an image can have.
pub(super) fn read_mount(image: &ImageArgs) -> Result<()> {
    if !super::control::is_running(image)? {
        return Ok(());
    }
    let name = image.name();
    write_back(&image.image)?;
    let snapshot = SnapshotArgs::take_to_read(&image.image)?;
    if let Some(why) = snapshot.unwritten() {
        let text = format_args!("{name}: not all changes are in the snapshot: {why}");
        crate::failure::info(text);
    }
    image.show_snapshot(devices_of(&snapshot, &name)?);
    READ.with_borrow_mut(|read| read.push((name, snapshot)));
    Ok(())
}

/// The devices of a snapshot.
///
/// # Errors
/// The server of another user sends more than the file system.
pub(super) fn devices_of(snapshot: &Remote, name: &str) -> Result<SnapshotDevices> {
    let is_foreign = !snapshot.is_trusted();
    if is_foreign {
        refuse_more_than_the_file_system(name, &*snapshot.device())?;
    }
    let journal = snapshot.journal();
    let journal = journal.map(|journal| -> Arc<dyn BlockDevice> { journal });
    Ok(SnapshotDevices {
        home: snapshot.device(),
        journal,
        is_foreign,
    })
}

thread_local! {
    /// Snapshots that the command of this thread reads, with the names of their mounts.
    static READ: RefCell<Vec<(String, Remote)>> = const { RefCell::new(Vec::new()) };
}

/// What a command returns that may have read snapshots: the end of one is no damage, and what was
/// read of it is not complete.
pub(super) fn unless_ended(done: Result<()>) -> Result<()> {
    let read = READ.take();
    let ended = read
        .iter()
        .map(|(name, snapshot)| check_going(snapshot, name, "what was read"));
    ended.collect::<Result<()>>()?;
    done
}

/// The failure of work on a snapshot that has ended.
pub(super) fn check_going(snapshot: &Remote, name: &str, work: &str) -> Result<()> {
    match snapshot.ended() {
        None => Ok(()),
        Some(why) => {
            let text = format!("{name}: {work} is not complete: the snapshot has ended: {why}");
            let failure = Failure::new(Exit::Failed, text);
            Err(match why {
                SnapshotEnd::MemoryFull { .. } => failure.hint("--keep-memory allows more"),
                SnapshotEnd::SpillFull { .. } => {
                    failure.hint("--spill-limit allows more, up to half of the free space")
                }
                _ => failure,
            })
        }
    }
}

/// The failure of a snapshot that has not all changes.
pub(super) fn check_written(snapshot: &Remote, name: &str) -> Result<()> {
    match snapshot.unwritten() {
        None => Ok(()),
        Some(why) => {
            let text = format!("{name}: not all changes are in the snapshot: {why}");
            Err(Failure::new(Exit::Failed, text))
        }
    }
}

/// Has the kernel write its dirty pages of the mount back. A frozen mount has none that it could
/// write.
///
/// The server of another user might never answer the kernel, so it is not asked.
pub(super) fn write_back(target: &Path) -> Result<()> {
    let failed = |error| super::control::failure(target, &error);
    let client = Client::connect(target).map_err(failed)?;
    let server = client.ask(&Ask::Server {}).map_err(failed)?;
    let is_directory = uext4_fuse::kind_of(target) == Some(FileType::Directory);
    if server["frozen"] == true || !is_directory || !client.is_trusted() {
        return Ok(());
    }
    let flags = (OFlags::DIRECTORY | OFlags::NONBLOCK).bits();
    let mut options = std::fs::File::options();
    let options = options.read(true).custom_flags(flags.cast_signed());
    let directory = options.open(target).at(target.display())?;
    let synced = rustix::fs::syncfs(&directory).map_err(std::io::Error::from);
    synced.at(target.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_takes_half_of_the_free_space_at_most() {
        let default = SnapshotArgs::default();
        assert_eq!(default.spill_bytes(None), SPILL_BYTES);
        assert_eq!(default.spill_bytes(Some(1 << 40)), SPILL_BYTES);
        assert_eq!(default.spill_bytes(Some(4 << 20)), 2 << 20);
        let wanted = SnapshotArgs {
            spill_limit: Some(1 << 20),
            ..SnapshotArgs::default()
        };
        assert_eq!(wanted.spill_bytes(Some(4 << 20)), 1 << 20);
        assert_eq!(wanted.spill_bytes(Some(0)), 0);
    }
}
