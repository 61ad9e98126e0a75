//! Tracks files that lost data in a failed flush (`delayed::flush_generation`). Only mounts without
//! a journal continue after one.

use crate::state::delayed::{ErrorCursor, Sample};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::{Error, Result};
use uext4_format::{Feature, FileType};
use uext4_sync::Arc;

/// The error for written data that may be lost.
pub(crate) fn lost() -> Error {
    let cause = Arc::new(uext4_journal::Error::Lost);
    Error::Journal(uext4_journal::Error::Unwritten { cause })
}

impl Fs {
    fn may_go_on(&self) -> bool {
        !self.base.features.has(Feature::HAS_JOURNAL)
    }

    /// Records that data of the file are being written; the caller holds its `InodeIo` exclusively.
    pub(crate) fn begin_unflushed(&self, inode: &Inode) {
        if self.may_go_on()
            && inode
                .flush_generation
                .begin_write(self.base.device.failed_flushes())
        {
            inode.write_errors.record();
        }
    }

    /// Samples the writes that a flush beginning now covers; `None` while the file is written.
    pub(crate) fn sample_flush_generation(&self, inode: &Inode) -> Option<Sample> {
        let _no_writer = inode.io.try_read().filter(|_| self.may_go_on())?;
        Some(inode.flush_generation.sample())
    }

    /// Validates the sample after a successful flush.
    ///
    /// # Errors
    /// An earlier one failed, and data of the file may be lost.
    pub(crate) fn check_lost_flush(
        &self,
        inode: &Inode,
        cursor: Option<&ErrorCursor>,
        sample: Option<Sample>,
    ) -> Result<()> {
        if !self.may_go_on() || inode.kind() != FileType::Regular {
            return Ok(());
        }
        let failed = self.base.device.failed_flushes();
        if !inode.flush_generation.is_lost(failed) {
            if let Some(sample) = sample {
                inode.flush_generation.mark_flushed(sample);
            }
            return Ok(());
        }
        if inode.flush_generation.mark_recorded(failed) {
            inode.write_errors.record();
        }
        inode.write_errors.check_and_advance(cursor);
        Err(lost())
    }

    /// Whether data of any file may be lost.
    ///
    /// # Errors
    /// They may.
    pub(crate) fn check_lost_flushes(&self) -> Result<()> {
        if self.may_go_on() && self.base.device.failed_flushes() > 0 {
            Err(lost())
        } else {
            Ok(())
        }
    }
}
