//! Quota accounts: all owners of one kind.

use super::file::QuotaFile;
use super::owner::Owner;
use super::{GraceTimes, Usage};
use crate::{Error, Fs, Result, credits, map};
use std::collections::HashMap;
use std::sync::Arc;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{Corrupt, CorruptKind, InodeNr, LogicalBlock, Place};
use uext4_journal::Handle;
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Mutex, Rank, Sharded};

type Map = HashMap<u32, Arc<Owner>>;

/// Owners of one kind, and their quota file.
pub(super) struct Accounts {
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
    pub(super) fn load(fs: &Fs, kind: QuotaKind, nr: InodeNr) -> Result<Self> {
        let (file, entries) = QuotaFile::load(fs, kind, nr)?;
        let owner = |(entry, place): (QuotaEntry, _)| (entry.id, Owner::new(entry, Some(place)));
        Ok(Self {
            kind,
            nr,
            grace: AtomicU64::new(word(file.grace())),
            file,
            all: Mutex::new(Rank::CacheShard, entries.into_iter().map(owner).collect()),
            near: Sharded::new(|_| Mutex::new(Rank::QuotaShard, Map::new())),
            placing: Mutex::new(Rank::QuotaPlacing, ()),
            missing: Mutex::new(Rank::Queue, Vec::new()),
            any_missing: AtomicBool::new(false),
        })
    }

    pub(super) fn kind(&self) -> QuotaKind {
        self.kind
    }

    /// Charges an owner in the handle's transaction.
    pub(super) fn charge(&self, handle: &Handle<'_>, id: u32, usage: Usage, now: u64) {
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
            space_seconds: (word >> 32) as u32,
            inodes_seconds: word as u32,
        }
    }

    pub(super) fn set_limits(&self, fs: &Fs, wanted: &QuotaEntry) -> Result<()> {
        self.ensure(fs, wanted.id)?;
        let handle = fs.start(credits::ATTRIBUTES)?;
        let now = fs.now().seconds.max(0) as u64;
        self.owner(wanted.id)
            .set_limits(&handle, wanted, self.grace(), now);
        Ok(())
    }

    pub(super) fn set_grace(&self, fs: &Fs, grace: GraceTimes) -> Result<()> {
        let handle = fs.start(credits::ATTRIBUTES)?;
        handle.write(&self.file).set_grace(grace);
        self.grace.store(word(grace), Ordering::Release);
        Ok(())
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

    fn has_place(&self, id: u32) -> bool {
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

    /// Ensures that the owner has an entry in the file.
    pub(super) fn ensure(&self, fs: &Fs, id: u32) -> Result<()> {
        if self.has_place(id) {
            return Ok(());
        }
        let _alone = self.placing.lock();
        if self.has_place(id) {
            return Ok(());
        }
        self.place(fs, id)
    }

    pub(super) fn place_missing(&self, fs: &Fs) -> Result<()> {
        if !self.any_missing.load(Ordering::Acquire) {
            return Ok(());
        }
        self.any_missing.store(false, Ordering::Release);
        let missing = std::mem::take(&mut *self.missing.lock());
        let mut answer = Ok(());
        for id in missing {
            if let Err(error) = self.ensure(fs, id) {
                // Retried together with the next missing one.
                self.missing.lock().push(id);
                answer = answer.and(Err(error));
            }
        }
        answer
    }

    /// Creates the owner's entry, in its own transaction. The caller holds the placing lock.
    fn place(&self, fs: &Fs, id: u32) -> Result<()> {
        let handle = fs.start(credits::MAP)?;
        while let Some(next) = self.file.next_block() {
            self.grow(fs, &handle, next)?;
        }
        let place = handle.write(&self.file).insert(id);
        let damaged = Corrupt::new(Place::Inode(self.nr), "quota file", CorruptKind::NoRoom);
        let place = place.ok_or(Error::Corrupt(damaged))?;
        let owner = self.owner(id);
        handle.write(&owner).set_place(place);
        owner.note_place();
        Ok(())
    }

    /// Adds a block to the file. It is zeroed before the transaction that maps it commits.
    fn grow(&self, fs: &Fs, handle: &Handle<'_>, at: LogicalBlock) -> Result<()> {
        let inode = fs.inodes.load(fs, self.nr)?;
        let block = map::insert_block(fs, handle, &mut handle.write(&inode), at)?;
        let byte = block.0 << fs.geometry.block_bits;
        fs.device.write_at(byte, &vec![0; fs.block_size()])?;
        let size_bytes = {
            let mut file = handle.write(&self.file);
            file.grow(block);
            file.size_bytes()
        };
        let mut state = handle.write(&inode);
        state.disk.size = state.disk.size.max(size_bytes);
        Ok(())
    }
}
