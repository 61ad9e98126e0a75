//! Records errors: the incident log, the error fields of the superblock, and the reaction that
//! `errors=` asks for.

use super::Base;
use crate::state::superblock::policy;
use crate::types::error::{Error, Result};
use crate::types::options::OnError;
use uext4_format::{Corrupt, DamageLocation, Superblock};
use uext4_num::nonnegative;
use uext4_volume::{ERROR_CODE_CORRUPT, ERROR_CODE_IO, ErrorRecord, keep_errors, record_error};

fn damage<'a>(base: &Base, corrupt: &Corrupt) -> ErrorRecord<'a> {
    let (inode, block) = match corrupt.place {
        DamageLocation::Inode(inode) => (inode.0, 0),
        DamageLocation::Block(block) => (0, block.0),
        DamageLocation::InodeBlock(inode, block) => (inode.0, block.0),
        _ => (0, 0),
    };
    ErrorRecord {
        now: nonnegative(base.now().seconds),
        inode,
        block,
        what: corrupt.structure,
        code: ERROR_CODE_CORRUPT,
    }
}

/// The record of a failed device access to metadata.
fn device_failed<'a>(base: &Base, block: u64, what: &'a str) -> ErrorRecord<'a> {
    ErrorRecord {
        now: nonnegative(base.now().seconds),
        inode: 0,
        block,
        what,
        code: ERROR_CODE_IO,
    }
}

/// The record for an error that an operation met, if it needs one.
fn to_record<'a>(base: &Base, error: &Error) -> Option<ErrorRecord<'a>> {
    match error {
        Error::Corrupt(corrupt) => Some(damage(base, corrupt)),
        Error::Journal(uext4_journal::Error::Device(device)) => {
            let block = device.failed_read()? >> base.geometry.block_bits;
            Some(device_failed(base, block, "metadata"))
        }
        _ => None,
    }
}

impl Base {
    /// Records damage and failed metadata reads in the superblock, and applies `errors=`; passes
    /// the result on. A failed journal ends writing.
    pub(crate) fn record_result<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.record(error, |noted| self.write_error(noted)))
    }

    /// As [`Self::record_result`], for callers that may not log: the record stays in memory until
    /// the superblock is written.
    pub(crate) fn record_result_later<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            self.record(error, |noted| {
                record_error(&mut self.superblock.write_unlogged().disk, noted);
                Ok(())
            })
        })
    }

    /// Best effort: if the record cannot be written, the mount fails.
    fn record(&self, error: &Error, write: impl FnOnce(&ErrorRecord<'_>) -> Result<()>) {
        self.incidents.met(error);
        let Some(noted) = to_record(self, error) else {
            return self.apply_journal_error(error);
        };
        if self.state.is_writable() {
            let recorded = write(&noted);
            if self.on_error() != OnError::Continue || recorded.is_err() {
                self.state.fail(error);
            }
        }
    }

    fn write_error(&self, noted: &ErrorRecord<'_>) -> Result<()> {
        self.writable()?;
        let handle = self.journal.start(1)?;
        self.superblock
            .update(&handle, |disk| record_error(disk, noted));
        Ok(())
    }

    fn apply_journal_error(&self, error: &Error) {
        match error {
            Error::Journal(uext4_journal::Error::Unwritten { .. }) => {
                let noted = device_failed(self, 0, "metadata");
                record_error(&mut self.superblock.write_unlogged().disk, &noted);
            }
            Error::Journal(_) => self.state.fail(error),
            _ => {}
        }
    }

    /// The policy of `errors=`, by the mount option or the superblock.
    pub(crate) fn on_error(&self) -> OnError {
        policy(self.settings.on_error(), &self.superblock.read().disk)
    }

    /// The on-disk superblock `there` after the journal stopped: adds the error records of this
    /// mount, and no other uncommitted change.
    pub(crate) fn with_stop(&self, mut there: Superblock) -> Superblock {
        let mut ours = self.superblock.read().disk.clone();
        record_error(&mut ours, &device_failed(self, 0, "journal"));
        keep_errors(&mut there, &ours);
        there
    }
}
