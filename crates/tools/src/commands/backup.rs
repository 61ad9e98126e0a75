//! `uext4 backup`: copies the image of a running mount.

use super::backup_copy::copy;
use super::backup_source::{Source, recovered};
use super::backup_target::{OldCopy, failed};
use super::mkfs_target;
use super::snapshot::{self, SnapshotArgs};
use crate::failure::{At, Exit, Failure, Result};
use crate::show;
use rustix::fs::{FileType, OFlags};
use serde_json::json;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use uext4::device::{BlockDevice, Rights};
use uext4_fuse::{Ask, Client, Remote, SnapshotPurpose, SnapshotResult, is_interrupted};
use uext4_image::{Container, Format, Options};
use uext4_sync::Arc;

/// Copy the image of a running mount, as it is at one moment
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 backup /mnt disk.img               a copy that can be mounted and checked
  uext4 backup /mnt disk.qcow2             as a qcow2 image
  uext4 backup /mnt /dev/sdb1 --force      onto a block device
  uext4 backup /mnt disk.img --as-is       byte for byte, with a log to replay

Writers of the mount go on; they wait for less than 100 ms, once. What they overwrite while the copy
is made is kept for it in memory and in a temporary file. The copy is clean: its journal is
replayed, and files that were open without a name are freed. OUT gets its name when it is
complete.")]
pub(crate) struct Args {
    /// Directory on which the file system is mounted, or its control socket
    #[arg(value_name = "MOUNTPOINT")]
    target: PathBuf,
    /// The copy: a new file, or a block device
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Format of OUT. Default: by its file name extension, .qcow2, otherwise raw
    #[arg(long)]
    format: Option<FormatWord>,
    /// Copy all bytes as they are, and do not replay the journal
    #[arg(long)]
    as_is: bool,
    /// Overwrite OUT if it holds something; not if it is in use or another user's
    #[arg(long, short = 'f')]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    snapshot: SnapshotArgs,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum FormatWord {
    Raw,
    Qcow2,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let (name, out) = (self.target.display().to_string(), self.out.display());
        mkfs_target::check_free(&self.out, self.force)?;
        uext4_fuse::catch_interrupts().at(&name)?;
        write_back(&self.target)?;
        let format = self.format();
        let old = OldCopy::open(&self.out)?;
        let options = Options {
            format,
            rights: Rights::Private,
            ..Options::default()
        };
        let container = Container::create(&self.out, options);
        let container = container.map_err(|error| failed(&self.out, &error))?;
        old.as_ref()
            .map_or(Ok(()), |old| old.refuse_swapped(&self.out))?;
        let snapshot = self.snapshot.take(&self.target, SnapshotPurpose::Backup)?;
        let device: Arc<dyn BlockDevice> = snapshot.device();
        self.check_copyable(&snapshot, &*device, &container)?;
        let source = if self.as_is {
            Ok(Source {
                device: device.clone(),
                changed: None,
            })
        } else {
            recovered(&snapshot, device.clone())
        };
        let copied = source.and_then(|source| copy(&source, &container));
        snapshot::check_going(&snapshot, &name, "the copy")?;
        let data_bytes = copied.at(&out)?;
        if is_interrupted() {
            return Err(Failure::new(Exit::Failed, format!("{name}: interrupted")));
        }
        let superblock = uext4::read_superblock(&*device, None);
        let uuid = superblock.map_or([0; 16], |superblock| superblock.uuid);
        let made = container.finish(device.size_bytes(), uuid, |_| {
            if is_interrupted() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        made.map_err(|error| failed(&self.out, &error))?;
        drop(old);
        let verdict = snapshot.unwritten().map_or("copied", |_| "incomplete");
        let result = SnapshotResult {
            verdict: verdict.into(),
            findings: 0,
        };
        // The copy is complete, whatever becomes of the mount.
        let _ = snapshot.report(&result);
        self.print(&snapshot, device.size_bytes(), data_bytes)?;
        snapshot::check_written(&snapshot, &name)
    }

    /// Refuses what makes no copy, before anything is written.
    fn check_copyable(
        &self,
        snapshot: &Remote,
        device: &dyn BlockDevice,
        container: &Container,
    ) -> Result<()> {
        let (name, size_bytes) = (self.target.display().to_string(), device.size_bytes());
        if self.as_is && snapshot.journal().is_some() {
            let text = format!("{name}: the log is on an external journal, which is not copied");
            return Err(Failure::usage(text).hint("leave --as-is out"));
        }
        if size_bytes > container.device().size_bytes() {
            let text = format!(
                "{}: {size_bytes} bytes do not fit, and nothing was written",
                self.out.display()
            );
            return Err(Failure::new(Exit::Failed, text));
        }
        if snapshot.is_trusted() {
            return Ok(());
        }
        let disk = uext4::read_superblock(device, None).at(&name)?;
        let geometry = disk.geometry().map_err(uext4::Error::from).at(&name)?;
        let has_bytes = disk
            .blocks_count
            .saturating_mul(geometry.block_size().into());
        if size_bytes <= has_bytes {
            return Ok(());
        }
        let text = format!(
            "{name}: the server of another user sends {size_bytes} bytes, and the file system has \
             {has_bytes}"
        );
        Err(Failure::new(Exit::Failed, text).hint("run the backup as that user"))
    }

    fn format(&self) -> Format {
        let ending = self.out.extension();
        let is_qcow2 = ending.is_some_and(|ending| ending.eq_ignore_ascii_case("qcow2"));
        match self.format {
            Some(FormatWord::Raw) => Format::Raw,
            Some(FormatWord::Qcow2) => Format::Qcow2,
            None if is_qcow2 => Format::Qcow2,
            None => Format::Raw,
        }
    }

    fn print(&self, snapshot: &Remote, size_bytes: u64, data_bytes: u64) -> Result<()> {
        if self.json {
            let value = json!({
                "mount_point": self.target.display().to_string(),
                "out": self.out.display().to_string(),
                "size_bytes": size_bytes,
                "data_bytes": data_bytes,
                "pause_us": uext4_num::clamp_u64(snapshot.pause().as_micros()),
                "replayed": !self.as_is,
            });
            return show::line(format_args!("{value}"));
        }
        show::line(format_args!(
            "{}: copy of {}, {} with {} of data",
            self.out.display(),
            self.target.display(),
            crate::numbers::readable_size(size_bytes),
            crate::numbers::readable_size(data_bytes),
        ))
    }
}

/// Has the kernel write its dirty pages of the mount back. A frozen mount has none that it could
/// write.
///
/// The server of another user might never answer the kernel, so it is not asked.
fn write_back(target: &Path) -> Result<()> {
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
