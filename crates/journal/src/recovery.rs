//! Log replay after a crash.
//!
//! Three passes over the log, as in jbd2: find the end; collect revokes; collect the newest image
//! of every block and check its checksum. Only then are images written home (each block once,
//! ascending) and flushed, and the log marked clean: a crash in between repeats the same replay.
//!
//! Invariants: no pass visits more blocks than the log has, whatever its contents; memory is
//! bounded by the number of tags and revoke entries in the log.
//! Not here: the caller interprets fast-commit blocks ([`RecoveryReport::fast_commit`]) and passes
//! the resulting block images to [`supersede`].
//! References: kernel doc `filesystems/ext4/journal.rst`.

mod cursor;
mod fast_commit;
mod replay;
mod scan;
mod supersede;

pub use fast_commit::{FastCommitArea, read_fast_commit_block};
pub use supersede::{HomeOrder, commit_to_clean, room_images, supersede};

use crate::log_file::LogFile;
use crate::{Error, Log};
use replay::Replay;
use uext4_device::BlockDevice;
use uext4_format::jbd2::Superblock;
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, Tid};
use uext4_sync::Arc;

/// Extent of the writes of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryMode {
    /// Writes nothing: reports the result of a replay.
    Inspect,
    /// Writes all images, or nothing when one does not match its checksum.
    Replay,
    /// As `Replay`, but skips and counts images that do not match.
    Salvage,
}

/// Findings and results of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The log was clean; all other fields are meaningless then.
    pub was_clean: bool,
    /// The oldest transaction in the log.
    pub first: Tid,
    /// The first transaction that is not complete; only those before it are replayed.
    pub end: Tid,
    /// The log block in which `end` would start.
    pub end_block: u32,
    /// Images in complete transactions, including superseded and revoked ones.
    pub images: u64,
    /// Images skipped because their block was revoked.
    pub revoked: u64,
    /// Images skipped because they do not match their checksum ([`RecoveryMode::Salvage`]).
    pub damaged: u64,
    /// The number of blocks written to their home locations.
    pub written_blocks: u64,
    /// The log may hold fast commits on top of these transactions. In that case it is not marked
    /// clean: the caller reads them and calls [`supersede`], or [`mark_clean`] if there are none.
    pub fast_commit: Option<FastCommitArea>,
    /// The negative errno of the error that stopped the journal before; 0 for none.
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

/// Edits the newest image of a block before it is written home.
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

/// As [`recover`], but `amend` edits each image before its home write. Image and edit are one
/// write, so no crash separates them.
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

/// Clears the stored error ([`RecoveryReport::errno`]) after the caller has noted it elsewhere.
pub fn clear_errno(log: &Log, block_size: u32) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let mut superblock = file.read_superblock()?;
    superblock.errno = 0;
    file.write_superblock(&superblock)?;
    file.flush()
}

/// Writes the superblock of an empty log anew, without a stored error and without fields that its
/// version does not have.
pub fn rewrite_superblock(log: &Log, block_size: u32) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let mut superblock = file.read_superblock()?;
    superblock.errno = 0;
    superblock.clear_fields_of_version_2();
    file.write_superblock(&superblock)?;
    file.flush()
}

/// Lets the log have one user: the file system that holds it.
pub fn forget_users(log: &Log, block_size: u32) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let mut superblock = file.read_superblock()?;
    superblock.set_one_user();
    file.write_superblock(&superblock)?;
    file.flush()
}

/// Writes a new superblock, of an empty log without features. What the log held is lost.
pub fn reset(log: &Log, block_size: u32, uuid: [u8; 16]) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let first = log.superblock + 1;
    file.write_superblock(&Superblock::new(block_size, log.len_blocks, first, uuid))?;
    file.flush()
}

/// Marks a replayed log clean. Everything replayed was flushed before.
pub fn mark_clean(log: &Log, block_size: u32, report: &RecoveryReport) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let mut superblock = file.read_superblock()?;
    superblock.start = 0;
    superblock.head = 0;
    // Skips one number: the log may hold a torn transaction `end`.
    superblock.sequence = report.end.next();
    file.write_superblock(&superblock)?;
    file.flush()
}

fn corrupt(log_block: u32, structure: &'static str, problem: CorruptKind) -> Error {
    Corrupt::new(DamageLocation::JournalBlock(log_block), structure, problem).into()
}
