//! What one user, group or project uses and may use.

use super::limits::{self, Amount};
use super::{GraceTimes, Usage};
use std::sync::Arc;
use uext4_format::BlockNr;
use uext4_format::quota::QuotaEntry;
use uext4_journal::{Handle, Live, Object, Render, Sink};
use uext4_sync::atomic::{AtomicBool, AtomicI64, Ordering};
use uext4_sync::{Mutex, Rank, Sharded};

/// An owner.
pub(super) struct Owner {
    live: Live<OwnerState>,
    pending: Arc<Pending>,
    has_place: AtomicBool,
    is_limited: AtomicBool,
    claimed: Mutex<Claimed>,
}

/// What is promised and not charged yet.
#[derive(Default)]
struct Claimed {
    amount: Amount,
    /// When use and promises together went beyond the soft limit of space.
    over_since: Option<u64>,
}

/// What was charged and is not in the entry yet, by shards of threads.
struct Pending {
    bytes: Sharded<AtomicI64>,
    inodes: Sharded<AtomicI64>,
}

/// Where an entry stands: block, and byte in it.
pub(super) type Place = (BlockNr, usize);

/// The entry of an owner, and where it stands on the device.
pub(super) struct OwnerState {
    entry: QuotaEntry,
    place: Option<Place>,
    pending: Arc<Pending>,
    /// Given back before the charge of it was seen, in bytes and in inodes: neither is positive.
    owed: (i64, i64),
}

impl Object for Owner {
    type State = OwnerState;
    fn live(&self) -> &Live<OwnerState> {
        &self.live
    }
}

impl Render for OwnerState {
    const RANK: Rank = Rank::QuotaOwner;

    fn shared_block(&self) -> Option<BlockNr> {
        self.place.map(|(block, _)| block)
    }

    /// No handle of this transaction is open any more, and none of the next has charged anything:
    /// its first charge renders for this one before (`Handle::touch`).
    fn render(&mut self, out: &mut Sink<'_>) {
        self.settle();
        // All charges were seen. What is owed was never counted: the file was wrong before.
        self.owed = (0, 0);
        if let Some((block, at)) = self.place {
            out.patch(block, at, &self.entry.encode());
        }
    }
}

impl OwnerState {
    /// Adds what is pending to the entry. Other threads may charge meanwhile, so what one gives
    /// back may be seen before the charge of it, which another made: it is owed until that is seen.
    fn settle(&mut self) {
        let take = |shards: &Sharded<AtomicI64>| -> i64 {
            let shards = shards.iter();
            shards.map(|shard| shard.swap(0, Ordering::AcqRel)).sum()
        };
        let (bytes, inodes) = (take(&self.pending.bytes), take(&self.pending.inodes));
        let (owed_bytes, owed_inodes) = self.owed;
        let entry = &mut self.entry;
        self.owed = (
            add(&mut entry.space_bytes, bytes.saturating_add(owed_bytes)),
            add(&mut entry.inodes, inodes.saturating_add(owed_inodes)),
        );
    }

    /// The entry gets its place.
    pub(super) fn set_place(&mut self, place: Place) {
        self.place = Some(place);
    }
}

/// Adds `by` to what is used; what is less than nothing is the answer.
fn add(used: &mut u64, by: i64) -> i64 {
    let less = by.unsigned_abs().saturating_sub(*used);
    *used = used.saturating_add_signed(by);
    match by < 0 {
        true => 0i64.saturating_sub_unsigned(less),
        false => 0,
    }
}

impl Owner {
    /// One whose entry stands at `place`, or has none yet.
    pub(super) fn new(entry: QuotaEntry, place: Option<Place>) -> Arc<Self> {
        let pending = Arc::new(Pending {
            bytes: Sharded::new(|_| AtomicI64::new(0)),
            inodes: Sharded::new(|_| AtomicI64::new(0)),
        });
        let has_place = AtomicBool::new(place.is_some());
        let is_limited = AtomicBool::new(entry.is_limited());
        let state = OwnerState {
            entry,
            place,
            pending: Arc::clone(&pending),
            owed: (0, 0),
        };
        Arc::new(Self {
            live: Live::new(state),
            pending,
            has_place,
            is_limited,
            claimed: Mutex::new(Rank::QuotaClaims, Claimed::default()),
        })
    }

    /// True when the quota file has an entry.
    pub(super) fn has_place(&self) -> bool {
        self.has_place.load(Ordering::Acquire)
    }

    /// The quota file has an entry from now on.
    pub(super) fn note_place(&self) {
        self.has_place.store(true, Ordering::Release);
    }

    /// True when there is any limit.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Acquire)
    }

    /// What the owner uses and may use now.
    pub(super) fn entry(&self) -> QuotaEntry {
        let state = self.live.read();
        let mut entry = state.entry;
        let sum = |shards: &Sharded<AtomicI64>| -> i64 {
            shards
                .iter()
                .map(|shard| shard.load(Ordering::Acquire))
                .sum()
        };
        let (owed_bytes, owed_inodes) = state.owed;
        let bytes = sum(&self.pending.bytes).saturating_add(owed_bytes);
        let inodes = sum(&self.pending.inodes).saturating_add(owed_inodes);
        entry.space_bytes = entry.space_bytes.saturating_add_signed(bytes);
        entry.inodes = entry.inodes.saturating_add_signed(inodes);
        entry
    }

    /// As [`Self::entry`], with what was promised: as the kernel tells it.
    pub(super) fn report(&self, grace: GraceTimes) -> QuotaEntry {
        let claimed = self.claimed.lock();
        let mut entry = self.entry_with(&claimed, grace);
        entry.space_bytes = entry.space_bytes.saturating_add(claimed.amount.bytes);
        entry
    }

    /// As [`Self::entry`], with the grace time that promises began.
    fn entry_with(&self, claimed: &Claimed, grace: GraceTimes) -> QuotaEntry {
        let mut entry = self.entry();
        if let (0, Some(since)) = (entry.space_grace_end, claimed.over_since) {
            entry.space_grace_end = since + u64::from(grace.space_seconds);
        }
        entry
    }

    /// Promises what `want` says, of space as many units as there are; answers how many bytes, or
    /// `None` when nothing is promised.
    pub(super) fn claim(
        &self,
        want: Amount,
        unit_bytes: u64,
        grace: GraceTimes,
        now: u64,
    ) -> Option<u64> {
        let mut claimed = self.claimed.lock();
        let entry = self.entry_with(&claimed, grace);
        let room = limits::rooms(&entry, claimed.amount, now);
        let fits = room.bytes - room.bytes % unit_bytes;
        let bytes = want.bytes.min(fits);
        if room.inodes < want.inodes || bytes == 0 && want.bytes != 0 {
            return None;
        }
        claimed.amount.bytes += bytes;
        claimed.amount.inodes += want.inodes;
        if entry.space_grace_end == 0
            && limits::is_over_space(&entry, entry.space_bytes + claimed.amount.bytes)
        {
            claimed.over_since = Some(now);
        }
        Some(bytes)
    }

    /// What was claimed is charged now, or not wanted any more.
    pub(super) fn unclaim(&self, amount: Amount) {
        let mut claimed = self.claimed.lock();
        claimed.amount.bytes -= amount.bytes;
        claimed.amount.inodes -= amount.inodes;
        self.end_grace(&mut claimed);
    }

    /// Use and promises together may be below the soft limit again.
    fn end_grace(&self, claimed: &mut Claimed) {
        if claimed.over_since.is_some() {
            let entry = self.entry();
            let bytes = entry.space_bytes.saturating_add(claimed.amount.bytes);
            if !limits::is_over_space(&entry, bytes) {
                claimed.over_since = None;
            }
        }
    }

    /// Starts or ends grace times after a charge.
    pub(super) fn watch(self: &Arc<Self>, handle: &Handle<'_>, grace: GraceTimes, now: u64) {
        let since = self.claimed.lock().over_since;
        {
            let mut state = handle.write(self);
            state.settle();
            limits::watch(&mut state.entry, grace, since.unwrap_or(now), now);
        }
        self.end_grace(&mut self.claimed.lock());
    }

    /// Takes over the limits of `wanted`.
    pub(super) fn set_limits(
        self: &Arc<Self>,
        handle: &Handle<'_>,
        wanted: &QuotaEntry,
        grace: GraceTimes,
        now: u64,
    ) {
        let mut state = handle.write(self);
        state.settle();
        let entry = &mut state.entry;
        entry.space_hard_kib = wanted.space_hard_kib;
        entry.space_soft_kib = wanted.space_soft_kib;
        entry.inodes_hard = wanted.inodes_hard;
        entry.inodes_soft = wanted.inodes_soft;
        limits::watch(entry, grace, now, now);
        self.is_limited.store(entry.is_limited(), Ordering::Release);
    }

    /// Charges the owner in the handle's transaction.
    pub(super) fn charge(self: &Arc<Self>, handle: &Handle<'_>, usage: Usage) {
        handle.touch(self);
        let add = |shards: &Sharded<AtomicI64>, by: i64| {
            if by != 0 {
                shards.local().fetch_add(by, Ordering::AcqRel);
            }
        };
        add(&self.pending.bytes, usage.bytes);
        add(&self.pending.inodes, usage.inodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(owner: &Owner, bytes: i64, inodes: i64) -> (u64, u64) {
        owner
            .pending
            .bytes
            .local()
            .fetch_add(bytes, Ordering::AcqRel);
        owner
            .pending
            .inodes
            .local()
            .fetch_add(inodes, Ordering::AcqRel);
        let mut state = owner.live.write_unlogged();
        state.settle();
        (state.entry.space_bytes, state.entry.inodes)
    }

    /// Shards are looked at one after the other, so a charge may be seen after what gave it back.
    #[test]
    fn what_is_given_back_before_its_charge_is_seen_is_owed() {
        let owner = Owner::new(QuotaEntry::default(), None);
        assert_eq!(settled(&owner, 4096, 1), (4096, 1));
        assert_eq!(settled(&owner, -12288, -3), (0, 0));
        assert_eq!(settled(&owner, 4096, 1), (0, 0));
        assert_eq!(settled(&owner, 4096, 2), (0, 1));
        assert_eq!(settled(&owner, 4096, 0), (4096, 1));
    }
}
