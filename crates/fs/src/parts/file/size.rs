//! Sizes of a file: the one that users see, and the one on disk, which ends before the first
//! delayed block (`delayed`).

use crate::state::delayed::Buffer;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use uext4_format::Feature;

/// Both sizes in bytes. `Inode::io`, held exclusively, keeps them from changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) seen: u64,
    pub(super) on_disk: u64,
}

impl Sizes {
    pub(super) fn of(state: &InodeState) -> Self {
        Self {
            seen: state.disk.size,
            on_disk: state.size_on_disk(),
        }
    }

    /// The sizes when users see `size`: the one on disk reaches up to the first delayed block.
    pub(super) fn resized(self, fs: &Fs, buffer: &Buffer, size: u64) -> Self {
        let bits = fs.base.geometry.block_bits;
        let kept = self.on_disk.min(size);
        let waits = buffer.next_from(kept >> bits).map(|block| block << bits);
        Self {
            seen: size,
            on_disk: waits.map_or(size, |waits| waits.clamp(kept, size)),
        }
    }

    pub(super) fn store(self, state: &mut InodeState) {
        state.disk.size = self.seen;
        state.disksize = if self.on_disk < self.seen {
            self.on_disk
        } else {
            u64::MAX
        };
    }
}

/// Sets the superblock's large-file feature before a file reaches 2 GiB. A mark that is too early,
/// after an error, is harmless.
pub(super) fn allow(fs: &Fs, size_bytes: u64) -> Result<()> {
    // Not the features at the mount: the feature may have been turned off since.
    if size_bytes < 1 << 31 || has_large_file(fs) {
        return Ok(());
    }
    let handle = fs.start(1)?;
    fs.base.superblock.update(&handle, |disk| {
        let mut features = disk.features();
        features.insert(Feature::LARGE_FILE);
        disk.set_features(features);
    });
    Ok(())
}

fn has_large_file(fs: &Fs) -> bool {
    let superblock = fs.base.superblock.read();
    superblock.disk.features().has(Feature::LARGE_FILE)
}
