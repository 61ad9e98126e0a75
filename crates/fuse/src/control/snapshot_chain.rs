//! Copies that continue each other.
//!
//! Invariant: what changes is noted before the snapshot is taken, so that nothing is missing.

use super::remembered::{Copy, Remembered, new_id};
use super::snapshot_wire::{Continued, Earlier, Noted, SnapshotResult, SnapshotWanted};
use super::wire::Refusal;
use uext4::Filesystem;
use uext4::device::Changes;
use uext4_sync::Arc;

/// How copies continue each other.
#[derive(Default)]
pub(super) struct Chain {
    /// The copy that is continued.
    pub(super) earlier: Option<Arc<Copy>>,
    /// What changes from now on, with the identifier of this copy.
    pub(super) noted: Option<(String, Arc<Changes>)>,
}

impl Chain {
    /// What a client needs to continue a copy, and to be continued.
    ///
    /// # Errors
    /// The mount does not know the earlier copy, or is not open.
    pub(super) fn begin(
        filesystem: &Filesystem,
        copies: &Remembered,
        wanted: &SnapshotWanted,
    ) -> Result<Self, Refusal> {
        let since = wanted.since.as_deref();
        let earlier = since.map(|id| copies.find(id)).transpose()?;
        let noted = match wanted.continues {
            Continued::Never => None,
            Continued::Later => Some((new_id(), Arc::new(filesystem.track_changes()?))),
        };
        Ok(Self { earlier, noted })
    }

    pub(super) fn noted(&self) -> Option<Noted> {
        let (id, changes) = self.noted.as_ref()?;
        Some(Noted {
            id: id.clone(),
            granule_bytes: changes.granule_bytes(),
        })
    }

    pub(super) fn earlier(&self) -> Option<Earlier> {
        let copy = self.earlier.as_ref()?;
        Some(Earlier {
            granule_bytes: copy.changes.granule_bytes(),
            bitmap_bytes: copy.changes.bitmap_bytes(),
            copy: copy.identity.clone(),
        })
    }

    /// Remembers the copy, which is complete.
    pub(super) fn keep(&self, copies: &Remembered, result: &SnapshotResult) {
        if let (Some((id, changes)), Some(copy)) = (&self.noted, &result.copy) {
            copies.add(id, copy.clone(), changes.clone());
        }
    }
}
