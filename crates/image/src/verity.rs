//! Hash tree of dm-verity: version 1, SHA-256, blocks of 4 KiB for data and hashes.
//!
//! The digest of a block is SHA-256 of the salt and the block. 128 digests fill a hash block; the
//! last block of a level ends with zeroes. The root hash is the digest of the one block of the
//! highest level.
//!
//! Layout: the superblock in a block of its own, then the levels, the highest one first.
//!
//! Threads hash the lowest level, each a range of hash blocks; higher levels have 1/128 of the work
//! and follow at the end. In memory is the second level, 1/16384 of the data.
//!
//! References: the wiki of cryptsetup, "DMVerity"; the kernel's documentation of dm-verity.

use std::ops::Range;

use sha2::{Digest, Sha256};
use uext4_device::BlockDevice;
use uext4_num::{clamp_u16, clamp_usize, u64_of};

use crate::progress::Meter;
use crate::{Error, Result};

/// Bytes of a block, of data and of hashes.
pub(crate) const BLOCK: u64 = 4096;
const BLOCK_BYTES: usize = 4096;
const DIGEST_BYTES: usize = 32;
/// Digests in a hash block.
const FAN_OUT: u64 = 128;
/// Bytes of data below a hash block of the lowest level.
const LEAF_BYTES: u64 = BLOCK * FAN_OUT;
/// Hash blocks that a thread makes between two looks at the meter.
const ROUND: usize = 16;

type Hash = [u8; DIGEST_BYTES];

/// What is hashed, and how.
pub(crate) struct Job<'a> {
    /// Holds the data from byte 0 on.
    pub(crate) data: &'a dyn BlockDevice,
    /// Bytes of the data: whole blocks.
    pub(crate) data_bytes: u64,
    /// Takes superblock and tree.
    pub(crate) out: &'a dyn BlockDevice,
    /// Where the superblock goes in `out`, in bytes: whole blocks.
    pub(crate) at: u64,
    pub(crate) salt: &'a [u8],
    pub(crate) uuid: [u8; 16],
}

/// First hash blocks and lengths of the levels in blocks from the superblock on, the lowest level
/// first.
fn levels(data_blocks: u64) -> Vec<Range<u64>> {
    let mut lengths = vec![data_blocks.div_ceil(FAN_OUT)];
    while lengths[lengths.len() - 1] > 1 {
        lengths.push(lengths[lengths.len() - 1].div_ceil(FAN_OUT));
    }
    let mut next = 1;
    let mut levels: Vec<Range<u64>> = Vec::new();
    for length in lengths.iter().rev() {
        levels.push(next..next + length);
        next += length;
    }
    levels.reverse();
    levels
}

/// Bytes of superblock and tree for data of this size.
///
/// # Errors
/// Data that are no whole blocks.
pub(crate) fn tree_bytes(data_bytes: u64) -> Result<u64> {
    if !data_bytes.is_multiple_of(BLOCK) || data_bytes == 0 {
        return Err(Error::Refused {
            problem: "a hash tree has whole blocks of 4 KiB",
            advice: "use a size that is a multiple of 4 KiB",
        });
    }
    Ok(levels(data_bytes / BLOCK)[0].end * BLOCK)
}

impl Job<'_> {
    /// Writes superblock and tree, and returns the root hash.
    ///
    /// # Errors
    /// Of the devices, or cancelled.
    pub(crate) fn run(&self, meter: &mut Meter<'_>) -> Result<Hash> {
        let levels = levels(self.data_bytes / BLOCK);
        self.out.write_at(self.at, &self.superblock())?;
        let mut digests = self.lowest(levels[0].clone(), meter)?;
        let mut salted = Sha256::new();
        salted.update(self.salt);
        for level in &levels[1..] {
            let mut blocks = digests.concat();
            blocks.resize(clamp_usize((level.end - level.start) * BLOCK), 0);
            self.out.write_at(self.at + level.start * BLOCK, &blocks)?;
            let hashes = blocks
                .chunks(BLOCK_BYTES)
                .map(|block| digest(&salted, block));
            digests = hashes.collect();
        }
        Ok(digests[0])
    }

    /// Makes the lowest level; returns the digests of its blocks.
    fn lowest(&self, level: Range<u64>, meter: &mut Meter<'_>) -> Result<Vec<Hash>> {
        let mut salted = Sha256::new();
        salted.update(self.salt);
        let leaves = Leaves {
            job: self,
            first: level.start,
            zero: digest(&salted, &[0; BLOCK_BYTES]),
            salted,
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut digests = vec![[0; DIGEST_BYTES]; clamp_usize(level.end - level.start)];
        let mut done = 0;
        for round in digests.chunks_mut(ROUND * threads) {
            let bytes = u64_of(round.len()) * LEAF_BYTES;
            std::thread::scope(|scope| {
                let parts = (0..).zip(round.chunks_mut(ROUND));
                let hashers = parts.map(|(part, digests)| {
                    let leaves = &leaves;
                    let nr = done + part * u64_of(ROUND);
                    scope.spawn(move || leaves.make(nr, digests))
                });
                let hashers: Vec<_> = hashers.collect();
                hashers
                    .into_iter()
                    .try_for_each(|hasher| match hasher.join() {
                        Ok(made) => made,
                        Err(panic) => std::panic::resume_unwind(panic),
                    })
            })?;
            let before = done * LEAF_BYTES;
            done += u64_of(round.len());
            meter.add(bytes.min(self.data_bytes - before))?;
        }
        Ok(digests)
    }

    fn superblock(&self) -> Vec<u8> {
        let mut bytes = b"verity\0\0".to_vec();
        bytes.extend(1u32.to_le_bytes()); // version of the superblock
        bytes.extend(1u32.to_le_bytes()); // the salt comes first
        bytes.extend(self.uuid);
        bytes.extend(b"sha256");
        bytes.resize(64, 0);
        for _data_and_hash in 0..2 {
            bytes.extend(4096u32.to_le_bytes());
        }
        bytes.extend((self.data_bytes / BLOCK).to_le_bytes());
        bytes.extend(clamp_u16(self.salt.len()).to_le_bytes());
        bytes.resize(88, 0);
        bytes.extend(self.salt);
        bytes.resize(BLOCK_BYTES, 0);
        bytes
    }
}

/// Hash blocks of the lowest level.
struct Leaves<'a> {
    job: &'a Job<'a>,
    /// The first of them, in blocks from the superblock on.
    first: u64,
    /// The state of the hash behind the salt.
    salted: Sha256,
    /// The digest of a block of zeroes.
    zero: Hash,
}

impl Leaves<'_> {
    /// Makes the blocks from `nr` on, and their digests.
    fn make(&self, nr: u64, digests: &mut [Hash]) -> Result<()> {
        let mut data = vec![0; clamp_usize(LEAF_BYTES)];
        let mut made = Vec::with_capacity(digests.len() * BLOCK_BYTES);
        for (nr, of_block) in (nr..).zip(digests.iter_mut()) {
            let at = nr * LEAF_BYTES;
            let len = LEAF_BYTES.min(self.job.data_bytes - at);
            let data = &mut data[..clamp_usize(len)];
            self.job.data.read_at(at, data)?;
            let start = made.len();
            for block in data.chunks(BLOCK_BYTES) {
                made.extend(self.digest(block));
            }
            made.resize(start + BLOCK_BYTES, 0);
            *of_block = digest(&self.salted, &made[start..]);
        }
        let at = self.job.at + (self.first + nr) * BLOCK;
        Ok(self.job.out.write_at(at, &made)?)
    }

    fn digest(&self, block: &[u8]) -> Hash {
        if block.iter().all(|byte| *byte == 0) {
            self.zero
        } else {
            digest(&self.salted, block)
        }
    }
}

fn digest(salted: &Sha256, block: &[u8]) -> Hash {
    let mut hash = salted.clone();
    hash.update(block);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_comes_first() {
        let one = 1..2;
        assert_eq!(levels(1), std::slice::from_ref(&one));
        assert_eq!(levels(128), [one]);
        assert_eq!(levels(129), [2..4, 1..2]);
        assert_eq!(levels(128 * 128 + 1), [4..133, 2..4, 1..2]);
        assert_eq!(tree_bytes(4096 * 129).unwrap(), 4 * 4096);
        assert!(tree_bytes(5000).is_err() && tree_bytes(0).is_err());
    }
}
