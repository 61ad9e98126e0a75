//! Sizes of the journal and the orphan file.

use crate::{Error, JournalSize, MkfsOptions};
use uext4_format::{Feature, Features};
use uext4_num::clamp_u32;

/// Journal sizes that mke2fs accepts, in blocks.
pub const JOURNAL_BLOCKS: std::ops::RangeInclusive<u64> = 1024..=10_240_000;

/// mke2fs's journal size for a file system of `blocks_count` blocks, in blocks; 0: it is too small
/// for a journal.
pub fn default_journal_blocks(blocks_count: u64) -> u64 {
    const KI: u64 = 1024;
    const STEPS: [(u64, u64); 8] = [
        (2 * KI, 0),
        (32 * KI, KI),
        (256 * KI, 4 * KI),
        (512 * KI, 8 * KI),
        (4096 * KI, 16 * KI),
        (8192 * KI, 32 * KI),
        (16384 * KI, 64 * KI),
        (32768 * KI, 128 * KI),
    ];
    let step = STEPS.iter().find(|(below, _)| blocks_count < *below);
    step.map_or(256 * KI, |(_, blocks)| *blocks)
}

/// Length of a log in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogLength {
    /// All of it; 0: no log.
    pub blocks: u32,
    /// The area of fast commits at its end.
    pub fast_commit_blocks: u32,
}

impl LogLength {
    /// A journal of `journal_blocks` blocks with these features; behind it the area of fast
    /// commits, by default a 64th as long.
    pub fn new(journal_blocks: u64, area_blocks: Option<u64>, features: Features) -> Self {
        let area = if features.has(Feature::FAST_COMMIT) {
            area_blocks.unwrap_or(journal_blocks / 64)
        } else {
            0
        };
        Self {
            blocks: clamp_u32(journal_blocks.saturating_add(area)),
            fast_commit_blocks: clamp_u32(area),
        }
    }

    /// Whether a file system of `blocks_count` blocks may have it as mke2fs says.
    pub fn fits(self, blocks_count: u64) -> bool {
        let all = u64::from(self.blocks);
        let journal = u64::from(self.blocks - self.fast_commit_blocks);
        JOURNAL_BLOCKS.contains(&journal) && all <= *JOURNAL_BLOCKS.end() && all <= blocks_count / 2
    }
}

/// The log that the options ask for; 0 blocks: none, or an external one.
pub(crate) fn log_length(
    options: &MkfsOptions,
    features: Features,
    block_size: u32,
    blocks_count: u64,
) -> Result<LogLength, Error> {
    let has_journal = features.has(Feature::HAS_JOURNAL);
    if options.external_journal.is_some() && !has_journal {
        return Err(Error::Needs {
            feature: Feature::JOURNAL_DEV,
            needs: Feature::HAS_JOURNAL,
        });
    }
    if !has_journal || options.external_journal.is_some() {
        return Ok(LogLength::default());
    }
    let block = u64::from(block_size);
    let blocks = match options.journal {
        JournalSize::Auto => default_journal_blocks(blocks_count),
        JournalSize::Mib(mib) => (u64::from(mib) << 20) / block,
        JournalSize::Blocks(blocks) => u64::from(blocks),
    };
    let area = options.fast_commit_kib;
    let area = area.map(|kib| (u64::from(kib) << 10) / block);
    if area.is_some() && !features.has(Feature::FAST_COMMIT) {
        return Err(Error::OutOfRange(
            "an area of fast commits needs the feature fast_commit",
        ));
    }
    if area == Some(0) {
        return Err(Error::OutOfRange(
            "the area of fast commits has at least one block",
        ));
    }
    let log = LogLength::new(blocks, area, features);
    let is_chosen = options.journal != JournalSize::Auto || area.is_some();
    if is_chosen && !log.fits(blocks_count) {
        Err(Error::OutOfRange(
            "a journal has 1024 to 10240000 blocks, and at most half of the file system",
        ))
    } else {
        Ok(log)
    }
}

/// mke2fs's size of the orphan file, in blocks.
pub fn default_orphan_file_blocks(blocks_count: u64) -> u32 {
    match blocks_count {
        0..0x2_0000 => 32,
        0x2_0000..0x20_0000 => clamp_u32(blocks_count / 4096),
        _ => 512,
    }
}
