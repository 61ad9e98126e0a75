//! `uext4 remount`, `freeze`, `thaw` and `shutdown`: commands to a running mount.

use super::control;
use super::mount_words::take_ours;
use crate::failure::{Failure, Result};
use crate::place::Place;
use std::path::{Path, PathBuf};
use uext4::Flush;

/// Change the options of a mount, or whether it can be written
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 remount /mnt/data -o ro                nothing is written any more, the image is clean
  uext4 remount /mnt/data -o rw,commit=30

OPTIONS are those of `uext4 mount --help`. Those that are not named stay as they are. What cannot
change while mounted (data=, sb=, journal_path=, allocator=) is refused. As superuser the kernel is
told, too: it refuses ro while files are open for writing.")]
pub(crate) struct Args {
    /// Where it is mounted
    dir: PathBuf,
    /// Mount options, separated by commas
    #[arg(short, long, value_name = "OPTIONS", required = true)]
    options: Vec<String>,
}

/// Keep the image of a mount still and clean, as for a snapshot
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  uext4 freeze /mnt/data && cp --reflink disk.img snapshot.img; uext4 thaw /mnt/data

What was written before is in the image. Changes wait until `uext4 thaw`. Reads go on, but not in a
directory where a change waits: the kernel holds its lock.")]
pub(crate) struct FreezeArgs {
    /// Where it is mounted
    dir: PathBuf,
}

/// Let changes go on after `uext4 freeze`
#[derive(clap::Args)]
pub(crate) struct ThawArgs {
    /// Where it is mounted
    dir: PathBuf,
}

/// Stop a mount: its users get I/O errors
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 shutdown /mnt/data                 the image is clean
  uext4 shutdown --flush none /mnt/data    as if power were cut

What EXT4_IOC_SHUTDOWN is to ext4, whose argument the kernel does not pass on to a server. Nothing
is read or written any more; `uext4 umount` takes the mount off. After log and none the next mount
recovers the image; data that were not synced may be lost.")]
pub(crate) struct ShutdownArgs {
    /// Where it is mounted
    dir: PathBuf,
    /// What is still written: everything, what happened to names and inodes, nothing
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
    let rest = Place::default().take(list)?;
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
