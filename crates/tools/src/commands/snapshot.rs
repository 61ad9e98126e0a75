//! Snapshots of running mounts, for `fsck` and `backup`.

use crate::failure::{At, Exit, Failure, Result};
use rustix::fs::Mode;
use std::fs::File;
use std::path::{Path, PathBuf};
use uext4::device::SnapshotEnd;
use uext4_fuse::{Continued, Remote, SnapshotPurpose, SnapshotWanted};

/// The lowest priority of `nice(2)`.
const LOWEST_PRIORITY: i32 = 19;

/// What the server of a mount keeps while a snapshot is read.
#[derive(clap::Args, Debug)]
pub(crate) struct SnapshotArgs {
    /// Directory for a temporary file with what is overwritten meanwhile. Default: $TMPDIR or
    /// /var/tmp; `none`: no file
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
    /// The first given option.
    pub(super) fn first_option(&self) -> Option<&'static str> {
        let given = [
            ("--spill", self.spill.is_some()),
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
        since: Option<&str>,
    ) -> Result<Remote> {
        if purpose == SnapshotPurpose::Check {
            // It takes longer then, and delays no other process.
            let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
        }
        // Old contents and copies have what only the superuser may read.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        let spill = self.spill_file()?;
        let wanted = SnapshotWanted {
            purpose,
            pid: std::process::id(),
            memory_bytes: self.keep_memory.unwrap_or(KEEP_BYTES),
            spill_bytes: spill.as_ref().map(|file| {
                let limit = self.spill_limit.unwrap_or(SPILL_BYTES);
                free_bytes(file).map_or(limit, |free| limit.min(free / 2))
            }),
            continues,
            since: since.map(str::to_owned),
        };
        let taken = Remote::take(target, &wanted, spill.as_ref());
        taken.map_err(|error| super::control::failure(target, &error))
    }

    /// A file without a name.
    fn spill_file(&self) -> Result<Option<File>> {
        let dir = match &self.spill {
            Some(dir) if dir == Path::new("none") => return Ok(None),
            Some(dir) => dir.clone(),
            None => {
                let dir = std::env::var_os("TMPDIR").filter(|dir| !dir.is_empty());
                dir.map_or("/var/tmp".into(), PathBuf::from)
            }
        };
        let opened = tempfile::tempfile_in(&dir).at(dir.display());
        let opened = opened.and_then(|file| refuse_overlay(&file, &dir).map(|()| file));
        opened
            .map(Some)
            .map_err(|failure| failure.hint("--spill names another directory"))
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
