//! Preimages of one device: for each grain that was written since the snapshot, its old content.
//!
//! Layout: a map per shard; a stripe of consecutive grains is in one shard.
//! Invariants: a writer writes only after the map has all grains of its range. The first entry of a
//! grain stays. So an entry that a thread inserts first was read before any writer wrote, and what
//! another thread read while a writer wrote is dropped. A reader reads the device, then the map: if
//! the grain is not there, no writer had written when the device was read.
//! Locking: one shard lock ([`Rank::Device`]) at a time, none while a device or a file is accessed.

use super::store::{Grain, SnapshotEnd, Store};
use crate::{BlockDevice, Error};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::{Arc, OnceLock, Rank, RwLock};

/// Unit in which old content is kept.
pub(super) const GRAIN_BYTES: u64 = 4096;
/// Consecutive grains of one shard.
const STRIPE_GRAINS: u64 = 256;
const SHARDS: usize = 64;

type Grains = HashMap<u64, Grain>;

/// See the module.
pub(super) struct Preimages {
    size_bytes: u64,
    store: Arc<Store>,
    shards: Box<[RwLock<Grains>]>,
    ended: OnceLock<SnapshotEnd>,
}

/// Old content of a part of a grain, once the lock is released.
enum Source {
    /// It was copied.
    Copied,
    /// The device has it.
    Device,
    Spilled(u64),
    Unreadable,
}

impl Preimages {
    pub(super) fn new(size_bytes: u64, store: Arc<Store>) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::new(Rank::Device, Grains::new()));
        Self {
            size_bytes,
            store,
            shards: shards.collect(),
            ended: OnceLock::new(),
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn ended(&self) -> Option<SnapshotEnd> {
        self.ended.get().copied()
    }

    /// Ends the snapshot: readers get `why`, and the memory is free.
    pub(super) fn end(&self, why: SnapshotEnd) {
        // The first reason counts.
        let _ = self.ended.set(why);
        for shard in &self.shards {
            let grains = std::mem::take(&mut *shard.write());
            grains
                .values()
                .for_each(|grain| self.store.give_back(grain));
        }
    }

    /// Keeps the old content of a range that is about to be written. If it cannot, it ends the
    /// snapshot.
    pub(super) fn preserve(&self, device: &dyn BlockDevice, range: Range<u64>) {
        let end = range.end.min(self.size_bytes).div_ceil(GRAIN_BYTES);
        let mut first = range.start / GRAIN_BYTES;
        while first < end && self.ended().is_none() {
            let stripe_end = (first / STRIPE_GRAINS + 1) * STRIPE_GRAINS;
            let grains = first..end.min(stripe_end);
            first = grains.end;
            if let Err(why) = self.preserve_in_stripe(device, grains) {
                self.end(why);
            }
        }
    }

    fn shard(&self, grain: u64) -> &RwLock<Grains> {
        &self.shards[clamp_usize(grain / STRIPE_GRAINS) % SHARDS]
    }

    fn preserve_in_stripe(
        &self,
        device: &dyn BlockDevice,
        grains: Range<u64>,
    ) -> Result<(), SnapshotEnd> {
        let Some(missing) = self.missing(grains) else {
            return Ok(());
        };
        let old = self.read_old(device, &missing)?;
        let mut map = self.shard(missing.start).write();
        for (nr, grain) in missing.zip(old) {
            match map.entry(nr) {
                Entry::Vacant(entry) if self.ended.get().is_none() => {
                    entry.insert(grain);
                }
                _ => self.store.give_back(&grain),
            }
        }
        Ok(())
    }

    /// The shortest range with all grains that are not in the map.
    fn missing(&self, grains: Range<u64>) -> Option<Range<u64>> {
        let map = self.shard(grains.start).read();
        let mut missing = grains.filter(|nr| !map.contains_key(nr));
        let first = missing.next()?;
        Some(first..missing.last().unwrap_or(first) + 1)
    }

    fn read_old(
        &self,
        device: &dyn BlockDevice,
        grains: &Range<u64>,
    ) -> Result<Vec<Grain>, SnapshotEnd> {
        let start = grains.start * GRAIN_BYTES;
        let end = (grains.end * GRAIN_BYTES).min(self.size_bytes);
        let mut bytes = vec![0; clamp_usize(end - start)];
        if device.read_at(start, &mut bytes).is_ok() {
            return self.store.put(&bytes);
        }
        let mut old = Vec::new();
        for (nr, grain) in (0..).zip(bytes.chunks_mut(clamp_usize(GRAIN_BYTES))) {
            match device.read_at(start + nr * GRAIN_BYTES, grain) {
                Ok(()) => old.extend(self.store.put(grain)?),
                Err(_) => old.push(self.store.put_unreadable()?),
            }
        }
        Ok(old)
    }

    /// Reads the snapshot.
    pub(super) fn read(
        &self,
        device: &dyn BlockDevice,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), Error> {
        let from_device = device.read_at(offset, buf);
        let mut done = 0;
        while done < buf.len() {
            let at = offset + u64_of(done);
            let in_grain = at % GRAIN_BYTES;
            let n = (buf.len() - done).min(clamp_usize(GRAIN_BYTES - in_grain));
            let part = &mut buf[done..done + n];
            done += n;
            let failed = |error| Error::io("read", at, u64_of(n), error);
            match self.source(at, part) {
                Source::Copied => {}
                Source::Device => from_device.clone()?,
                Source::Spilled(slot) => {
                    let read = self.store.read_spill(slot + in_grain, part);
                    read.map_err(failed)?;
                }
                Source::Unreadable => return Err(failed(std::io::ErrorKind::Other.into())),
            }
        }
        match self.ended() {
            Some(why) => Err(Error::SnapshotEnded(why)),
            None => Ok(()),
        }
    }

    fn source(&self, at: u64, part: &mut [u8]) -> Source {
        let nr = at / GRAIN_BYTES;
        let start = clamp_usize(at % GRAIN_BYTES);
        match self.shard(nr).read().get(&nr) {
            None => Source::Device,
            Some(Grain::Zero) => {
                part.fill(0);
                Source::Copied
            }
            Some(Grain::Memory(bytes)) => {
                part.copy_from_slice(&bytes[start..start + part.len()]);
                Source::Copied
            }
            Some(Grain::Spilled(slot)) => Source::Spilled(*slot),
            Some(Grain::Unreadable) => Source::Unreadable,
        }
    }
}
