//! Usage and limits of one user, group or project.

use super::limits::{self, Amount};
use super::pending::{Pending, Spare};
use super::{GraceTimes, Usage};
use uext4_format::BlockNr;
use uext4_format::quota::QuotaEntry;
use uext4_journal::{Handle, Live, Object, Render, Sink};
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Arc, Mutex, Rank};

/// A user, group or project.
pub(super) struct Owner {
    live: Live<OwnerState>,
    pending: Arc<Pending>,
    has_entry: AtomicBool,
    is_limited: AtomicBool,
    claimed: Mutex<Claimed>,
}

/// Reserved but not yet charged quota.
#[derive(Default)]
struct Claimed {
    amount: Amount,
    /// Time when usage and reservations together exceeded the soft limit of space.
    over_since: Option<u64>,
}

/// Location of an owner's entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLocation {
    pub(super) block: BlockNr,
    /// Offset in the block, in bytes.
    pub(super) offset: usize,
    /// Offset in the quota file, in bytes.
    pub(super) at: u64,
}

/// The entry of an owner, and its location on the device.
pub(super) struct OwnerState {
    entry: QuotaEntry,
    place: Option<EntryLocation>,
    pending: Arc<Pending>,
    /// Decrements seen before their charge, in bytes and in inodes: neither is positive.
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
        self.place.map(|place| place.block)
    }

    /// No handle of this transaction is open, and no handle of the next has charged: its first
    /// charge renders for this transaction first (`Handle::touch`).
    fn render(&mut self, out: &mut Sink<'_>) {
        self.apply_charges();
        // All charges were seen. A remaining debt was never charged: the file was wrong before.
        self.owed = (0, 0);
        if let Some(place) = self.place {
            out.patch(place.block, place.offset, &self.entry.encode());
        }
    }
}

impl OwnerState {
    /// Adds the pending charges to the entry. Other threads charge concurrently, so a decrement may
    /// be seen before its charge by another thread: the difference is owed until then.
    fn apply_charges(&mut self) {
        let (bytes, inodes) = self.pending.take();
        let (owed_bytes, owed_inodes) = self.owed;
        let entry = &mut self.entry;
        self.owed = (
            add(&mut entry.space_bytes, bytes.saturating_add(owed_bytes)),
            add(&mut entry.inodes, inodes.saturating_add(owed_inodes)),
        );
    }

    pub(super) fn set_location(&mut self, place: EntryLocation) {
        self.place = Some(place);
    }
}

/// Adds `by` to the usage; returns the part below zero.
fn add(used: &mut u64, by: i64) -> i64 {
    let less = by.unsigned_abs().saturating_sub(*used);
    *used = used.saturating_add_signed(by);
    if by < 0 {
        0i64.saturating_sub_unsigned(less)
    } else {
        0
    }
}

impl Owner {
    /// An owner with its entry at `place`, or without one yet.
    pub(super) fn new(
        entry: QuotaEntry,
        place: Option<EntryLocation>,
        spare: &Arc<Spare>,
    ) -> Arc<Self> {
        let pending = Arc::new(Pending::new(spare));
        let has_entry = AtomicBool::new(place.is_some());
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
            has_entry,
            is_limited,
            claimed: Mutex::new(Rank::QuotaClaims, Claimed::default()),
        })
    }

    /// Whether the quota file has an entry.
    pub(super) fn has_entry(&self) -> bool {
        self.has_entry.load(Ordering::Acquire)
    }

    /// Records that the quota file has an entry.
    pub(super) fn mark_has_entry(&self) {
        self.has_entry.store(true, Ordering::Release);
    }

    /// Whether any limit is set.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Acquire)
    }

    /// The location of an entry without usage and limits; `None` if it has any.
    pub(super) fn unused_location(&self) -> Option<EntryLocation> {
        let entry = self.entry();
        let is_unused = entry.space_bytes == 0 && entry.inodes == 0 && !entry.is_limited();
        self.live.read().place.filter(|_| is_unused)
    }

    /// Current usage and limits.
    pub(super) fn entry(&self) -> QuotaEntry {
        let state = self.live.read();
        let mut entry = state.entry;
        let (owed_bytes, owed_inodes) = state.owed;
        let (bytes, inodes) = self.pending.sum();
        let bytes = bytes.saturating_add(owed_bytes);
        let inodes = inodes.saturating_add(owed_inodes);
        entry.space_bytes = entry.space_bytes.saturating_add_signed(bytes);
        entry.inodes = entry.inodes.saturating_add_signed(inodes);
        entry
    }

    /// As [`Self::entry`], including reservations, as the kernel reports it.
    pub(super) fn report(&self, grace: GraceTimes) -> QuotaEntry {
        let claimed = self.claimed.lock();
        let mut entry = self.entry_with(&claimed, grace);
        entry.space_bytes = entry.space_bytes.saturating_add(claimed.amount.bytes);
        entry
    }

    /// As [`Self::entry`], with the grace time that reservations started.
    fn entry_with(&self, claimed: &Claimed, grace: GraceTimes) -> QuotaEntry {
        let mut entry = self.entry();
        if let (0, Some(since)) = (entry.space_grace_end, claimed.over_since) {
            entry.space_grace_end = since + u64::from(grace.space_seconds);
        }
        entry
    }

    /// Reserves `want`, of space as many units as are left; returns how many bytes, or `None` if
    /// nothing was reserved.
    pub(super) fn claim(
        &self,
        want: Amount,
        unit_bytes: u64,
        grace: GraceTimes,
        now: u64,
    ) -> Option<u64> {
        let mut claimed = self.claimed.lock();
        let entry = self.entry_with(&claimed, grace);
        let left = limits::remaining_of(&entry, claimed.amount, now);
        let fits = left.bytes - left.bytes % unit_bytes;
        let bytes = want.bytes.min(fits);
        if left.inodes < want.inodes || bytes == 0 && want.bytes != 0 {
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

    /// Releases a reservation, after the charge or unused.
    pub(super) fn unclaim(&self, amount: Amount) {
        let mut claimed = self.claimed.lock();
        claimed.amount.bytes -= amount.bytes;
        claimed.amount.inodes -= amount.inodes;
        self.end_grace(&mut claimed);
    }

    /// Ends the grace time if usage and reservations are below the soft limit again.
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
            state.apply_charges();
            limits::watch(&mut state.entry, grace, since.unwrap_or(now), now);
        }
        self.end_grace(&mut self.claimed.lock());
    }

    /// Sets the limits to those of `wanted`.
    pub(super) fn set_limits(
        self: &Arc<Self>,
        handle: &Handle<'_>,
        wanted: &QuotaEntry,
        grace: GraceTimes,
        now: u64,
    ) {
        let mut state = handle.write(self);
        state.apply_charges();
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
        self.pending.add(usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(owner: &Owner, bytes: i64, inodes: i64) -> (u64, u64) {
        owner.pending.add(Usage { bytes, inodes });
        let mut state = owner.live.write_unlogged();
        state.apply_charges();
        (state.entry.space_bytes, state.entry.inodes)
    }

    /// Shards are read one after the other, so a decrement may be seen before its charge.
    #[test]
    fn what_is_given_back_before_its_charge_is_seen_is_owed() {
        let owner = Owner::new(QuotaEntry::default(), None, &Arc::default());
        assert_eq!(settled(&owner, 4096, 1), (4096, 1));
        assert_eq!(settled(&owner, -12288, -3), (0, 0));
        assert_eq!(settled(&owner, 4096, 1), (0, 0));
        assert_eq!(settled(&owner, 4096, 2), (0, 1));
        assert_eq!(settled(&owner, 4096, 0), (4096, 1));
    }

    /// 2^48 - 1 blocks of 64 KiB in `i_blocks`: two such inodes that change their owner.
    #[test]
    fn damaged_block_counts_do_not_overflow() {
        let usage = Usage::sectors(((1 << 48) - 1) << 7);
        assert_eq!((usage.bytes, usage.less().bytes), (i64::MAX, -i64::MAX));
        let owner = Owner::new(QuotaEntry::default(), None, &Arc::default());
        owner.pending.add(usage);
        owner.pending.add(usage);
        assert_eq!(owner.entry().space_bytes, i64::MAX.unsigned_abs());
        assert_eq!(settled(&owner, 0, 0), (i64::MAX.unsigned_abs(), 0));
    }
}
