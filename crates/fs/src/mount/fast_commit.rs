//! The fast-commit area of a journal that is replayed.
//!
//! An area without a fast commit of the transaction that comes next is empty. One that holds any is
//! refused: ignoring it would lose what an fsync promised.
//!
//! References: kernel documentation, `filesystems/ext4/journal.rst`, section on fast commits.

use crate::{Error, Result};
use uext4_format::bytes::{get_u16, get_u32};
use uext4_journal::Log;
use uext4_journal::recovery::{self, FastCommitArea, RecoveryReport};

/// Tag of the record that starts a fast commit: length, features, transaction number.
const TAG_HEAD: u16 = 9;

/// Marks the log clean after the replay of full commits, if no fast commits stand after them.
pub(super) fn finish(log: &Log, block_size: u32, report: &RecoveryReport) -> Result<()> {
    let Some(area) = &report.fast_commit else {
        return Ok(());
    };
    if holds_commits(log, block_size, area)? {
        return Err(Error::NotSupported("a journal with fast commits to replay: run e2fsck once"));
    }
    Ok(recovery::mark_clean(log, block_size, report)?)
}

fn holds_commits(log: &Log, block_size: u32, area: &FastCommitArea) -> Result<bool> {
    let first = recovery::read_fast_commit_block(log, block_size, area, 0)?;
    let head = |block: &[u8]| get_u16(block, 0) == TAG_HEAD && get_u32(block, 8) == area.tid.0;
    Ok(first.is_some_and(|block| head(&block)))
}
