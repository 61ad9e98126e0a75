//! The superblock as a live object.
//!
//! Normal operation changes the primary copy only; mkfs, tune and resize write the backups. Free
//! counts are lazy, as in the kernel: sync and unmount update them.

use crate::types::error::Result;
use crate::types::options::OnError;
use uext4_device::BlockDevice;
use uext4_format::superblock::SUPERBLOCK_OFFSET;
use uext4_format::superblock::{ErrorBehaviour, state};
use uext4_format::{BlockNr, Superblock};
use uext4_journal::{FailedWrite, Handle, Live, LogGuard, Object, Render, Sink};
use uext4_num::clamp_usize;
use uext4_sync::{Arc, Rank};

/// Reads and validates the superblock of a device: the primary copy, or the one at `sb=`.
///
/// # Errors
/// [`crate::Error::Mount`] if there is no ext4 superblock, [`crate::Error::Corrupt`] if it is
/// damaged.
pub fn read_superblock(device: &dyn BlockDevice, at_kib: Option<u64>) -> Result<Superblock> {
    Ok(uext4_volume::superblock::read_superblock(device, at_kib)?)
}

/// The superblock of a mounted file system.
pub(crate) struct Super {
    live: Live<SuperState>,
}

impl Object for Super {
    type State = SuperState;
    fn live(&self) -> &Live<SuperState> {
        &self.live
    }
}

/// Current content of the superblock.
pub(crate) struct SuperState {
    pub(crate) disk: Superblock,
    pub(crate) block: BlockNr,
    /// Without a journal: the mark `VALID` as the mount found it, which an unmount restores.
    pub(crate) was_valid: bool,
    offset_bytes: usize,
}

impl Render for SuperState {
    const RANK: Rank = Rank::Superblock;

    fn render(&mut self, out: &mut Sink<'_>) {
        out.patch(self.block, self.offset_bytes, &self.disk.to_bytes());
    }
}

/// The policy of `errors=`: `asked`, or the superblock's if that was asked.
pub(crate) fn policy(asked: OnError, disk: &Superblock) -> OnError {
    match asked {
        OnError::Superblock => match ErrorBehaviour::from_raw(disk.errors) {
            ErrorBehaviour::Continue => OnError::Continue,
            ErrorBehaviour::RemountReadOnly => OnError::RemountReadOnly,
            ErrorBehaviour::Panic => OnError::Panic,
        },
        chosen => chosen,
    }
}

/// The reaction to a failed metadata write without a journal.
pub(crate) fn failed_write(asked: OnError, disk: &Superblock) -> FailedWrite {
    match policy(asked, disk) {
        OnError::Continue => FailedWrite::Continue,
        _ => FailedWrite::Stop,
    }
}

impl Super {
    pub(crate) fn new(disk: Superblock, block_size: u64) -> Arc<Self> {
        let block = BlockNr(SUPERBLOCK_OFFSET / block_size);
        let offset_bytes = clamp_usize(SUPERBLOCK_OFFSET % block_size);
        Arc::new(Self {
            live: Live::new(SuperState {
                was_valid: disk.state & state::VALID != 0,
                disk,
                block,
                offset_bytes,
            }),
        })
    }

    /// The superblock's lock, to read.
    pub(crate) fn read(&self) -> uext4_sync::RwLockReadGuard<'_, SuperState> {
        self.live.read()
    }

    /// The superblock's lock, to change fields that are not logged (unmount).
    pub(crate) fn write_unlogged(&self) -> LogGuard<'_, SuperState> {
        self.live.write_unlogged()
    }

    /// Changes the superblock in the handle's transaction.
    pub(crate) fn update(
        self: &Arc<Self>,
        handle: &Handle<'_>,
        change: impl FnOnce(&mut Superblock),
    ) {
        change(&mut handle.write(self).disk);
    }
}
