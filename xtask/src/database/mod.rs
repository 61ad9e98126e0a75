//! A database in WAL mode under power cuts: what it called committed must be there after each.
//!
//! SQLite works on a mount of ours whose device records every change and every flush. Each answer
//! to a COMMIT is marked in the record. Then the power is cut at many points of it: the device of
//! such a moment (all that was flushed, and any of the rest, in part too) is recovered by our
//! engine, e2fsck looks at some of them, and SQLite recovers the database from its log.
//!
//! References: `docs/crash-model.md`; <https://www.sqlite.org/wal.html>.

mod cut;
mod writer;

use std::fmt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use uext4::device::{BlockDevice, CrashLog, Event, Faulty, Flushes, MemDevice, Recorder};
use uext4::{Filesystem, MountOptions};
use uext4_fuse::{Channel, Lazy, Session};
use uext4_testkit::oracle::{in_ci, mke2fs, scratch_dir};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::served::ServedMount;

use crate::server::Transport;
use writer::Writer;

const IMAGE_BYTES: u64 = 64 << 20;
/// Where the superblock lies: it is written at once or not at all.
const SUPERBLOCK_BYTES: std::ops::Range<u64> = 1024..2048;

/// Whether the device keeps what it promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Yes.
    Honest,
    /// Flushes do nothing: then every run must fail.
    DropsFlushes,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Transactions.
    pub transactions: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Repeats what is written, where the power is cut and what survives; not the order of the
    /// threads that write it.
    pub seed: u64,
    /// How requests come.
    pub transport: Transport,
    /// Under the file system.
    pub device: Device,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Transactions that SQLite called committed.
    pub committed: u64,
    /// Changes, flushes and marks in the record.
    pub events: usize,
    /// Power cuts.
    pub cuts: u64,
    /// Those that e2fsck looked at.
    pub checked: u64,
    /// Transactions found in all cuts together, each with its rows.
    pub found: u64,
    /// Those that were promised.
    pub promised: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            committed,
            events,
            cuts,
            checked,
            found,
            promised,
        } = self;
        write!(
            f,
            "{committed} transactions committed, {events} events, {cuts} power cuts ({checked} \
             before e2fsck): {promised} promises, {found} transactions found, none lost, none half"
        )
    }
}

/// Whether all is there that a run needs; says loudly what is not.
///
/// # Panics
/// In continuous integration, where nothing may be skipped.
pub fn available_or_skip(transport: Transport) -> bool {
    let what = "a database under power cuts";
    let sqlite = Command::new("sqlite3")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if sqlite.is_err() {
        assert!(!in_ci(), "{what}: CI has sqlite3");
        eprintln!("=== SKIPPED: {what} needs sqlite3 ===");
        return false;
    }
    ServedMount::available_or_skip(what) && transport.available_or_skip(what)
}

/// Writes, then cuts.
///
/// # Errors
/// A broken promise, with the cut and the seed.
pub fn run(plan: &Plan) -> Result<Figures> {
    let (mut log, committed) = record(plan)?;
    let mut figures = Figures {
        committed,
        events: log.len(),
        ..Figures::default()
    };
    log.keep_whole(SUPERBLOCK_BYTES);
    for cut in cut::choose(&log, plan) {
        cut.judge(&mut log, plan.seed, &mut figures)
            .with_context(|| format!("seed {}, {cut:?} of {}", plan.seed, log.len()))?;
    }
    Ok(figures)
}

/// SQLite at work over a recorder; answers how many transactions it committed.
fn record(plan: &Plan) -> Result<(CrashLog, u64)> {
    let scratch = scratch_dir()?;
    let image = scratch.path().join("image");
    mke2fs(&image, IMAGE_BYTES, &["-b", "4096"])?;
    let memory = Arc::new(MemDevice::from_bytes(&std::fs::read(&image)?));
    let recorder = Arc::new(Recorder::new(memory));
    let faulty = Faulty::new(recorder.clone());
    if plan.device == Device::DropsFlushes {
        faulty.set_flushes(Flushes::Dropped);
    }
    let session = serve(Arc::new(faulty), scratch.path(), plan.transport)?;
    let mut writer = Writer::start(&scratch.path().join("db"), plan.seed)?;
    for nr in 1..=plan.transactions {
        writer.commit(nr)?;
        recorder.mark(nr);
    }
    let log = recorder.log();
    writer.stop()?;
    session.unmount(Lazy::No)?;
    let marks = log.events().iter();
    let marks = marks
        .filter(|event| matches!(event, Event::Mark(_)))
        .count();
    ensure!(marks as u64 == plan.transactions, "{marks} marks");
    Ok((log, plan.transactions))
}

/// Mounts it on the directory, which hides what lies there.
fn serve(
    device: Arc<dyn BlockDevice>,
    dir: &std::path::Path,
    transport: Transport,
) -> Result<Session> {
    let rings = transport == Transport::IoUring;
    let _on = rings.then(RingsSwitch::on).transpose()?;
    let options = uext4_fuse::MountOptions {
        channel: match transport {
            Transport::DevFuse => Channel::DevFuse,
            Transport::IoUring => Channel::IoUring,
        },
        ..uext4_fuse::MountOptions::default()
    };
    let filesystem = Filesystem::mount(device, MountOptions::default())?;
    let session = Session::start(filesystem, dir, &options)?;
    // The kernel has greeted the server while the switch is on.
    std::fs::metadata(dir)?;
    Ok(session)
}
