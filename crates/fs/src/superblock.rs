//! The superblock as a live object, and what is recorded in it while mounted.
//!
//! Only its primary copy changes in normal running; backups are written by mkfs and resize.
//! Free counts are lazy, as in the kernel: they are brought up to date at sync and unmount.

use crate::options::OnError;
use crate::{Fs, Result};
use std::sync::Arc;
use uext4_format::{BlockNr, Corrupt, Place, Superblock};
use uext4_journal::{Handle, Live, Object, Render, Sink};
use uext4_sync::Rank;

/// Byte where the primary superblock stands on the device.
pub(crate) const SUPERBLOCK_OFFSET: u64 = 1024;
/// Size of a superblock in bytes.
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;

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

/// What the superblock says now.
pub(crate) struct SuperState {
    pub(crate) disk: Superblock,
    block: BlockNr,
    offset_bytes: usize,
}

impl Render for SuperState {
    const RANK: Rank = Rank::Superblock;

    fn render(&mut self, out: &mut Sink<'_>) {
        let mut bytes = [0u8; SUPERBLOCK_BYTES];
        self.disk.write_to(&mut bytes);
        out.patch(self.block, self.offset_bytes, &bytes);
    }
}

impl Super {
    pub(crate) fn new(disk: Superblock, block_size: u64) -> Arc<Self> {
        let block = BlockNr(SUPERBLOCK_OFFSET / block_size);
        let offset_bytes = (SUPERBLOCK_OFFSET % block_size) as usize;
        Arc::new(Self { live: Live::new(SuperState { disk, block, offset_bytes }) })
    }

    /// The superblock's lock, to read.
    pub(crate) fn read(&self) -> uext4_sync::RwLockReadGuard<'_, SuperState> {
        self.live.read()
    }

    /// Changes the superblock in the handle's transaction.
    pub(crate) fn update(self: &Arc<Self>, handle: &Handle, change: impl FnOnce(&mut Superblock)) {
        change(&mut handle.write(self).disk);
    }

    /// Brings the lazy totals up to date.
    pub(crate) fn update_counts(self: &Arc<Self>, fs: &Fs, handle: &Handle) {
        let (blocks, inodes) = fs.space.free_on_disk();
        let now = fs.now();
        self.update(handle, |disk| {
            disk.free_blocks = blocks;
            disk.free_inodes = inodes;
            disk.set_write_time(now.seconds);
        });
    }

    /// Notes damage: first and last error fields, the error state, and what `errors=` asks for.
    /// Best effort: a journal that cannot take the change has bigger trouble.
    pub(crate) fn record_error(self: &Arc<Self>, fs: &Fs, corrupt: &Corrupt) {
        if fs.state.is_writable() {
            let recorded = self.write_error(fs, corrupt);
            if self.policy(fs) == OnError::RemountReadOnly || recorded.is_err() {
                fs.state.fail();
            }
        }
    }

    fn write_error(self: &Arc<Self>, fs: &Fs, corrupt: &Corrupt) -> Result<()> {
        let handle = fs.start(1)?;
        let (inode, block) = match corrupt.place {
            Place::Inode(inode) => (inode.0, 0),
            Place::Block(block) => (0, block.0),
            Place::InodeBlock(inode, block) => (inode.0, block.0),
            _ => (0, 0),
        };
        let now = fs.now().seconds;
        self.update(&handle, |disk| disk.record_error(now, inode, block, corrupt.structure));
        Ok(())
    }

    fn policy(&self, fs: &Fs) -> OnError {
        match fs.options.on_error {
            OnError::Superblock if self.read().disk.remounts_read_only_on_error() => {
                OnError::RemountReadOnly
            }
            OnError::Superblock => OnError::Continue,
            chosen => chosen,
        }
    }
}
