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
    /// The new copy replaces it.
    is_replaced: bool,
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
        let since = wanted.since.as_ref();
        let earlier = since.map(|since| copies.find(since)).transpose()?;
        let noted = match wanted.continues {
            Continued::Never => None,
            Continued::Later => {
                let changes = filesystem.track_changes()?;
                changes.map(|changes| (new_id(), Arc::new(changes)))
            }
        };
        let is_replaced = since.is_some_and(|since| since.is_replaced);
        Ok(Self {
            earlier,
            is_replaced,
            noted,
        })
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

    /// Bits of the earlier copy. Its client has found it as it was, and refers to it from now on.
    pub(super) fn read_earlier(&self, offset: u64, buf: &mut [u8]) -> bool {
        let Some(copy) = &self.earlier else {
            return false;
        };
        if !self.is_replaced {
            copy.set_base();
        }
        copy.changes.read(offset, buf)
    }

    /// Remembers the copy, which is complete.
    pub(super) fn keep(&self, copies: &Remembered, result: &SnapshotResult) {
        if let (Some((id, changes)), Some(copy)) = (&self.noted, &result.copy) {
            copies.add(id, copy.clone(), changes.clone());
        }
    }
}
