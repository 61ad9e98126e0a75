//! Where preimages are kept: memory up to a limit, then a file.
//!
//! Layout of the file: slots of [`GRAIN_BYTES`], given out in ascending order and written once.

use super::end::SnapshotEnd;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Unit in which old content is kept.
pub(super) const GRAIN_BYTES: u64 = 4096;
/// Memory for the entry of a grain in bytes, with the free slots of the map.
const ENTRY_BYTES: u64 = 48;

/// Limits of a snapshot. When one is reached the snapshot ends; writers go on.
#[derive(Debug)]
pub struct SnapshotLimits {
    /// Memory for old contents, in bytes. The index of a file has 48 bytes per 4096 more.
    pub memory_bytes: u64,
    /// A file without other users for old contents that do not fit into memory.
    pub spill: Option<File>,
    /// Maximum size of that file, in bytes.
    pub spill_bytes: u64,
    /// Maximum time that writers wait at the start of the snapshot. If writes that have begun are
    /// not done by then, writers go on, and the start is tried again.
    pub pause: Duration,
    /// Maximum time of all tries.
    pub patience: Duration,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            spill: None,
            spill_bytes: 0,
            pause: Duration::from_millis(50),
            patience: Duration::from_secs(20),
        }
    }
}

/// The old content of a grain.
pub(super) enum Grain {
    Zero,
    Memory(Box<[u8]>),
    /// Offset in the file, in bytes.
    Spilled(u64),
    /// It could not be read.
    Unreadable,
}

/// See the module. Several devices share one.
pub(super) struct Store {
    memory_limit: u64,
    memory_bytes: AtomicU64,
    spill: Option<File>,
    spill_limit: u64,
    /// Memory for old contents with their entries, and for the entries of what is in the file.
    index_limit: u64,
    spilled_bytes: AtomicU64,
}

impl Store {
    pub(super) fn new(limits: SnapshotLimits) -> Self {
        let slots = match limits.spill {
            Some(_) => limits.spill_bytes / GRAIN_BYTES,
            None => 0,
        };
        let memory_limit = limits.memory_bytes;
        let index_limit = (memory_limit / 2).saturating_add(slots.saturating_mul(ENTRY_BYTES));
        Self {
            index_limit: index_limit.max(memory_limit),
            memory_limit,
            memory_bytes: AtomicU64::new(0),
            spill: limits.spill,
            spill_limit: limits.spill_bytes,
            spilled_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Relaxed).min(self.index_limit)
    }

    pub(super) fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes.load(Relaxed).min(self.spill_limit)
    }

    /// Takes a run of grains, or none of them; the last one may be short.
    pub(super) fn put(&self, run: &[u8]) -> Result<Vec<Grain>, SnapshotEnd> {
        let grains: Vec<&[u8]> = run.chunks(clamp_usize(GRAIN_BYTES)).collect();
        let mut taken = Vec::with_capacity(grains.len());
        for part in grains.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            if let Err(full) = self.put_part(part, &mut taken) {
                taken.iter().for_each(|grain| self.give_back(grain));
                return Err(full);
            }
        }
        Ok(taken)
    }

    /// Takes grains that are all zero, or none of which is.
    fn put_part(&self, part: &[&[u8]], taken: &mut Vec<Grain>) -> Result<(), SnapshotEnd> {
        let entries_bytes = ENTRY_BYTES * u64_of(part.len());
        self.take_memory(entries_bytes, self.index_limit)?;
        if part.first().is_some_and(|grain| is_zero(grain)) {
            taken.extend(part.iter().map(|_| Grain::Zero));
            return Ok(());
        }
        let put = self.put_data(part, taken);
        if put.is_err() {
            self.memory_bytes.fetch_sub(entries_bytes, Relaxed);
        }
        put
    }

    fn put_data(&self, part: &[&[u8]], taken: &mut Vec<Grain>) -> Result<(), SnapshotEnd> {
        let bytes = GRAIN_BYTES * u64_of(part.len());
        // Of a small limit, entries of zeroes have the other half.
        let limit = match self.spill {
            Some(_) => self.memory_limit / 2,
            None => self.memory_limit,
        };
        match (self.take_memory(bytes, limit), &self.spill) {
            (Ok(()), _) => taken.extend(part.iter().map(|grain| Grain::Memory((*grain).into()))),
            (Err(_), Some(file)) => {
                let start = self.write_spill(file, part)?;
                let slots = (0..).map(|nr: u64| Grain::Spilled(start + nr * GRAIN_BYTES));
                taken.extend(slots.take(part.len()));
            }
            (Err(full), None) => return Err(full),
        }
        Ok(())
    }

    fn take_memory(&self, bytes: u64, limit: u64) -> Result<(), SnapshotEnd> {
        let used = self.memory_bytes.fetch_add(bytes, Relaxed);
        if used.saturating_add(bytes) <= limit {
            return Ok(());
        }
        self.memory_bytes.fetch_sub(bytes, Relaxed);
        Err(SnapshotEnd::MemoryFull {
            limit_bytes: self.index_limit,
        })
    }

    fn write_spill(&self, file: &File, part: &[&[u8]]) -> Result<u64, SnapshotEnd> {
        let bytes = GRAIN_BYTES * u64_of(part.len());
        let start = self.spilled_bytes.fetch_add(bytes, Relaxed);
        if start.saturating_add(bytes) > self.spill_limit {
            return Err(SnapshotEnd::SpillFull {
                limit_bytes: self.spill_limit,
            });
        }
        let written = file.write_all_at(&part.concat(), start);
        written.map_err(|error| SnapshotEnd::SpillFailed {
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(start)
    }

    /// Counts a grain that is dropped. Its slot in the file stays taken.
    pub(super) fn give_back(&self, grain: &Grain) {
        let content = match grain {
            Grain::Memory(_) => GRAIN_BYTES,
            Grain::Zero | Grain::Spilled(_) | Grain::Unreadable => 0,
        };
        self.memory_bytes.fetch_sub(ENTRY_BYTES + content, Relaxed);
    }

    /// Counts an entry without content.
    pub(super) fn put_unreadable(&self) -> Result<Grain, SnapshotEnd> {
        self.take_memory(ENTRY_BYTES, self.index_limit)?;
        Ok(Grain::Unreadable)
    }

    pub(super) fn read_spill(&self, at: u64, buf: &mut [u8]) -> std::io::Result<()> {
        match &self.spill {
            Some(file) => file.read_exact_at(buf, at),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

/// Compared as a whole: most grains of free space are zero, and none of them ends a search early.
fn is_zero(grain: &[u8]) -> bool {
    const ZEROES: &[u8] = &[0; 4096];
    ZEROES.get(..grain.len()) == Some(grain)
}
