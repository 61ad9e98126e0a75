//! `uext4 fsck MOUNTPOINT`: checks a snapshot of a running mount.

use super::fsck;
use super::fsck_decisions::{Choice, Session};
use super::fsck_end::end_check;
use super::fsck_told::{Counted, Told as Statistics};
use super::snapshot::{self, SnapshotArgs};
use crate::failure::{At, Failure, Result};
use crate::image::SnapshotDevices;
use crate::show;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use uext4::MountOptions;
use uext4::check::{CheckReport, Limits, Pass, Watch, check};
use uext4::device::Scratch;
use uext4_fuse::{Ask, Remote, SnapshotPurpose, SnapshotResult};
use uext4_num::{clamp_u32, u64_of};
use uext4_sync::{Arc, Mutex, Rank, thread};

/// Options for a running mount.
#[derive(clap::Args, Debug)]
pub(crate) struct MountArgs {
    /// Abort checks and backups of the mount that are running
    #[arg(long, help_heading = "Mount")]
    abort: bool,
    /// Check again after each TIME (90s, 30m, 12h, 1d) until errors are found or the mount ends
    #[arg(
        long,
        value_name = "TIME",
        help_heading = "Mount",
        value_parser = interval,
        conflicts_with = "abort"
    )]
    every: Option<Duration>,
    #[command(flatten)]
    snapshot: SnapshotArgs,
}

impl MountArgs {
    /// The directory for a temporary file.
    pub(super) fn spill_dir(&self) -> Option<PathBuf> {
        self.snapshot.spill_dir()
    }

    /// The same, after a try where one was given.
    pub(super) fn checked_spill_dir(&self) -> Result<Option<PathBuf>> {
        let dir = self.spill_dir();
        if let (Some(_), Some(dir)) = (&self.snapshot.spill, &dir) {
            let made = Scratch::in_dir(dir).at(dir.display());
            made.map_err(|failure| failure.hint("--spill names another directory"))?;
        }
        Ok(dir)
    }

    /// Refuses options of a mount for an image.
    pub(super) fn refuse_for_image(&self, name: &str) -> Result<()> {
        let abort = self.abort.then_some("--abort");
        let every = self.every.map(|_| "--every");
        match abort.or(every).or(self.snapshot.first_option()) {
            Some(option) => Err(Failure::usage(format!(
                "{name}: {option} is for a mount, not for an image"
            ))),
            None => Ok(()),
        }
    }
}

/// Checks the mount, or ends checks of it.
pub(super) fn run(args: &fsck::Args, statistics: &Statistics, mount: &MountArgs) -> Result<()> {
    let (target, name) = (args.image().image.as_path(), args.image().name());
    if let Some(option) = args.first_change() {
        let text = format!("{name}: {option}: a running mount is checked, not repaired");
        return Err(Failure::usage(text).hint("`uext4 umount` it first"));
    }
    if mount.abort {
        let ended = super::control::ask(target, &Ask::EndSnapshots { id: None })?;
        return show::line(format_args!("{name}: ended: {ended}"));
    }
    let Some(every) = mount.every else {
        return match check_once(args, statistics, mount)? {
            Outcome::Sound => Ok(()),
            Outcome::Ended(failure) => Err(failure),
        };
    };
    loop {
        if let Outcome::Ended(failure) = check_once(args, statistics, mount)? {
            // The next one may have less to keep.
            failure.say();
        }
        thread::sleep(every);
    }
}

/// Least time between two messages about the progress.
const TELL_INTERVAL: Duration = Duration::from_millis(500);

enum Outcome {
    Sound,
    /// The snapshot has ended before the check, or has not all changes.
    Ended(Failure),
}

/// Checks the mount; errors are a failure.
fn check_once(args: &fsck::Args, statistics: &Statistics, mount: &MountArgs) -> Result<Outcome> {
    let (target, name) = (args.image().image.as_path(), args.image().name());
    let snapshot = mount.snapshot.take(target, SnapshotPurpose::Check)?;
    let devices = snapshot::devices_of(&snapshot, &name)?;
    let snapshot = Arc::new(snapshot);
    let mut limits = args.limits(Choice::No)?;
    limits.watch = statistics.watch(limits.watch.take());
    limits.watch = Some(Arc::new(Told::new(snapshot.clone(), limits.watch.take())));
    let report = check_devices(&devices, &limits);
    drop(limits);
    if let Err(failure) = snapshot::check_going(&snapshot, &name, "the check") {
        return Ok(Outcome::Ended(failure));
    }
    let report = report.at(&name)?;
    let result = SnapshotResult {
        verdict: match snapshot.unwritten() {
            Some(_) if report.is_clean() => "incomplete".into(),
            _ => verdict(&report).into(),
        },
        findings: u64_of(report.findings.len()) + report.n_more,
        copy: None,
    };
    if let Err(error) = snapshot.report(&result) {
        // The server has ended the snapshot meanwhile; all that was read of it is valid.
        super::control::failure(target, &error).say();
    }
    let written = snapshot::check_written(&snapshot, &name);
    drop((devices, snapshot));
    let used = statistics.print_use(&name, Counted::of_check(&report));
    end_check(&mut Session::new(name, Choice::No, args.json()), &report)?;
    used?;
    Ok(written.map_or_else(Outcome::Ended, |()| Outcome::Sound))
}

/// A log of another user is replayed before, with a limit.
fn check_devices(devices: &SnapshotDevices, limits: &Limits) -> uext4::Result<CheckReport> {
    let devices = devices.to_mount()?;
    let options = MountOptions {
        replay: devices.replays(),
        journal_device: devices.journal,
        ..MountOptions::default()
    };
    check(devices.home, options, limits)
}

/// Tells the server how far the check is, beside its own terminal.
struct Told {
    snapshot: Arc<Remote>,
    terminal: Option<Arc<dyn Watch>>,
    /// When it was told last.
    last: Mutex<Option<Instant>>,
}

impl Told {
    fn new(snapshot: Arc<Remote>, terminal: Option<Arc<dyn Watch>>) -> Self {
        Self {
            snapshot,
            terminal,
            last: Mutex::new(Rank::Queue, None),
        }
    }

    /// Whether it is time to tell it again.
    fn is_time(&self) -> bool {
        let mut last = self.last.lock();
        let is_time = last.is_none_or(|last| last.elapsed() >= TELL_INTERVAL);
        if is_time {
            *last = Some(Instant::now());
        }
        is_time
    }
}

impl Watch for Told {
    fn advance(&self, pass: Pass, done: u64, total: u64) {
        if let Some(terminal) = &self.terminal {
            terminal.advance(pass, done, total);
        }
        if self.is_time() {
            let thousandths = done.saturating_mul(1000) / total.max(1);
            // The check finds the reason if the connection has ended.
            let _ = self
                .snapshot
                .progress(pass.number(), clamp_u32(thousandths));
        }
    }
}

/// A time with its unit.
fn interval(text: &str) -> std::result::Result<Duration, String> {
    const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let parsed = UNITS.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*seconds).filter(|seconds| *seconds > 0)
    });
    let parsed = parsed.ok_or("a time is a number with its unit, such as 90s, 30m, 12h or 1d");
    Ok(Duration::from_secs(parsed?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(interval("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(interval("1d"), Ok(Duration::from_secs(86_400)));
        for bad in ["", "1", "d", "-1d", "0s", "1w", "99999999999999999999d"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
