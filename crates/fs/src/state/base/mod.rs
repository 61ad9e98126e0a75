//! Base of a mount: what every part shares, without knowledge of inodes and space.
//!
//! Not here: the caches and tables that are built on it ([`crate::Fs`]).

mod budget;
mod errors;
mod random;
mod retry;
mod state;

pub(crate) use budget::Budget;
pub(crate) use random::Random;
pub(crate) use retry::Retries;
pub(crate) use state::MountState;

use crate::state::incidents::Incidents;
use crate::state::superblock::Super;
use crate::types::error::{Error, Result};
use crate::types::settings::Settings;
use uext4_device::BlockDevice;
use uext4_format::{Checksums, Features, GOOD_OLD_INODE_BYTES, Geometry, Timestamp};
use uext4_journal::Journal;
use uext4_num::usize_of;
use uext4_sync::{Arc, Clock, FreezeBarrier, Latest};

pub(crate) struct Base {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) geometry: Latest<Geometry>,
    pub(crate) features: Features,
    pub(crate) checksums: Checksums,
    pub(crate) settings: Settings,
    pub(crate) journal: Arc<Journal>,
    pub(crate) superblock: Arc<Super>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) state: MountState,
    /// Damage and failures met since the mount.
    pub(crate) incidents: Arc<Incidents>,
    /// Freeze barrier (as `sb_start_write`): every change is inside; closed while the
    /// file system is frozen.
    pub(crate) changes: FreezeBarrier,
    /// Bound on the cost of one operation.
    pub(crate) budget: Option<Budget>,
}

impl Base {
    /// Returns `ReadOnly` (or `Shutdown`, or `Unmounted`) unless writes are allowed.
    pub(crate) fn writable(&self) -> Result<()> {
        self.state.check_open()?;
        if !self.state.is_writable() {
            return Err(Error::ReadOnly);
        }
        // A background commit may have failed since the last check.
        self.journal.check().map_err(|cause| {
            self.state.fail(&cause.into());
            Error::ReadOnly
        })
    }

    /// The timestamp of changes made now, truncated to seconds where inodes store no fraction.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.wall();
        match self.time_granularity_ns() {
            1 => Timestamp::new(now.seconds, now.nanoseconds),
            _ => Timestamp::new(now.seconds, 0),
        }
    }

    /// Timestamp granularity: a nanosecond, or a second where inodes have no extra fields.
    pub(crate) fn time_granularity_ns(&self) -> u32 {
        if usize::from(self.geometry.inode_size) > GOOD_OLD_INODE_BYTES {
            1
        } else {
            1_000_000_000
        }
    }

    /// Block size in bytes.
    pub(crate) fn block_size(&self) -> usize {
        usize_of(self.geometry.block_size())
    }

    /// Block size in bytes, for sizes and offsets of files.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.geometry.block_size().into()
    }
}
