//! Power-cut test of a database in WAL mode: every acknowledged commit must survive every cut.
//!
//! SQLite runs on our mount, whose device records every write and every flush. The record contains
//! a mark after each acknowledged COMMIT. The run then cuts power at many points of the record: all
//! flushed writes survive, and any part of the rest. Our engine recovers the device, e2fsck checks
//! some of the images, and SQLite recovers the database from its WAL.
//!
//! References: `docs/internals/crash-model.md`; <https://www.sqlite.org/wal.html>.

mod cut;
mod writer;

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use uext4::device::{BlockDevice, CrashLog, Event, Faulty, Flushes, MemDevice, Recorder};
use uext4::{Filesystem, MountOptions};
use uext4_fuse::{Channel, Lazy, Session};
use uext4_testkit::oracle::{mke2fs, scratch_dir};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::served::ServedMount;
use uext4_testkit::skip;

use crate::server::Transport;
use writer::Writer;

const IMAGE_BYTES: u64 = 64 << 20;
/// Byte range of the superblock, whose write is atomic.
const SUPERBLOCK_BYTES: std::ops::Range<u64> = 1024..2048;

/// Flush behaviour of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Flushes are durable.
    Honest,
    /// Flushes do nothing, so every run must fail.
    DropsFlushes,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Transactions.
    pub transactions: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Reproduces the written content, the cuts and the surviving writes, but not the order in
    /// which the threads write.
    pub seed: u64,
    /// Transport of FUSE requests.
    pub transport: Transport,
    /// Device below the file system.
    pub device: Device,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Transactions that SQLite called committed.
    pub committed: u64,
    /// Writes, flushes and marks in the record.
    pub events: usize,
    /// Power cuts.
    pub cuts: u64,
    /// Cuts that e2fsck checked.
    pub checked: u64,
    /// Transactions found after the cuts, summed over all cuts.
    pub found: u64,
    /// Transactions acknowledged before the cuts, summed over all cuts.
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

/// True if the machine has everything that a run needs; prints what is missing.
///
/// In continuous integration, if anything is missing.
pub fn available_or_skip(transport: Transport) -> bool {
    let what = "a database under power cuts";
    skip::programs_or_skip(what, &["sqlite3"])
        && ServedMount::available_or_skip(what)
        && transport.available_or_skip(what)
}

/// Records a run of SQLite and judges the cuts.
///
/// A lost transaction or a damaged image, with the cut and the seed.
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

/// Records SQLite at work. Returns the record and the number of committed transactions.
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

/// Mounts the device on the directory, and hides the directory's content.
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
    // FUSE_INIT must complete while the switch is on.
    std::fs::metadata(dir)?;
    Ok(session)
}
