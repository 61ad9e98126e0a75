//! Replaying a log after a crash.
//!
//! Three passes over the log, as jbd2 does: find the end; collect revokes; collect the newest
//! image of every block, checking its checksum. Only then are images written home (each block
//! once, ascending), flushed, and the log marked clean: a crash in between repeats the same work.
//!
//! Invariants: no pass visits more blocks than the log has, whatever the log says; memory is
//! bounded by the number of tags and revoke entries in the log.
//! Not here: fast-commit blocks are handed to the caller ([`RecoveryReport::fast_commit`]), who
//! turns them into block images for [`supersede`].
//! References: kernel doc `filesystems/ext4/journal.rst`.

mod cursor;
mod fast_commit;
mod replay;
mod scan;
mod supersede;

pub use fast_commit::{FastCommitArea, read_fast_commit_block};
pub use supersede::supersede;

use crate::log_file::LogFile;
use crate::{Error, Log};
use replay::Replay;
use std::sync::Arc;
use uext4_device::BlockDevice;
use uext4_format::jbd2::Superblock;
use uext4_format::{BlockNr, Corrupt, Place, Tid};

/// What recovery may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryMode {
    /// Nothing: tells what a replay would do.
    Inspect,
    /// Everything, or nothing when an image does not match its checksum.
    Replay,
    /// As `Replay`, but images that do not match are left out and counted.
    Salvage,
}

/// What recovery found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The log was clean; nothing else here means anything.
    pub was_clean: bool,
    /// The oldest transaction in the log.
    pub first: Tid,
    /// The first transaction that is not complete: those before it count.
    pub end: Tid,
    /// The log block that `end` would start in.
    pub end_block: u32,
    /// Images in complete transactions, those that were not needed included.
    pub images: u64,
    /// Images left out because their block was revoked.
    pub revoked: u64,
    /// Images left out because they do not match their checksum ([`RecoveryMode::Salvage`]).
    pub damaged: u64,
    /// Blocks written home.
    pub written_blocks: u64,
    /// The log may hold fast commits on top of these transactions. Then the log is not marked
    /// clean: the caller reads them, and calls [`supersede`], or [`mark_clean`] if there are none.
    pub fast_commit: Option<FastCommitArea>,
    /// Error that stopped the journal in its last life, as the (negative) errno it stored.
    pub errno: i32,
}

/// True when the log holds transactions to replay.
pub fn needs_recovery(log: &Log, block_size: u32) -> Result<bool, Error> {
    Ok(read_superblock(log, block_size)?.start != 0)
}

/// Reads and validates the journal superblock.
pub fn read_superblock(log: &Log, block_size: u32) -> Result<Superblock, Error> {
    LogFile::new(log, block_size).read_superblock()
}

/// Changes the newest image of a block before it is written home.
pub type Amend<'a> = &'a dyn Fn(BlockNr, &mut [u8]);

/// Replays `log` to `home`, whose blocks have `block_size` bytes.
pub fn recover(
    log: &Log,
    home: &Arc<dyn BlockDevice>,
    block_size: u32,
    mode: RecoveryMode,
) -> Result<RecoveryReport, Error> {
    recover_amended(log, home, block_size, mode, &|_, _| ())
}

/// As [`recover`]; what `amend` adds to a block reaches its place in one write with the image, so
/// that no crash leaves one without the other.
pub fn recover_amended(
    log: &Log,
    home: &Arc<dyn BlockDevice>,
    block_size: u32,
    mode: RecoveryMode,
    amend: Amend<'_>,
) -> Result<RecoveryReport, Error> {
    let file = LogFile::new(log, block_size);
    let superblock = file.read_superblock()?;
    let mut report = RecoveryReport {
        was_clean: superblock.start == 0,
        first: superblock.sequence,
        end: superblock.sequence,
        end_block: superblock.start,
        images: 0,
        revoked: 0,
        damaged: 0,
        written_blocks: 0,
        fast_commit: None,
        errno: superblock.errno,
    };
    if report.was_clean {
        return Ok(report);
    }
    let end = scan::find_end(&file, &superblock)?;
    (report.end, report.end_block) = (end.tid, end.at);
    report.fast_commit = FastCommitArea::of(&superblock, report.end);
    let mut replay = Replay::new(&file, &superblock, home, mode);
    replay.collect(&mut report)?;
    if mode != RecoveryMode::Inspect {
        replay.write_home(&mut report, amend)?;
        if report.fast_commit.is_none() {
            mark_clean(log, block_size, &report)?;
        }
    }
    Ok(report)
}

/// Forgets the error that stopped the journal in its last life ([`RecoveryReport::errno`]). The
/// caller has noted it where it stays.
pub fn clear_errno(log: &Log, block_size: u32) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let mut superblock = file.read_superblock()?;
    superblock.errno = 0;
    file.write_superblock(&superblock)?;
    file.flush()
}

/// Marks a replayed log clean. Everything replayed was flushed before.
pub fn mark_clean(log: &Log, block_size: u32, report: &RecoveryReport) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let mut superblock = file.read_superblock()?;
    superblock.start = 0;
    superblock.head = 0;
    // One further: the log may hold a torn transaction of the number `end`.
    superblock.sequence = report.end.next();
    file.write_superblock(&superblock)?;
    file.flush()
}

fn corrupt(log_block: u32, structure: &'static str, problem: &'static str) -> Error {
    Corrupt::new(Place::JournalBlock(log_block), structure, problem).into()
}

const BAD_CHECKSUM: &str = "checksum does not match";
