//! Quota accounts: all owners of one kind.
//!
//! Owners without usage and limits lose their entries when there are many ([`Accounts::idle`],
//! [`Accounts::forget`]), so memory and file grow with the owners of files, not with the
//! identifiers that were ever used.
//!
//! Invariants: an owner found by a thread stays while the thread holds the lock of its shard, or an
//! `Arc` of it. An owner that was logged is forgotten only when the journal has let go of it.

use super::file::{Placed, QuotaFile};
use super::owner::Owner;
use super::pending::Spare;
use super::{GraceTimes, Kept, Usage};
use crate::types::error::{Error, Result};
use std::collections::HashMap;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, InodeNr};
use uext4_journal::Handle;
use uext4_num::{high_u32, low_u32};
use uext4_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use uext4_sync::{Arc, Mutex, MutexGuard, Rank, Sharded};

/// Owners of one kind that are kept without a look for unused ones.
const UNUSED_MAX: usize = 1024;
/// Most owners in the cache of a thread shard.
const NEAR_MAX: usize = 256;

type Map = HashMap<u32, Arc<Owner>>;

/// Owners of one kind, and their quota file.
pub(crate) struct Accounts {
    kind: QuotaKind,
    nr: InodeNr,
    /// Grace times: space in the upper half.
    grace: AtomicU64,
    file: Arc<QuotaFile>,
    all: Mutex<Map>,
    /// Per-shard cache of owners, so that a charge writes no shared state.
    near: Sharded<Mutex<Map>>,
    placing: Mutex<()>,
    /// Owners without an entry in the file.
    missing: Mutex<Vec<u32>>,
    any_missing: AtomicBool,
    /// Number of owners at which the next look for unused ones is due.
    look_at: AtomicUsize,
    spare: Arc<Spare>,
}

fn word(grace: GraceTimes) -> u64 {
    u64::from(grace.space_seconds) << 32 | u64::from(grace.inodes_seconds)
}

impl Accounts {
    /// The owners whose entries are in `file`, which is inode `nr`.
    pub(crate) fn new(
        kind: QuotaKind,
        nr: InodeNr,
        (file, entries): (Arc<QuotaFile>, Vec<Placed>),
    ) -> Self {
        let spare = Arc::default();
        Self {
            kind,
            nr,
            grace: AtomicU64::new(word(file.grace())),
            file,
            all: Mutex::new(
                Rank::CacheShard,
                entries
                    .into_iter()
                    .map(|(entry, place)| (entry.id, Owner::new(entry, Some(place), &spare)))
                    .collect(),
            ),
            near: Sharded::new(|_| Mutex::new(Rank::QuotaShard, Map::new())),
            placing: Mutex::new(Rank::QuotaPlacing, ()),
            missing: Mutex::new(Rank::Queue, Vec::new()),
            any_missing: AtomicBool::new(false),
            look_at: AtomicUsize::new(UNUSED_MAX),
            spare,
        }
    }

    pub(crate) fn kind(&self) -> QuotaKind {
        self.kind
    }

    /// Charges an owner in the handle's transaction.
    pub(crate) fn charge(&self, handle: &Handle<'_>, id: u32, usage: Usage, now: u64) {
        let mut near = self.near.local().lock();
        let owner = self.near_owner(&mut near, id);
        owner.charge(handle, usage);
        if owner.is_limited() {
            owner.watch(handle, self.grace(), now);
        }
    }

    /// The owner, if it has limits.
    pub(super) fn limited(&self, id: u32) -> Option<Arc<Owner>> {
        let mut near = self.near.local().lock();
        let owner = self.near_owner(&mut near, id);
        owner.is_limited().then(|| Arc::clone(owner))
    }

    /// The owner, by the cache of the thread's shard.
    fn near_owner<'a>(&self, near: &'a mut Map, id: u32) -> &'a Arc<Owner> {
        if near.len() >= NEAR_MAX && !near.contains_key(&id) {
            near.clear();
        }
        near.entry(id).or_insert_with(|| self.owner(id))
    }

    /// Usage and limits of all owners, ascending.
    pub(super) fn report(&self) -> Vec<QuotaEntry> {
        let owners: Vec<Arc<Owner>> = self.all.lock().values().cloned().collect();
        let mut entries: Vec<QuotaEntry> = owners
            .iter()
            .map(|owner| owner.report(self.grace()))
            .collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        entries
    }

    pub(super) fn grace(&self) -> GraceTimes {
        let word = self.grace.load(Ordering::Acquire);
        GraceTimes {
            space_seconds: high_u32(word),
            inodes_seconds: low_u32(word),
        }
    }

    /// Sets the limits of an owner, which has an entry, to those of `wanted`.
    pub(crate) fn set_limits(&self, handle: &Handle<'_>, wanted: &QuotaEntry, now: u64) {
        self.owner(wanted.id)
            .set_limits(handle, wanted, self.grace(), now);
    }

    /// Sets the grace times in memory and in the quota file.
    pub(crate) fn set_grace(&self, handle: &Handle<'_>, grace: GraceTimes) {
        handle.write(&self.file).set_grace(grace);
        self.grace.store(word(grace), Ordering::Release);
    }

    /// The owner; created without an entry in the file if it is unknown.
    fn owner(&self, id: u32) -> Arc<Owner> {
        let mut all = self.all.lock();
        Arc::clone(all.entry(id).or_insert_with(|| {
            self.missing.lock().push(id);
            self.any_missing.store(true, Ordering::Release);
            let entry = QuotaEntry {
                id,
                ..QuotaEntry::default()
            };
            Owner::new(entry, None, &self.spare)
        }))
    }

    /// Keeps the owner, if it has an entry in the file; returns whether it has.
    pub(crate) fn keep(&self, id: u32, kept: &mut Kept) -> bool {
        let owner = self.placed(id);
        let is_placed = owner.is_some();
        kept.0.extend(owner);
        is_placed
    }

    fn placed(&self, id: u32) -> Option<Arc<Owner>> {
        let near = self.near.local().lock();
        let owner = match near.get(&id) {
            Some(owner) => Some(Arc::clone(owner)),
            None => self.all.lock().get(&id).cloned(),
        };
        owner.filter(|owner| owner.has_entry())
    }

    /// Owners that may have nothing left to keep, if there are many owners; at most `max`. The
    /// caller holds [`Self::lock_placing`].
    pub(crate) fn idle(&self, max: usize) -> Vec<u32> {
        let owners: Vec<(u32, Arc<Owner>)> = {
            let all = self.all.lock();
            if all.len() < self.look_at.load(Ordering::Relaxed) {
                return Vec::new();
            }
            all.iter()
                .map(|(id, owner)| (*id, Arc::clone(owner)))
                .collect()
        };
        let idle: Vec<u32> = owners
            .iter()
            .filter(|(id, owner)| *id != 0 && owner.unused_location().is_some())
            .map(|(id, _)| *id)
            .take(max)
            .collect();
        let left = owners.len() - idle.len();
        let next = if idle.len() < max {
            (2 * left).max(UNUSED_MAX)
        } else {
            owners.len()
        };
        self.look_at.store(next, Ordering::Relaxed);
        idle
    }

    /// Removes an owner and its entry, unless it has usage or limits, or anyone refers to it. The
    /// caller holds [`Self::lock_placing`].
    pub(crate) fn forget(&self, handle: &Handle<'_>, id: u32) {
        let removed = {
            let keyed = self.near.iter().zip(0..);
            // With all of them no caller finds or charges an owner.
            let mut near: Vec<_> = keyed.map(|(near, key)| near.lock_ordered(key)).collect();
            near.iter_mut().for_each(|near| drop(near.remove(&id)));
            let owner = self.all.lock().get(&id).cloned();
            // Two: the map, and this one.
            let alone = owner.filter(|owner| Arc::strong_count(owner) == 2);
            let place = alone.and_then(|owner| owner.unused_location());
            place.inspect(|_| drop(self.all.lock().remove(&id)))
        };
        if let Some(place) = removed {
            let blocks = handle.write(&self.file).remove(id, place);
            handle.charge(blocks);
        }
    }

    /// Held while an owner gets its entry.
    pub(crate) fn lock_placing(&self) -> MutexGuard<'_, ()> {
        self.placing.lock()
    }

    /// Takes the owners without an entry.
    pub(crate) fn take_missing(&self) -> Vec<u32> {
        if !self.any_missing.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.any_missing.store(false, Ordering::Release);
        std::mem::take(&mut *self.missing.lock())
    }

    /// Puts back an owner that got no entry: it is retried together with the next missing one.
    pub(crate) fn put_missing(&self, id: u32) {
        self.missing.lock().push(id);
    }

    pub(crate) fn file(&self) -> &Arc<QuotaFile> {
        &self.file
    }

    /// Number of the file's inode.
    pub(crate) fn nr(&self) -> InodeNr {
        self.nr
    }

    /// Gives the owner an entry in the file, which has space for it, and keeps it.
    pub(crate) fn assign_slot(&self, handle: &Handle<'_>, id: u32, kept: &mut Kept) -> Result<()> {
        let placed = handle.write(&self.file).insert(id);
        let damaged = Corrupt::new(
            DamageLocation::Inode(self.nr),
            "quota file",
            CorruptKind::Full,
        );
        let (place, blocks) = placed.ok_or(Error::Corrupt(damaged))?;
        handle.charge(blocks);
        let owner = self.owner(id);
        handle.write(&owner).set_location(place);
        owner.mark_has_entry();
        kept.0.push(owner);
        Ok(())
    }
}
