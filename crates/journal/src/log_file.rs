//! The log as numbered blocks on its device.

use crate::home::Barrier;
use crate::{Error, Log};
use uext4_format::jbd2::{SUPERBLOCK_BYTES, Superblock};
use uext4_format::{Corrupt, CorruptKind, DamageLocation};
use uext4_num::{clamp_u32, u64_of, usize_of};

/// Blocks in one vectored write.
const MAX_ACCESS_BLOCKS: usize = 256;

/// Reads and writes log blocks.
pub(crate) struct LogFile {
    log: Log,
    block_size: usize,
    barrier: Barrier,
}

impl LogFile {
    pub(crate) fn new(log: &Log, block_size: u32) -> Self {
        Self {
            log: log.clone(),
            block_size: usize_of(block_size),
            barrier: Barrier::new(&*log.device),
        }
    }

    /// Device offset of a log block in bytes, and the contiguous blocks from it on (at least 1).
    fn locate(&self, block: u32) -> Result<(u64, usize), Error> {
        let runs = &self.log.runs;
        let after = runs.partition_point(|run| run.log_start <= block);
        let run = after.checked_sub(1).and_then(|i| runs.get(i));
        let found = run.and_then(|run| {
            let into = block - run.log_start;
            let left = run.len.checked_sub(into).filter(|left| *left > 0)?;
            let at = run.device_block.checked_add(u64::from(into))?;
            Some((at.checked_mul(u64_of(self.block_size))?, usize_of(left)))
        });
        found
            .filter(|_| block < self.log.len_blocks)
            .ok_or_else(|| {
                Corrupt::new(
                    DamageLocation::JournalBlock(block),
                    "journal",
                    CorruptKind::Unmapped,
                )
                .into()
            })
    }

    /// Fills `out` (whole blocks) from `block` on.
    pub(crate) fn read(&self, mut block: u32, mut out: &mut [u8]) -> Result<(), Error> {
        while !out.is_empty() {
            let (at, blocks) = self.locate(block)?;
            let bytes = out.len().min(blocks * self.block_size);
            let (now, rest) = out.split_at_mut(bytes);
            self.log.device.read_at(at, now)?;
            out = rest;
            block += clamp_u32(bytes / self.block_size);
        }
        Ok(())
    }

    /// Writes `blocks` from `block` on, neighbours in one access.
    pub(crate) fn write(&self, mut block: u32, mut blocks: &[&[u8]]) -> Result<(), Error> {
        while !blocks.is_empty() {
            let (at, contiguous) = self.locate(block)?;
            let n = blocks.len().min(contiguous).min(MAX_ACCESS_BLOCKS);
            let (now, rest) = blocks.split_at(n);
            self.log.device.write_vectored_at(at, now)?;
            blocks = rest;
            block += clamp_u32(n);
        }
        Ok(())
    }

    /// Writes one block, durably. See [`Barrier::write_durable`].
    pub(crate) fn write_durable(&self, block: u32, bytes: &[u8]) -> Result<(), Error> {
        let (at, _) = self.locate(block)?;
        let device = &*self.log.device;
        self.barrier.write_durable(device, at, bytes)
    }

    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.barrier.flush(&*self.log.device)
    }

    /// Reads, validates and compares the superblock with this log.
    pub(crate) fn read_superblock(&self) -> Result<Superblock, Error> {
        let mut block = vec![0; self.block_size];
        self.read(self.log.superblock, &mut block)?;
        let superblock = Superblock::parse(&block)?;
        let (found, expected) = (superblock.block_size, clamp_u32(self.block_size));
        let (blocks, file) = (superblock.max_len_blocks, self.log.len_blocks);
        let problem = if found != expected {
            Some(CorruptKind::OtherBlockSize { found, expected })
        } else if blocks > file {
            Some(CorruptKind::LongerThanFile { blocks, file })
        } else {
            None
        };
        if let Some(problem) = problem {
            let place = DamageLocation::JournalBlock(self.log.superblock);
            return Err(Corrupt::new(place, "journal superblock", problem).into());
        }
        match superblock.unknown_incompat() {
            0 => Ok(superblock),
            bits => Err(Error::UnknownFeatures { bits }),
        }
    }

    /// Writes the superblock; all fields that change are in one sector.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> Result<(), Error> {
        let bytes: [u8; SUPERBLOCK_BYTES] = superblock.encode();
        let (at, _) = self.locate(self.log.superblock)?;
        Ok(self.log.device.write_at(at, &bytes)?)
    }
}
