//! `uext4 fsck MOUNTPOINT`: checks a snapshot of a running mount.

use super::fsck;
use super::fsck_decisions::{Choice, Session};
use super::snapshot::{self, SnapshotArgs};
use crate::failure::{At, Failure, Result};
use crate::show;
use uext4::MountOptions;
use uext4::check::{CheckReport, check};
use uext4::device::BlockDevice;
use uext4_fuse::{Ask, SnapshotPurpose, SnapshotResult};
use uext4_num::u64_of;
use uext4_sync::Arc;

/// Options for a running mount.
#[derive(clap::Args, Debug)]
pub(crate) struct MountArgs {
    /// Abort checks and backups of the mount that are running
    #[arg(long, help_heading = "Mount")]
    abort: bool,
    #[command(flatten)]
    snapshot: SnapshotArgs,
}

impl MountArgs {
    /// Refuses options of a mount for an image.
    pub(super) fn refuse_for_image(&self, name: &str) -> Result<()> {
        let abort = self.abort.then_some("--abort");
        match abort.or(self.snapshot.first_option()) {
            Some(option) => Err(Failure::usage(format!(
                "{name}: {option} is for a mount, not for an image"
            ))),
            None => Ok(()),
        }
    }
}

/// Checks the mount, or ends checks of it.
pub(super) fn run(args: &fsck::Args, mount: &MountArgs) -> Result<()> {
    let (target, name) = (args.image().image.as_path(), args.image().name());
    if let Some(option) = args.first_change() {
        let text = format!("{name}: {option}: a running mount is checked, not repaired");
        return Err(Failure::usage(text).hint("`uext4 umount` it first"));
    }
    if mount.abort {
        let ended = super::control::ask(target, &Ask::EndSnapshots { id: None })?;
        return show::line(format_args!("{name}: ended: {ended}"));
    }
    let snapshot = mount.snapshot.take(target, SnapshotPurpose::Check)?;
    let options = MountOptions {
        journal_device: snapshot
            .journal()
            .map(|journal| -> Arc<dyn BlockDevice> { journal }),
        ..MountOptions::default()
    };
    let report = check(snapshot.device(), options, &args.limits(Choice::No)?);
    snapshot::check_going(&snapshot, &name, "the check")?;
    let report = report.at(&name)?;
    let result = SnapshotResult {
        verdict: verdict(&report).into(),
        findings: u64_of(report.findings.len()) + report.n_more,
    };
    let told = snapshot.report(&result);
    told.map_err(|error| super::control::failure(target, &error))?;
    args.end_check(&mut Session::new(name, Choice::No, args.json()), &report)
}

fn verdict(report: &CheckReport) -> &'static str {
    if !report.findings.is_empty() || report.n_more > 0 {
        "damaged"
    } else if report.incomplete.is_some() {
        "incomplete"
    } else {
        "sound"
    }
}
