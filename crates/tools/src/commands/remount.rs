//! `uext4 remount`, `freeze`, `thaw` and `shutdown`: commands to a running mount.

use super::control;
use super::mount_words::take_ours;
use crate::failure::{Failure, Result};
use crate::location::Location;
use std::path::{Path, PathBuf};
use uext4::Flush;

/// Change the options of a mount, such as ro or rw
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 remount /mnt/data -o ro                read-only; the image is clean
  uext4 remount /mnt/data -o rw,commit=30

OPTIONS are those of `uext4 mount --help`; the others keep their values. Options that cannot change
while mounted (data=, sb=, journal_path=, allocator=) are refused. For the superuser the kernel's
mount is changed, too: it refuses ro while files are open for writing.")]
pub(crate) struct Args {
    /// Mount point
    dir: PathBuf,
    /// Mount options, separated by commas
    #[arg(short, long, value_name = "OPTIONS", required = true)]
    options: Vec<String>,
}

/// Freeze a mount, for example for a snapshot
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  uext4 freeze /mnt/data && cp --reflink disk.img snapshot.img; uext4 thaw /mnt/data

All earlier changes are in the image, which is clean. New changes wait until `uext4 thaw`. Reads
continue, except in a directory where a change waits, since the kernel holds its lock.")]
pub(crate) struct FreezeArgs {
    /// Mount point
    dir: PathBuf,
}

/// Thaw a mount after `uext4 freeze`
#[derive(clap::Args)]
pub(crate) struct ThawArgs {
    /// Mount point
    dir: PathBuf,
}

/// Shut down a mount: all later accesses fail with EIO
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 shutdown /mnt/data                 the image is clean
  uext4 shutdown --flush none /mnt/data    as after a power failure

Replaces EXT4_IOC_SHUTDOWN, whose argument the kernel does not pass to a FUSE server. After it, use
`uext4 umount` to unmount. With --flush log or none the next mount replays the journal, and data
that were not synced may be lost.")]
pub(crate) struct ShutdownArgs {
    /// Mount point
    dir: PathBuf,
    /// What to write before the shutdown: all changes, metadata only (log), or nothing
    #[arg(long, value_name = "WHAT", default_value = "all")]
    flush: What,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    All,
    Log,
    None,
}

impl ShutdownArgs {
    pub(crate) fn run(self) -> Result<()> {
        let flush = match self.flush {
            What::All => Flush::Everything,
            What::Log => Flush::Log,
            What::None => Flush::Nothing,
        };
        told(&self.dir, uext4_fuse::shutdown(&self.dir, flush))
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let list = self.options.join(",");
        check_words(&list)?;
        told(&self.dir, uext4_fuse::remount(&self.dir, &list))
    }
}

/// Refuses an unknown option as a usage error, before it asks the mount.
fn check_words(list: &str) -> Result<()> {
    let rest = Location::default().take(list)?;
    let ours = take_ours(&rest, &mut uext4_fuse::MountOptions::default());
    let words = ours.map_err(|error| Failure::usage(format!("-o {error}")))?;
    let known = uext4::MountOptions::default().parse(&words.rest);
    known
        .map(drop)
        .map_err(|error| Failure::options(list, &error))
}

impl FreezeArgs {
    pub(crate) fn run(self) -> Result<()> {
        told(&self.dir, uext4_fuse::freeze(&self.dir))
    }
}

impl ThawArgs {
    pub(crate) fn run(self) -> Result<()> {
        told(&self.dir, uext4_fuse::thaw(&self.dir))
    }
}

fn told(dir: &Path, answer: uext4_fuse::Result<()>) -> Result<()> {
    answer.map_err(|error| control::failure(dir, &error))
}
