//! Writes one regular transaction into a log that no mount uses: it replaces the fast commits at
//! the end of a recovery, or changes a file system at rest.
//!
//! Fast commits are valid only while the transaction whose number they carry is not in the log. So
//! their effect is logged as that transaction. A crash before its commit block is durable leads to
//! the same fast commits, a later one to a plain replay. The images are written home after that.

use super::{RecoveryMode, RecoveryReport, mark_clean, read_superblock, recover};
use crate::closed::Closed;
use crate::encode::{LogBlock, encode};
use crate::home::Home;
use crate::log_file::LogFile;
use crate::{Error, Image, Log};
use uext4_device::BlockDevice;
use uext4_format::BlockNr;
use uext4_format::jbd2::{CommitBlock, Superblock};
use uext4_num::{clamp_u32, u64_of};
use uext4_sync::Arc;

/// Logs the ascending `images` as the transaction that the fast commits of `report` belong to,
/// writes them home and marks the log clean. The commit block gets the time `seconds`, since 1970.
///
/// # Errors
/// [`Error::LogTooSmall`], with nothing changed, when the empty log cannot hold the images.
pub fn supersede(
    log: &Log,
    home: &Arc<dyn BlockDevice>,
    block_size: u32,
    report: &RecoveryReport,
    images: Vec<(BlockNr, Image)>,
    seconds: u64,
) -> Result<(), Error> {
    let order = HomeOrder::default();
    write(log, home, block_size, report, images, &order, seconds)
}

/// The order in which the images of [`commit_to_clean`] go home: each state on the way must let a
/// program find the log.
#[derive(Debug, Default)]
pub struct HomeOrder {
    /// What a block holds while the others are on their way.
    pub bridge: Option<(BlockNr, Image)>,
    /// Blocks that go home behind the others, one after the other.
    pub last: Vec<BlockNr>,
}

fn write(
    log: &Log,
    home: &Arc<dyn BlockDevice>,
    block_size: u32,
    report: &RecoveryReport,
    images: Vec<(BlockNr, Image)>,
    order: &HomeOrder,
    seconds: u64,
) -> Result<(), Error> {
    let file = LogFile::new(log, block_size);
    let home = Home::new(Arc::clone(home), block_size);
    let closed = Closed {
        tid: report.end,
        images,
        revokes: Vec::new(),
        tables: Vec::new(),
    };
    let mut superblock = file.read_superblock()?;
    let body = encode(&superblock.layout(), &superblock.uuid, &closed, 1)?;
    let blocks = u64_of(body.len());
    if blocks >= u64::from(superblock.end() - superblock.first) {
        return Err(Error::LogTooSmall { blocks });
    }
    empty_log(&file, &mut superblock, report)?;
    write_transaction(&file, &superblock, &closed, &body, seconds)?;
    write_home(&home, &closed.images, order)?;
    let replayed = RecoveryReport {
        end: report.end.next(),
        ..report.clone()
    };
    mark_clean(log, block_size, &replayed)
}

fn write_home(home: &Home, images: &[(BlockNr, Image)], order: &HomeOrder) -> Result<(), Error> {
    let (last, others): (Vec<_>, Vec<_>) = images
        .iter()
        .cloned()
        .partition(|(nr, _)| order.last.contains(nr));
    let mut parts = vec![order.bridge.iter().cloned().collect(), others];
    for nr in &order.last {
        parts.push(
            last.iter()
                .filter(|image| image.0 == *nr)
                .cloned()
                .collect(),
        );
    }
    for part in parts.iter().filter(|part| !part.is_empty()) {
        home.write_many(part)?;
        home.flush()?;
    }
    Ok(())
}

/// Logs the ascending `images` as the next transaction of a clean log, writes them home and marks
/// the log clean. The file system must say before that its log may need a replay.
///
/// # Errors
/// [`Error::NeedsRecovery`] if the log is not clean; as [`supersede`].
pub fn commit_to_clean(
    log: &Log,
    home: &Arc<dyn BlockDevice>,
    block_size: u32,
    images: Vec<(BlockNr, Image)>,
    order: &HomeOrder,
    seconds: u64,
) -> Result<(), Error> {
    let found = recover(log, home, block_size, RecoveryMode::Inspect)?;
    if !found.was_clean {
        return Err(Error::NeedsRecovery);
    }
    let end_block = read_superblock(log, block_size)?.first;
    let report = RecoveryReport { end_block, ..found };
    write(log, home, block_size, &report, images, order, seconds)
}

/// Most images that [`commit_to_clean`] can log at once.
pub fn room_images(log: &Log, block_size: u32) -> Result<u64, Error> {
    let superblock = read_superblock(log, block_size)?;
    let per_descriptor = u64_of(superblock.layout().tags_per_descriptor());
    // Besides images and descriptors there are the commit block and one block that stays free.
    let blocks = u64::from(superblock.end() - superblock.first).saturating_sub(2);
    let whole = blocks / (per_descriptor + 1);
    let rest = (blocks % (per_descriptor + 1)).saturating_sub(1);
    Ok(whole * per_descriptor + rest)
}

/// Moves the tail to the front of the log, where the transaction is to be written; all older ones
/// are home and flushed. It does not wrap there, which a log with fast commits must not. The next
/// transaction number stays the one that the fast commits carry.
fn empty_log(
    file: &LogFile,
    superblock: &mut Superblock,
    report: &RecoveryReport,
) -> Result<(), Error> {
    (superblock.start, superblock.sequence) = (superblock.first, report.end);
    file.write_superblock(superblock)?;
    file.flush()
}

fn write_transaction(
    file: &LogFile,
    superblock: &Superblock,
    closed: &Closed,
    body: &[LogBlock],
    seconds: u64,
) -> Result<(), Error> {
    let bytes: Vec<&[u8]> = body.iter().map(LogBlock::bytes).collect();
    file.write(superblock.start, &bytes)?;
    file.flush()?;
    let commit = CommitBlock::encode(&superblock.layout(), closed.tid, seconds, 0);
    let at = superblock.start + clamp_u32(body.len()) - 1;
    file.write(at, &[&commit])?;
    file.flush()
}
