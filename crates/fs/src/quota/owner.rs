//! What one user, group or project uses and may use.

use super::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use uext4_format::BlockNr;
use uext4_format::quota::QuotaEntry;
use uext4_journal::{Handle, Live, Object, Render, Sink};
use uext4_sync::{Rank, Sharded};

/// An owner.
pub(super) struct Owner {
    live: Live<OwnerState>,
    pending: Arc<Pending>,
    has_place: AtomicBool,
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
        if let Some((block, at)) = self.place {
            out.patch(block, at, &self.entry.encode());
        }
    }
}

impl OwnerState {
    /// Adds what is pending to the entry.
    fn settle(&mut self) {
        let take = |shards: &Sharded<AtomicI64>| -> i64 {
            let shards = shards.iter();
            shards.map(|shard| shard.swap(0, Ordering::AcqRel)).sum()
        };
        let (bytes, inodes) = (take(&self.pending.bytes), take(&self.pending.inodes));
        let entry = &mut self.entry;
        // What was never counted can be given back: the file was wrong before.
        entry.space_bytes = entry.space_bytes.saturating_add_signed(bytes);
        entry.inodes = entry.inodes.saturating_add_signed(inodes);
    }

    /// The entry gets its place.
    pub(super) fn set_place(&mut self, place: Place) {
        self.place = Some(place);
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
        let state = OwnerState {
            entry,
            place,
            pending: Arc::clone(&pending),
        };
        Arc::new(Self {
            live: Live::new(state),
            pending,
            has_place,
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
