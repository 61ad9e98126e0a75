//! Quota accounts: all owners of one kind.

use super::file::{Placed, QuotaFile};
use super::owner::Owner;
use super::{GraceTimes, Usage};
use crate::{Error, Result};
use std::collections::HashMap;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{Corrupt, CorruptKind, InodeNr, Place};
use uext4_journal::Handle;
use uext4_num::{high_u32, low_u32};
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Arc, Mutex, MutexGuard, Rank, Sharded};

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
        let owner = |(entry, place): Placed| (entry.id, Owner::new(entry, Some(place)));
        Self {
            kind,
            nr,
            grace: AtomicU64::new(word(file.grace())),
            file,
            all: Mutex::new(Rank::CacheShard, entries.into_iter().map(owner).collect()),
            near: Sharded::new(|_| Mutex::new(Rank::QuotaShard, Map::new())),
            placing: Mutex::new(Rank::QuotaPlacing, ()),
            missing: Mutex::new(Rank::Queue, Vec::new()),
            any_missing: AtomicBool::new(false),
        }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> QuotaKind {
        self.kind
    }

    /// Charges an owner in the handle's transaction.
    pub(crate) fn charge(&self, handle: &Handle<'_>, id: u32, usage: Usage, now: u64) {
        let mut near = self.near.local().lock();
        let owner = near.entry(id).or_insert_with(|| self.owner(id));
        owner.charge(handle, usage);
        if owner.is_limited() {
            owner.watch(handle, self.grace(), now);
        }
    }

    /// The owner, if it has limits.
    pub(super) fn limited(&self, id: u32) -> Option<Arc<Owner>> {
        let mut near = self.near.local().lock();
        let owner = near.entry(id).or_insert_with(|| self.owner(id));
        owner.is_limited().then(|| Arc::clone(owner))
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

    /// Sets an owner's limits to those of `wanted`.
    pub(crate) fn set_limits(&self, handle: &Handle<'_>, wanted: &QuotaEntry, now: u64) {
        self.owner(wanted.id)
            .set_limits(handle, wanted, self.grace(), now);
    }

    /// Sets the grace times.
    pub(crate) fn set_grace(&self, handle: &Handle<'_>, grace: GraceTimes) {
        handle.write(&self.file).set_grace(grace);
        self.grace.store(word(grace), Ordering::Release);
    }

    /// The owner; created without an entry in the file if it is unknown.
    fn owner(&self, id: u32) -> Arc<Owner> {
        let mut all = self.all.lock();
        let new = || {
            self.missing.lock().push(id);
            self.any_missing.store(true, Ordering::Release);
            let entry = QuotaEntry {
                id,
                ..QuotaEntry::default()
            };
            Owner::new(entry, None)
        };
        Arc::clone(all.entry(id).or_insert_with(new))
    }

    /// Whether the owner has an entry in the file.
    pub(crate) fn has_place(&self, id: u32) -> bool {
        let near = self.near.local().lock();
        match near.get(&id) {
            Some(owner) => owner.has_place(),
            None => self
                .all
                .lock()
                .get(&id)
                .is_some_and(|owner| owner.has_place()),
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

    /// The quota file.
    pub(crate) fn file(&self) -> &Arc<QuotaFile> {
        &self.file
    }

    /// Number of the file's inode.
    pub(crate) fn nr(&self) -> InodeNr {
        self.nr
    }

    /// Gives the owner an entry in the file, which has space for it.
    pub(crate) fn place(&self, handle: &Handle<'_>, id: u32) -> Result<()> {
        let place = handle.write(&self.file).insert(id);
        let damaged = Corrupt::new(Place::Inode(self.nr), "quota file", CorruptKind::Full);
        let place = place.ok_or(Error::Corrupt(damaged))?;
        let owner = self.owner(id);
        handle.write(&owner).set_place(place);
        owner.note_place();
        Ok(())
    }
}
