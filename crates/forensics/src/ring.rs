//! The transactions that a log still has, also those that are home and not overwritten yet.
//!
//! Mechanism: one pass over all blocks of the circular part. An image never begins with the magic
//! of the log, so each block that does is a descriptor, revoke or commit block. Neighbours of one
//! number are a transaction. New transactions overwrite old ones from their front: what is left of
//! an old one begins at a descriptor or revoke block with all that follows it.
//!
//! Blocks that the device does not read are left out.
//!
//! Invariants: each block is read once, headers of what a replay writes twice, and at most
//! [`BLOCKS_MAX`]; memory is counted.
//! References: kernel documentation, `filesystems/ext4/journal.rst`.

use crate::log_blocks::{LogBlocks, window_bytes};
use crate::{Memory, Result};
use std::ops::Range;
use uext4_format::Tid;
use uext4_format::jbd2::{BlockType, CommitBlock, Header, Layout, Superblock, Tags};
use uext4_journal::Log;
use uext4_journal::recovery::read_superblock;
use uext4_num::{clamp_u32, u64_of};

/// Most blocks that are read: the longest log that mke2fs makes.
const BLOCKS_MAX: u32 = 10_240_000;
/// Memory for each header block, in bytes.
const HEADER_BYTES: u64 = 48;

/// A block of the log that is not an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderAt {
    pub(crate) at: u32,
    pub(crate) block_type: BlockType,
    pub(crate) tid: Tid,
}

/// Whether a replay writes a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// A replay writes it home.
    Live,
    /// It is home; its blocks are not overwritten yet.
    Old,
    /// Its end is missing or damaged, or it is behind such a one: a replay does not write it.
    Torn,
}

/// The commit block of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its position in the log.
    pub at: u32,
    /// Time of the commit, in seconds since 1970.
    pub seconds: u64,
    /// Nanoseconds of that time.
    pub nanoseconds: u32,
    /// Whether its checksum is right, as far as it has one of its own.
    pub is_sound: bool,
}

/// A transaction, or what is left of it.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its number.
    pub tid: Tid,
    /// Whether a replay writes it.
    pub state: TransactionState,
    /// Position of its first block that is left.
    pub first: u32,
    /// Its end.
    pub commit: Option<Commit>,
    /// Whether newer blocks have overwritten its start.
    pub is_cut: bool,
    pub(crate) headers: Range<usize>,
}

/// The log as a ring of transactions.
pub struct Ring {
    pub(crate) blocks: LogBlocks,
    pub(crate) superblock: Superblock,
    pub(crate) layout: Layout,
    /// In the order of the ring, from the start of a transaction.
    pub(crate) headers: Vec<HeaderAt>,
    transactions: Vec<Transaction>,
    pub(crate) end: u32,
}

impl Ring {
    /// Reads the headers of a log.
    ///
    /// # Errors
    /// Damage of its superblock; those of the device; too little memory.
    pub fn read(log: Log, block_size: u32, memory: &Memory) -> Result<Self> {
        let superblock = read_superblock(&log, block_size)?;
        memory.take(window_bytes(block_size))?;
        let most = superblock.first.saturating_add(BLOCKS_MAX);
        let mut ring = Self {
            layout: superblock.layout(),
            end: superblock.end().min(log.len_blocks).min(most),
            blocks: LogBlocks::new(log, block_size),
            superblock,
            headers: Vec::new(),
            transactions: Vec::new(),
        };
        ring.find_headers(memory)?;
        ring.find_transactions(memory)?;
        ring.mark_live();
        Ok(ring)
    }

    /// The transactions, the oldest first.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// The superblock of the log.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The block of the device where a block of the log is.
    pub fn device_block(&self, at: u32) -> Option<u64> {
        self.blocks.device_block(at)
    }

    fn find_headers(&mut self, memory: &Memory) -> Result<()> {
        for at in self.superblock.first..self.end {
            // A block that the device does not read is none.
            let header = self.blocks.read(at).ok().and_then(Header::parse);
            let Some(header) = header else {
                continue;
            };
            let is_part = matches!(
                header.block_type,
                BlockType::Descriptor | BlockType::Revoke | BlockType::Commit
            );
            if is_part {
                memory.take(HEADER_BYTES)?;
                self.headers.push(HeaderAt {
                    at,
                    block_type: header.block_type,
                    tid: header.sequence,
                });
            }
        }
        self.rotate();
        Ok(())
    }

    /// Begins with the start of a transaction, if one goes around the end of the log.
    fn rotate(&mut self) {
        let (Some(first), Some(last)) = (self.headers.first(), self.headers.last()) else {
            return;
        };
        let goes_on = last.tid == first.tid && last.block_type != BlockType::Commit;
        if goes_on {
            let tid = last.tid;
            let wrapped = self.headers.iter().rev().take_while(|h| h.tid == tid);
            let len = wrapped.count();
            self.headers.rotate_right(len);
        }
    }

    fn find_transactions(&mut self, memory: &Memory) -> Result<()> {
        let mut start = 0;
        // The ring goes on from its last block to its first one.
        let last = self.headers.last();
        let last = last.filter(|last| last.block_type == BlockType::Commit);
        let mut before = last.map(|last| self.after(last.at));
        while let Some(first) = self.headers.get(start).copied() {
            let rest = self.headers.get(start..).unwrap_or_default();
            let mut len = 0_usize;
            for header in rest.iter().take_while(|header| header.tid == first.tid) {
                len = len.saturating_add(1);
                if header.block_type == BlockType::Commit {
                    break;
                }
            }
            let headers = start..start.saturating_add(len);
            memory.take(u64_of(size_of::<Transaction>()))?;
            let is_cut = before != Some(first.at) && first.at != self.superblock.first;
            let transaction = self.transaction(first, headers.clone(), is_cut)?;
            before = transaction.commit.map(|commit| self.after(commit.at));
            self.transactions.push(transaction);
            start = headers.end;
        }
        let newest = self.superblock.sequence.0;
        self.transactions
            .sort_by_key(|one| one.tid.0.wrapping_sub(newest).cast_signed());
        Ok(())
    }

    fn transaction(
        &mut self,
        first: HeaderAt,
        headers: Range<usize>,
        is_cut: bool,
    ) -> Result<Transaction> {
        let last = headers.end.checked_sub(1);
        let last = last.and_then(|last| self.headers.get(last)).copied();
        let commit = match last {
            Some(last) if last.block_type == BlockType::Commit => {
                let layout = self.layout;
                let bytes = self.blocks.read(last.at)?;
                let block = CommitBlock::parse(bytes);
                Some(Commit {
                    at: last.at,
                    seconds: block.seconds,
                    nanoseconds: block.nanoseconds,
                    is_sound: CommitBlock::verify(&layout, bytes),
                })
            }
            _ => None,
        };
        Ok(Transaction {
            tid: first.tid,
            state: match commit {
                Some(commit) if commit.is_sound => TransactionState::Old,
                _ => TransactionState::Torn,
            },
            first: first.at,
            commit,
            is_cut,
            headers,
        })
    }

    /// The position behind a block of the circular part.
    pub(crate) fn after(&self, at: u32) -> u32 {
        let next = at.saturating_add(1);
        if next >= self.superblock.end() {
            self.superblock.first
        } else {
            next
        }
    }

    /// The position `count` blocks behind another one; `None` if it goes around more than once.
    pub(crate) fn skip(&self, at: u32, count: u32) -> Option<u32> {
        let (first, end) = (self.superblock.first, self.superblock.end());
        let len = end.checked_sub(first).filter(|len| count < *len)?;
        let next = at.checked_add(count)?;
        Some(if next >= end {
            next.saturating_sub(len)
        } else {
            next
        })
    }

    /// Marks the transactions that a replay writes: from the tail of the log on, as long as each
    /// one begins behind the one before it, has its end and is sealed. What comes behind is not
    /// written.
    fn mark_live(&mut self) {
        let (mut at, mut tid) = (self.superblock.start, self.superblock.sequence);
        if at == 0 {
            return;
        }
        for index in 0..self.transactions.len() {
            let Some(one) = self.transactions.get(index) else {
                break;
            };
            if one.tid != tid || one.first != at {
                continue;
            }
            let (commit, headers) = (one.commit, one.headers.clone());
            let commit = commit.filter(|commit| commit.is_sound && self.is_sealed(headers));
            let Some(commit) = commit else {
                break;
            };
            (at, tid) = (self.after(commit.at), tid.next());
            if let Some(one) = self.transactions.get_mut(index) {
                one.state = TransactionState::Live;
            }
        }
        for one in &mut self.transactions {
            if !tid.is_after(one.tid) {
                one.state = TransactionState::Torn;
            }
        }
    }

    /// Whether the descriptor and revoke blocks among these headers have the right checksum.
    fn is_sealed(&mut self, headers: Range<usize>) -> bool {
        let layout = self.layout;
        let headers = self.headers.get(headers).unwrap_or_default();
        headers.iter().all(|header| {
            header.block_type == BlockType::Commit
                || (self.blocks.read(header.at)).is_ok_and(|bytes| layout.verify_seal(bytes))
        })
    }

    /// Blocks from one position to another, forwards.
    pub(crate) fn distance(&self, from: u32, to: u32) -> u32 {
        let len = self.superblock.end().saturating_sub(self.superblock.first);
        to.checked_sub(from)
            .unwrap_or_else(|| to.saturating_add(len).saturating_sub(from))
    }

    /// Tags of a descriptor block.
    pub(crate) fn tags(&self, bytes: &[u8]) -> u32 {
        clamp_u32(Tags::new(&self.layout, bytes).count())
    }
}
