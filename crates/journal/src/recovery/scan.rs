//! First pass: finds the end of the complete transactions.
//!
//! A torn or foreign block ends the log, as does a commit block with a wrong checksum. A descriptor
//! or revoke block with a wrong checksum is damage if a commit block of the same transaction
//! follows it. If that commit block is older than the previous transaction, the blocks are stale
//! (from before the last wrap-around) and end the log as well.

use super::corrupt;
use super::cursor::{Cursor, Found};
use crate::Error;
use crate::log_file::LogFile;
use uext4_format::jbd2::{
    BlockType, ChecksumKind, CommitBlock, Superblock, Tags, TransactionChecksum,
};
use uext4_format::{CorruptKind, Tid};

struct Scan<'a> {
    cursor: Cursor<'a>,
    /// Sum over the transaction so far (checksums v1).
    sum: TransactionChecksum,
    /// First descriptor or revoke block of this transaction with a wrong checksum.
    suspect: Option<u32>,
    last_commit_seconds: u64,
}

/// Effect of a block on its transaction.
enum Verdict {
    GoesOn,
    Complete,
    LogEnds,
}

/// End of the complete transactions of a log.
#[derive(Clone, Copy)]
pub(super) struct LogEnd {
    /// The first transaction that is not complete.
    pub(super) tid: Tid,
    /// The log block in which it would start.
    pub(super) at: u32,
}

/// Finds the end of the complete transactions.
pub(super) fn find_end(file: &LogFile, superblock: &Superblock) -> Result<LogEnd, Error> {
    let mut scan = Scan {
        cursor: Cursor::new(file, superblock),
        sum: TransactionChecksum::new(),
        suspect: None,
        last_commit_seconds: 0,
    };
    let mut end = LogEnd {
        tid: superblock.sequence,
        at: superblock.start,
    };
    while let Some(found) = scan.cursor.next()? {
        match scan.judge(&found)? {
            Verdict::GoesOn => {}
            Verdict::Complete => {
                end = LogEnd {
                    tid: end.tid.next(),
                    at: scan.cursor.position(),
                }
            }
            Verdict::LogEnds => break,
        }
    }
    Ok(end)
}

impl Scan<'_> {
    fn judge(&mut self, found: &Found) -> Result<Verdict, Error> {
        match found.block_type {
            BlockType::Descriptor => self.judge_descriptor(found),
            BlockType::Revoke => {
                self.check_seal(found);
                Ok(Verdict::GoesOn)
            }
            BlockType::Commit => self.judge_commit(found),
            BlockType::SuperblockV1 | BlockType::SuperblockV2 => Ok(Verdict::LogEnds),
        }
    }

    fn check_seal(&mut self, found: &Found) {
        if self.suspect.is_none() && !self.cursor.layout.verify_seal(&found.bytes) {
            self.suspect = Some(found.at);
        }
    }

    fn judge_descriptor(&mut self, found: &Found) -> Result<Verdict, Error> {
        self.check_seal(found);
        let goes_on = match self.cursor.layout.checksums {
            ChecksumKind::V1 => self.sum_images(found)?,
            _ => self.cursor.skip_images(found),
        };
        Ok(if goes_on {
            Verdict::GoesOn
        } else {
            Verdict::LogEnds
        })
    }

    /// Adds a descriptor and its images to the sum; false when the block budget is used up.
    fn sum_images(&mut self, found: &Found) -> Result<bool, Error> {
        self.sum.update(&found.bytes);
        let layout = self.cursor.layout;
        for _ in Tags::new(&layout, &found.bytes) {
            let Some(at) = self.cursor.step() else {
                return Ok(false);
            };
            let image = self.cursor.read(at)?;
            self.sum.update(image);
        }
        Ok(true)
    }

    fn judge_commit(&mut self, found: &Found) -> Result<Verdict, Error> {
        let commit = CommitBlock::parse(&found.bytes);
        if let Some(suspect) = self.suspect {
            return if commit.seconds >= self.last_commit_seconds {
                Err(corrupt(
                    suspect,
                    "descriptor block",
                    CorruptKind::BlockChecksum,
                ))
            } else {
                Ok(Verdict::LogEnds)
            };
        }
        let sum = std::mem::take(&mut self.sum);
        let layout = &self.cursor.layout;
        let matches_v1 = layout.checksums != ChecksumKind::V1 || commit.matches_v1(sum.value());
        if !matches_v1 || !CommitBlock::verify(layout, &found.bytes) {
            return Ok(Verdict::LogEnds);
        }
        self.last_commit_seconds = commit.seconds;
        Ok(Verdict::Complete)
    }
}
