//! Preimages of one device: for each grain that was written since the snapshot, its old content.
//!
//! Layout: a map per shard; a stripe of consecutive grains is in one shard.
//! Invariants: a writer writes only after the map has all grains of its range. The first entry of a
//! grain stays. So an entry that a thread inserts first was read before any writer wrote, and what
//! another thread read while a writer wrote is dropped. A reader reads the device, then the map: if
//! the grain is not there, no writer had written when the device was read.
//! Locking: one shard lock ([`Rank::Device`]) at a time, none while a device or a file is accessed.

use super::end::SnapshotEnd;
use super::store::{GRAIN_BYTES, Grain, Store};
use crate::{BlockDevice, Error};
use std::collections::hash_map::Entry;
use std::ops::Range;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::{Arc, OnceLock, Rank, RwLock, StripeMap};

const STRIPE_BITS: u32 = 8;
/// Consecutive grains of one shard.
const STRIPE_GRAINS: u64 = 1 << STRIPE_BITS;
const STRIPE_BYTES: u64 = STRIPE_GRAINS * GRAIN_BYTES;
const SHARDS: usize = 64;

type Grains = StripeMap<u64, Grain, STRIPE_BITS>;

/// See the module.
pub(super) struct Preimages {
    size_bytes: u64,
    store: Arc<Store>,
    shards: Box<[RwLock<Grains>]>,
    ended: OnceLock<SnapshotEnd>,
}

/// The part of a read that is in one grain.
struct Part {
    grain: u64,
    /// Offset in the grain, in bytes.
    at: usize,
    /// The bytes of the read.
    range: Range<usize>,
}

/// The parts of a read, in its order.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let from = offset + u64_of(done);
        let in_grain = from % GRAIN_BYTES;
        let range = done..len.min(done + clamp_usize(GRAIN_BYTES - in_grain));
        done = range.end;
        (!range.is_empty()).then_some(Part {
            grain: from / GRAIN_BYTES,
            at: clamp_usize(in_grain),
            range,
        })
    })
}

impl Preimages {
    pub(super) fn new(size_bytes: u64, store: Arc<Store>) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::new(Rank::Device, Grains::default()));
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
        Some(first..missing.next_back().unwrap_or(first) + 1)
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
            let from = offset + u64_of(done);
            let rest = clamp_usize(STRIPE_BYTES - from % STRIPE_BYTES);
            let end = buf.len().min(done + rest);
            self.read_stripe(from, &mut buf[done..end], &from_device)?;
            done = end;
        }
        match self.ended() {
            Some(why) => Err(Error::SnapshotEnded(why)),
            None => Ok(()),
        }
    }

    /// Puts what is kept into a part of a read from the device.
    fn read_stripe(
        &self,
        offset: u64,
        buf: &mut [u8],
        from_device: &Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |part: &Part, error: std::io::Error| {
            let at = offset + u64_of(part.range.start);
            Error::io("read", at, u64_of(part.range.len()), error)
        };
        let mut spilled = Vec::new();
        let map = self.shard(offset / GRAIN_BYTES).read();
        if map.is_empty() {
            return from_device.clone();
        }
        for part in parts(offset, buf.len()) {
            let bytes = &mut buf[part.range.clone()];
            match map.get(&part.grain) {
                None => from_device.clone()?,
                Some(Grain::Zero) => bytes.fill(0),
                Some(Grain::Memory(old)) => {
                    bytes.copy_from_slice(&old[part.at..part.at + bytes.len()]);
                }
                Some(Grain::Spilled(slot)) => spilled.push((slot + u64_of(part.at), part)),
                Some(Grain::Unreadable) => {
                    return Err(failed(&part, std::io::ErrorKind::Other.into()));
                }
            }
        }
        drop(map);
        for (at, part) in spilled {
            let read = self.store.read_spill(at, &mut buf[part.range.clone()]);
            read.map_err(|error| failed(&part, error))?;
        }
        Ok(())
    }
}
