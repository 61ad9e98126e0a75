//! The fast commits behind the transactions of a log.

use crate::{Memory, Result, Ring};
use uext4_format::Tid;
use uext4_format::fast_commit::{Record, Scan, Verdict, head_tid};

/// Memory for each byte of a record, with the record around it.
const PER_BYTE: u64 = 16;

/// The fast commits of one transaction.
#[derive(Debug)]
pub struct FastCommits {
    /// The transaction that they belong to.
    pub tid: Tid,
    /// Whether a replay applies them: they follow the last transaction of the log.
    pub is_live: bool,
    /// Position in the log of the area.
    pub first: u32,
    /// Complete fast commits.
    pub commits: u32,
    /// Their records.
    pub records: Vec<Record>,
}

/// Reads the area of fast commits; `None` if it has none.
///
/// # Errors
/// Those of the device; too little memory.
pub fn fast_commits(
    ring: &mut Ring,
    inode_size: u16,
    memory: &Memory,
) -> Result<Option<FastCommits>> {
    let (first, end) = ring.superblock().fast_commit_area();
    let end = end.min(ring.blocks.len_blocks());
    if first >= end {
        return Ok(None);
    }
    let Some(tid) = head_tid(ring.blocks.read(first)?) else {
        return Ok(None);
    };
    let mut scan = Scan::new(tid, inode_size);
    for at in first..end {
        let bytes = ring.blocks.read(at)?;
        memory.take(uext4_num::u64_of(bytes.len()).saturating_mul(PER_BYTE))?;
        if scan.push(bytes) == Verdict::Ends {
            break;
        }
    }
    let live = ring.transactions().iter();
    let mut live = live.filter(|one| one.state == crate::TransactionState::Live);
    let next = live
        .next_back()
        .map_or(ring.superblock().sequence, |last| last.tid.next());
    Ok(Some(FastCommits {
        tid,
        is_live: ring.superblock().start != 0 && tid == next,
        first,
        commits: scan.commits(),
        records: scan.into_records(),
    }))
}
