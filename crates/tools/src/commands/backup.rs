//! `uext4 backup`: copies the image of a running mount.

use super::backup_copy::copy;
use super::backup_identity::identity;
use super::backup_since::{self, Base, Checked};
use super::backup_source::{Source, recovered};
use super::backup_target::{OldCopy, failed, is_device};
use super::foreign_size::refuse_more_than_the_file_system;
use super::mkfs_target;
use super::snapshot::{self, SnapshotArgs};
use crate::failure::{self, At, Exit, Failure, Result};
use crate::show;
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use uext4::device::{BlockDevice, Rights};
use uext4_fuse::{
    Ask, Continued, CopyIdentity, Remote, Since, SnapshotPurpose, SnapshotResult, is_interrupted,
};
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
  uext4 backup /mnt disk.img --since ID    update the copy that backup ID made
  uext4 backup /mnt new.qcow2 --since ID --base old.qcow2
                                           what changed since ID, over the copy old.qcow2
  uext4 backup --forget /mnt               note no changes any more

Writers of the mount go on; they wait for less than 100 ms, once. What they overwrite while the copy
is made is kept for it in memory and in a temporary file. The copy is clean: its journal is
replayed, and files that were open without a name are freed. OUT gets its name when it is
complete.

A copy in a file has an identifier. From then on the server notes in memory which parts change, for
the last four copies, until the mount ends or becomes read-only. --since reads only these parts. A
qcow2 OUT with --base needs that file as it is; so a copy that is a base is not updated.")]
pub(crate) struct Args {
    /// Directory on which the file system is mounted, or its control socket
    #[arg(value_name = "MOUNTPOINT")]
    target: PathBuf,
    /// The copy: a new file, or a block device
    #[arg(value_name = "OUT", required_unless_present = "forget")]
    out: Option<PathBuf>,
    /// Copy what changed since the backup ID. A raw OUT is the copy that it made; a failure leaves
    /// that as it was
    #[arg(long, value_name = "ID", conflicts_with = "forget")]
    since: Option<String>,
    /// For a qcow2 OUT, the copy that the backup ID made; OUT refers to it
    #[arg(long, value_name = "FILE", requires = "since")]
    base: Option<PathBuf>,
    /// Note no changes any more since the backup ID; without it since all backups
    #[arg(
        long,
        value_name = "ID",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["out", "as_is", "force", "format"]
    )]
    forget: Option<Option<String>>,
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
        match (&self.forget, &self.out) {
            (Some(id), _) => self.forget(id.clone()),
            (None, Some(out)) => self.copy_to(out),
            // clap requires one of them.
            (None, None) => Err(Failure::usage("OUT is missing")),
        }
    }

    fn forget(&self, id: Option<String>) -> Result<()> {
        let count = super::control::ask(&self.target, &Ask::ForgetBackups { id })?;
        if self.json {
            return show::line(format_args!("{}", json!({ "forgotten": count })));
        }
        show::line(format_args!(
            "{}: forgotten: {count}",
            self.target.display()
        ))
    }

    fn copy_to(&self, out: &Path) -> Result<()> {
        let name = self.target.display().to_string();
        let format = self.format(out);
        let base = self.base(out, format)?;
        let is_update = base.as_ref().is_some_and(Base::is_updated);
        mkfs_target::check_free(out, self.force || is_update)?;
        uext4_fuse::catch_interrupts().at(&name)?;
        snapshot::write_back(&self.target)?;
        let old = OldCopy::open(out)?;
        let since = self.since.clone().map(|id| Since {
            id,
            is_replaced: is_update,
        });
        let (purpose, continues) = (SnapshotPurpose::Backup, Continued::Later);
        let snapshot = self
            .snapshot
            .take_chained(&self.target, purpose, continues, since)?;
        let device: Arc<dyn BlockDevice> = snapshot.device();
        let uuid = uext4::read_superblock(&*device, None);
        let uuid = uuid.map_or([0; 16], |superblock| superblock.uuid);
        let base = base.map(|base| base.check(&snapshot, (&name, out), uuid));
        let base = base.transpose()?;
        let options = Options {
            format,
            rights: Rights::Private,
            backing: base.as_ref().and_then(Checked::backing),
            ..Options::default()
        };
        let container = Container::create(out, options);
        let container = container.map_err(|error| failed(out, &error))?;
        old.as_ref().map_or(Ok(()), |old| old.refuse_swapped(out))?;
        self.check_copyable(&snapshot, &*device, (out, &container))?;
        let copied = self.copy_all(&snapshot, &container, base.as_ref());
        snapshot::check_going(&snapshot, &name, "the copy")?;
        let data_bytes = copied.at(out.display())?;
        if is_update {
            // The earlier copy is better than one without some changes.
            snapshot::check_written(&snapshot, &name)?;
        }
        if let Some(base) = &base {
            // Before OUT, which may be a good copy, is replaced; once more afterwards.
            base.refuse_changed(out)?;
        }
        let made = container.identities();
        self.finish(container, out, (device.size_bytes(), uuid))?;
        if let Some(base) = &base {
            base.refuse_changed(out)?;
        }
        drop(old);
        let behind = base.as_ref().map_or(&[][..], Checked::behind);
        let copy = identity((out, &made), uuid, device.size_bytes(), format, behind);
        let id = self.report(&snapshot, out, copy, is_update);
        // Until here no other backup updates what OUT refers to; now the server refuses that.
        drop(base);
        self.print(&snapshot, (out, device.size_bytes(), data_bytes), id)?;
        snapshot::check_written(&snapshot, &name)
    }

    /// Gives the copy its name.
    fn finish(
        &self,
        container: Container,
        out: &Path,
        (size_bytes, uuid): (u64, [u8; 16]),
    ) -> Result<()> {
        if is_interrupted() {
            let text = format!("{}: interrupted", self.target.display());
            return Err(Failure::new(Exit::Failed, text));
        }
        let made = container.finish(size_bytes, uuid, |_| {
            if is_interrupted() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        made.map(drop).map_err(|error| failed(out, &error))
    }

    /// Tells the server of the copy, which is complete whatever becomes of the mount; returns the
    /// identifier by which a later one continues it.
    fn report(
        &self,
        snapshot: &Remote,
        out: &Path,
        copy: Option<CopyIdentity>,
        is_update: bool,
    ) -> Option<String> {
        let is_file = copy.is_some();
        let verdict = snapshot.unwritten().map_or("copied", |_| "incomplete");
        let result = SnapshotResult {
            verdict: verdict.into(),
            findings: 0,
            copy,
        };
        let reported = snapshot.report(&result);
        let noted = snapshot.noted().map(|noted| noted.id.clone());
        let id = noted.clone().filter(|_| reported.is_ok() && is_file);
        if id.is_none() && (noted.is_some() || is_update) && !is_device(out) {
            let why = reported.err().map(|error| format!(": {error}"));
            failure::info(format_args!(
                "{}: no later backup can continue it{}",
                out.display(),
                why.unwrap_or_default()
            ));
        }
        if is_update && id.is_some() {
            // The copy that it made is no more.
            let id = self.since.clone();
            let _ = super::control::ask(&self.target, &Ask::ForgetBackups { id });
        }
        id
    }

    /// Copies all that is in the snapshot, or what is not in the earlier copy.
    fn copy_all(
        &self,
        snapshot: &Remote,
        container: &Container,
        base: Option<&Checked>,
    ) -> uext4::Result<u64> {
        let device: Arc<dyn BlockDevice> = snapshot.device();
        let source = if self.as_is {
            Source {
                device,
                changed: None,
            }
        } else {
            recovered(snapshot, device)?
        };
        backup_since::send_differences(snapshot, &source)?;
        match base {
            Some(base) => base.continue_to(container, snapshot, &source),
            None => copy(&source, container),
        }
    }

    /// The copy that this one continues.
    fn base(&self, out: &Path, format: Format) -> Result<Option<Base>> {
        match (&self.since, &self.base, format) {
            (None, ..) => Ok(None),
            (Some(_), Some(base), Format::Qcow2) => Base::behind_qcow2(base).map(Some),
            (Some(_), None, Format::Raw) => Base::updated(out).map(Some),
            (Some(_), Some(_), _) => Err(Failure::usage(
                "backup: --base is for a qcow2 OUT; a raw OUT is itself the earlier copy",
            )),
            (Some(_), None, _) => Err(Failure::usage(
                "backup: for a qcow2 OUT --since needs the earlier copy as --base",
            )),
        }
    }

    /// Refuses what makes no copy, before anything is written.
    fn check_copyable(
        &self,
        snapshot: &Remote,
        device: &dyn BlockDevice,
        (out, container): (&Path, &Container),
    ) -> Result<()> {
        let (name, size_bytes) = (self.target.display().to_string(), device.size_bytes());
        if self.as_is && snapshot.journal().is_some() {
            let text = format!("{name}: the log is on an external journal, which is not copied");
            return Err(Failure::usage(text).hint("leave --as-is out"));
        }
        if size_bytes > container.device().size_bytes() {
            let text = format!(
                "{}: {size_bytes} bytes do not fit, and nothing was written",
                out.display()
            );
            return Err(Failure::new(Exit::Failed, text));
        }
        if snapshot.is_trusted() {
            return Ok(());
        }
        refuse_more_than_the_file_system(&name, device)
    }

    fn format(&self, out: &Path) -> Format {
        let ending = out.extension();
        let is_qcow2 = ending.is_some_and(|ending| ending.eq_ignore_ascii_case("qcow2"));
        match self.format {
            Some(FormatWord::Raw) => Format::Raw,
            Some(FormatWord::Qcow2) => Format::Qcow2,
            None if is_qcow2 => Format::Qcow2,
            None => Format::Raw,
        }
    }

    fn print(
        &self,
        snapshot: &Remote,
        (out, size_bytes, data_bytes): (&Path, u64, u64),
        id: Option<String>,
    ) -> Result<()> {
        if self.json {
            let value = json!({
                "mount_point": self.target.display().to_string(),
                "out": out.display().to_string(),
                "backup_id": id,
                "since": self.since,
                "size_bytes": size_bytes,
                "data_bytes": data_bytes,
                "pause_us": uext4_num::clamp_u64(snapshot.pause().as_micros()),
                "replayed": !self.as_is,
            });
            return show::line(format_args!("{value}"));
        }
        let data = match &self.since {
            Some(since) => format!("changed since {since}"),
            None => "of data".to_owned(),
        };
        show::line(format_args!(
            "{}: copy of {}, {} with {} {data}",
            out.display(),
            self.target.display(),
            crate::numbers::readable_size(size_bytes),
            crate::numbers::readable_size(data_bytes),
        ))?;
        match id {
            Some(id) => show::line(format_args!("backup {id}; `--since {id}` continues it")),
            None => Ok(()),
        }
    }
}
