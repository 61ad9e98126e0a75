//! Default sizes of the journal and the orphan file.

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

/// Blocks for fast commits behind a journal of `journal_blocks` blocks.
pub fn fast_commit_blocks(journal_blocks: u64) -> u64 {
    journal_blocks / 64
}

/// mke2fs's size of the orphan file, in blocks.
pub fn default_orphan_file_blocks(blocks_count: u64) -> u32 {
    match blocks_count {
        0..0x2_0000 => 32,
        0x2_0000..0x20_0000 => clamp_u32(blocks_count / 4096),
        _ => 512,
    }
}
