//! The snapshots of a mount that are being read, and what became of the last ones.
//!
//! Locking: [`Rank::Queue`] for the list; no device is accessed under it.

use super::remembered::Remembered;
use super::snapshot_chain::Chain;
use super::snapshot_wire::{SnapshotPurpose, SnapshotResult, SnapshotWanted};
use super::wire::{Answered, Refusal};
use serde_json::{Value, json};
use std::time::Instant;
use uext4::Snapshot;
use uext4::device::{self, SnapshotEnd};
use uext4_num::clamp_u64;
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Arc, Clock, Mutex, Rank, RealClock};

/// Unit of the pass in a progress.
const PROGRESS_PASS: u64 = 10_000;
/// Maximum number of snapshots at a time.
const SNAPSHOTS_MAX: usize = 4;

/// The snapshots of a mount.
pub(super) struct Snapshots {
    table: Mutex<Table>,
    /// Complete copies.
    pub(super) copies: Remembered,
}

#[derive(Default)]
struct Table {
    last_id: u64,
    /// Snapshots that are being taken.
    starting: usize,
    running: Vec<Arc<Running>>,
    /// What became of the last check and of the last copy.
    last_check: Value,
    last_backup: Value,
}

pub(super) struct Running {
    pub(super) id: u64,
    wanted: SnapshotWanted,
    pub(super) snapshot: Snapshot,
    start: Instant,
    start_seconds: i64,
    pub(super) read_bytes: AtomicU64,
    /// Pass and thousandths of a check, as one number; 0: not told.
    progress: AtomicU64,
    pub(super) chain: Chain,
}

/// Right to take a snapshot.
pub(super) struct Start<'a>(&'a Snapshots);

/// A snapshot in the list; it is dropped and its result is noted when this is dropped.
pub(super) struct Entry<'a> {
    list: &'a Snapshots,
    pub(super) running: Arc<Running>,
    pub(super) result: Option<SnapshotResult>,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            table: Mutex::new(Rank::Queue, Table::default()),
            copies: Remembered::default(),
        }
    }
}

impl Snapshots {
    /// The right to take one more.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn start(&self) -> Result<Start<'_>, Refusal> {
        let mut table = self.table.lock();
        let going = table.running.iter().filter(|running| running.is_going());
        if going.count() + table.starting >= SNAPSHOTS_MAX {
            return Err(Refusal {
                errno: libc::EBUSY,
                text: format!("{SNAPSHOTS_MAX} snapshots are being read"),
            });
        }
        table.starting += 1;
        Ok(Start(self))
    }

    pub(super) fn add(
        &self,
        wanted: &SnapshotWanted,
        snapshot: Snapshot,
        chain: Chain,
    ) -> Entry<'_> {
        let mut table = self.table.lock();
        table.last_id += 1;
        let running = Arc::new(Running {
            id: table.last_id,
            wanted: wanted.clone(),
            snapshot,
            start: Instant::now(),
            start_seconds: RealClock::new().wall().seconds,
            read_bytes: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            chain,
        });
        table.running.push(running.clone());
        Entry {
            list: self,
            running,
            result: None,
        }
    }

    /// Ends one of them, or all: their readers get an error.
    pub(super) fn end(&self, id: Option<u64>) -> Answered {
        let table = self.table.lock();
        let chosen = table.running.iter();
        let chosen = chosen.filter(|running| running.is_going());
        let chosen = chosen.filter(|running| id.is_none_or(|id| id == running.id));
        let count = chosen.map(|running| running.end()).count();
        match id {
            Some(id) if count == 0 => Err(Refusal {
                errno: libc::ENOENT,
                text: format!("there is no snapshot {id}"),
            }),
            _ => Ok(count.into()),
        }
    }

    /// For the statistics.
    pub(super) fn state(&self) -> Value {
        let backups = self.copies.state();
        let table = self.table.lock();
        let running = table.running.iter().map(|running| running.state());
        json!({
            "backups": backups,
            "running": running.collect::<Vec<_>>(),
            "last_check": table.last_check,
            "last_backup": table.last_backup,
        })
    }
}

impl Drop for Start<'_> {
    fn drop(&mut self) {
        self.0.table.lock().starting -= 1;
    }
}

impl Running {
    pub(super) fn is_going(&self) -> bool {
        self.snapshot.device.ended().is_none()
    }

    fn end(&self) {
        let journal = self.snapshot.journal.iter();
        let devices = journal.chain([&self.snapshot.device]);
        devices.for_each(|device| device.end(SnapshotEnd::Aborted));
    }

    pub(super) fn set_progress(&self, pass: u8, thousandths: u32) {
        let both = u64::from(pass) * PROGRESS_PASS + u64::from(thousandths);
        self.progress.store(both, Ordering::Relaxed);
    }

    fn state(&self) -> Value {
        let progress = self.progress.load(Ordering::Relaxed);
        let told = |value: u64| (progress > 0).then_some(value);
        let read_bytes = self.read_bytes.load(Ordering::Relaxed);
        let seconds = self.start.elapsed().as_secs();
        let usage = self.snapshot.device.usage();
        json!({
            "id": self.id,
            "purpose": self.wanted.purpose,
            "pid": self.wanted.pid,
            "seconds": seconds,
            "pass": told(progress / PROGRESS_PASS),
            "percent": told(progress % PROGRESS_PASS / 10),
            "bytes_per_second": read_bytes / seconds.max(1),
            "pause_us": pause_us(&self.snapshot),
            "memory_bytes": usage.memory_bytes,
            "spilled_bytes": usage.spilled_bytes,
            "read_bytes": read_bytes,
            "ended": self.snapshot.device.ended().map(|why| why.to_string()),
        })
    }

    /// What became of it. Without a result the client was killed, or was told that it ended.
    fn conclusion(&self, result: Option<&SnapshotResult>) -> Value {
        let ended = self.snapshot.device.ended().map(|why| why.to_string());
        let given_up = ended.unwrap_or_else(|| "interrupted".into());
        json!({
            "started": self.start_seconds,
            "seconds": self.start.elapsed().as_secs(),
            "pause_us": pause_us(&self.snapshot),
            "verdict": result.map_or(given_up, |result| result.verdict.clone()),
            "findings": result.map_or(0, |result| result.findings),
        })
    }

    pub(super) fn device(&self, number: u8) -> Option<&device::Snapshot> {
        match number {
            0 => Some(&self.snapshot.device),
            _ => self.snapshot.journal.as_deref(),
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let conclusion = self.running.conclusion(self.result.as_ref());
        let mut table = self.list.table.lock();
        table.running.retain(|other| other.id != self.running.id);
        match self.running.wanted.purpose {
            SnapshotPurpose::Check => table.last_check = conclusion,
            SnapshotPurpose::Backup => table.last_backup = conclusion,
            SnapshotPurpose::Read => {}
        }
    }
}

pub(super) fn pause_us(snapshot: &Snapshot) -> u64 {
    clamp_u64(snapshot.pause.as_micros())
}
