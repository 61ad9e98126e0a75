//! The fast-commit area: blocks at the end of the log that only the fs can interpret.

use crate::log_file::LogFile;
use crate::{Error, Image, Log};
use uext4_format::Tid;
use uext4_format::jbd2::Superblock;
use uext4_num::usize_of;

/// Location of fast commits, and the transaction that they must belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastCommitArea {
    /// Fast commits of any other transaction are stale.
    pub tid: Tid,
    /// The first block of the fast-commit area in the log.
    pub first: u32,
    /// One past the last log block.
    pub end: u32,
}

impl FastCommitArea {
    pub(super) fn of(superblock: &Superblock, tid: Tid) -> Option<FastCommitArea> {
        let (first, end) = superblock.fast_commit_area();
        (first < end).then_some(FastCommitArea { tid, first, end })
    }
}

/// Block `index` of the area; `None` past its end.
pub fn read_fast_commit_block(
    log: &Log,
    block_size: u32,
    area: &FastCommitArea,
    index: u32,
) -> Result<Option<Image>, Error> {
    let block = area
        .first
        .checked_add(index)
        .filter(|block| *block < area.end);
    let Some(block) = block else { return Ok(None) };
    let mut bytes = vec![0; usize_of(block_size)];
    LogFile::new(log, block_size).read(block, &mut bytes)?;
    Ok(Some(bytes.into()))
}
