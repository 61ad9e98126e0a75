//! Snapshots of running mounts, for `fsck` and `backup`.

use crate::failure::{At, Exit, Failure, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use uext4_fuse::{Remote, SnapshotPurpose, SnapshotWanted};

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
        if purpose == SnapshotPurpose::Check {
            // It takes longer then, and delays no other process.
            let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
        }
        let spill = self.spill_file()?;
        let wanted = SnapshotWanted {
            purpose,
            pid: std::process::id(),
            memory_bytes: self.keep_memory.unwrap_or(KEEP_BYTES),
            spill_bytes: spill
                .is_some()
                .then(|| self.spill_limit.unwrap_or(SPILL_BYTES)),
        };
        let taken = Remote::take(target, &wanted, spill.as_ref());
        taken.map_err(|error| super::control::failure(target, &error))
    }

    /// A file without a name.
    fn spill_file(&self) -> Result<Option<File>> {
        match &self.spill {
            Some(dir) if dir == Path::new("none") => Ok(None),
            Some(dir) => tempfile::tempfile_in(dir).at(dir.display()).map(Some),
            None => {
                let dir = std::env::var_os("TMPDIR").map_or("/var/tmp".into(), PathBuf::from);
                let file = tempfile::tempfile_in(&dir).at(dir.display());
                file.map(Some)
                    .map_err(|failure| failure.hint("--spill names another directory"))
            }
        }
    }
}

/// The failure of work on a snapshot that has ended.
pub(super) fn check_going(snapshot: &Remote, name: &str, work: &str) -> Result<()> {
    match snapshot.ended() {
        None => Ok(()),
        Some(why) => {
            let text = format!("{name}: {work} is not complete: the snapshot has ended: {why}");
            Err(Failure::new(Exit::Failed, text))
        }
    }
}
