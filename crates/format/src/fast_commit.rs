//! Fast commits: small logical records in an area after the log's transactions.
//!
//! Layout: the area starts with a HEAD record (features, transaction number). Each fast commit
//! starts on a block and ends with a TAIL (transaction number, checksum), which covers the rest of
//! its last block.
//!
//! A record is a tag, the length of its value, and the value; records do not cross blocks, a PAD
//! fills the end of a block. All fast commits of an area belong to one transaction: the one that
//! comes after the last complete transaction of the log.
//!
//! Invariants: only records closed by a matching TAIL count; everything after the first invalid
//! record is stale or torn. Memory is bounded by the blocks that were pushed.
//! References: kernel documentation, `filesystems/ext4/journal.rst`, "fast commits".

use crate::bytes::{get_u16, get_u32, rest, upto};
use crate::dirent::NAME_MAX;
use crate::extent::Extent;
use crate::{GOOD_OLD_INODE_BYTES, InodeNr, LogicalBlock, Tid, crc32c};

mod encode;
#[cfg(test)]
mod tests;

pub use encode::{Turn, blocks_max, encode, without_removed_ranges};

const TAG_ADD_RANGE: u16 = 1;
const TAG_DEL_RANGE: u16 = 2;
const TAG_CREATE: u16 = 3;
const TAG_LINK: u16 = 4;
const TAG_UNLINK: u16 = 5;
const TAG_INODE: u16 = 6;
const TAG_PAD: u16 = 7;
const TAG_TAIL: u16 = 8;
const TAG_HEAD: u16 = 9;

/// Bytes of tag and length.
const TAG_BYTES: usize = 4;

/// Operand of the records for names: one directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dentry {
    /// The directory that has or had the entry.
    pub parent: InodeNr,
    /// The inode that the name refers to.
    pub inode: InodeNr,
    /// The name, 1 to 255 bytes.
    pub name: Box<[u8]>,
}

/// The operation of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The inode maps this extent.
    AddRange {
        /// Inode whose extent map gets the extent.
        inode: InodeNr,
        /// The mapped extent; its length is unchecked.
        extent: Extent,
    },
    /// The inode no longer maps this range.
    DelRange {
        /// Inode whose extent map loses the range.
        inode: InodeNr,
        /// First logical block of the range.
        start: LogicalBlock,
        /// Length of the range in blocks; unchecked.
        len_blocks: u32,
    },
    /// A new inode got its first name.
    Create(Dentry),
    /// An inode got another name.
    Link(Dentry),
    /// The entry was removed from its directory.
    Unlink(Dentry),
    /// The inode's new bytes: at least [`GOOD_OLD_INODE_BYTES`], at most the inode size.
    Inode {
        /// Number of the inode.
        inode: InodeNr,
        /// Its bytes as in the inode table; not checksummed.
        raw: Box<[u8]>,
    },
}

/// Whether fast commits may start in this block, the first of an area: it begins with a HEAD.
pub fn begins_area(block: &[u8]) -> bool {
    get_u16(block, 0) == TAG_HEAD
}

/// The transaction that the fast commits of an area belong to, by its first block.
pub fn head_tid(block: &[u8]) -> Option<Tid> {
    let has_numbers = block.len() >= TAG_BYTES + 8;
    (begins_area(block) && has_numbers).then(|| Tid(get_u32(block, TAG_BYTES + 4)))
}

/// Reads an area of fast commits block by block.
pub struct Scan {
    tid: Tid,
    inode_size: usize,
    crc: u32,
    has_head: bool,
    pending: Vec<Record>,
    committed: Vec<Record>,
    commits: u32,
}

/// Whether more of the area may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Later blocks of the area may count: the scan expects the next one.
    GoesOn,
    /// The rest is stale or torn.
    Ends,
}

enum Step {
    Next,
    Ends,
}

impl Scan {
    /// An area whose fast commits must belong to `tid`, on a file system with inodes of
    /// `inode_size` bytes.
    pub fn new(tid: Tid, inode_size: u16) -> Self {
        Self {
            tid,
            inode_size: inode_size.into(),
            crc: 0,
            has_head: false,
            pending: Vec::new(),
            committed: Vec::new(),
            commits: 0,
        }
    }

    /// Takes the next block of the area.
    pub fn push(&mut self, block: &[u8]) -> Verdict {
        let mut left = block;
        while left.len() >= TAG_BYTES {
            let end = usize::from(get_u16(left, 2)).saturating_add(TAG_BYTES);
            let Some((record, others)) = left.split_at_checked(end) else {
                return Verdict::Ends;
            };
            match self.step(get_u16(record, 0), record) {
                Step::Next => left = others,
                Step::Ends => return Verdict::Ends,
            }
        }
        Verdict::GoesOn
    }

    /// Number of complete fast commits.
    pub fn commits(&self) -> u32 {
        self.commits
    }

    /// The records of all complete fast commits, in log order.
    pub fn into_records(self) -> Vec<Record> {
        self.committed
    }

    fn step(&mut self, tag: u16, record: &[u8]) -> Step {
        let value = rest(record, TAG_BYTES);
        match tag {
            TAG_HEAD => self.open(record),
            _ if !self.has_head => Step::Ends,
            TAG_TAIL => self.close(record),
            TAG_PAD => self.sum(record),
            _ => match parse(tag, value, self.inode_size) {
                Some(parsed) => {
                    self.pending.push(parsed);
                    self.sum(record)
                }
                None => Step::Ends,
            },
        }
    }

    fn sum(&mut self, bytes: &[u8]) -> Step {
        self.crc = crc32c(self.crc, bytes);
        Step::Next
    }

    fn open(&mut self, record: &[u8]) -> Step {
        let fits = record.len() == TAG_BYTES + 8;
        let no_features = fits && get_u32(record, TAG_BYTES) == 0;
        if !no_features || get_u32(record, TAG_BYTES + 4) != self.tid.0 {
            return Step::Ends;
        }
        self.has_head = true;
        self.sum(record)
    }

    fn close(&mut self, record: &[u8]) -> Step {
        if record.len() < TAG_BYTES + 8 {
            return Step::Ends;
        }
        self.sum(upto(record, TAG_BYTES + 4));
        let matches =
            get_u32(record, TAG_BYTES) == self.tid.0 && get_u32(record, TAG_BYTES + 4) == self.crc;
        if !matches {
            return Step::Ends;
        }
        self.crc = 0;
        self.commits = self.commits.saturating_add(1);
        self.committed.append(&mut self.pending);
        Step::Next
    }
}

fn parse(tag: u16, value: &[u8], inode_size: usize) -> Option<Record> {
    match tag {
        TAG_ADD_RANGE => rest(value, 4)
            .try_into()
            .ok()
            .map(|extent| Record::AddRange {
                inode: InodeNr(get_u32(value, 0)),
                extent: Extent::decode(extent),
            }),
        TAG_DEL_RANGE => (value.len() == 12).then(|| Record::DelRange {
            inode: InodeNr(get_u32(value, 0)),
            start: LogicalBlock(get_u32(value, 4)),
            len_blocks: get_u32(value, 8),
        }),
        TAG_CREATE => dentry(value).map(Record::Create),
        TAG_LINK => dentry(value).map(Record::Link),
        TAG_UNLINK => dentry(value).map(Record::Unlink),
        TAG_INODE => inode(value, inode_size),
        _ => None,
    }
}

fn dentry(value: &[u8]) -> Option<Dentry> {
    let name = value.get(8..)?;
    (1..=NAME_MAX).contains(&name.len()).then(|| Dentry {
        parent: InodeNr(get_u32(value, 0)),
        inode: InodeNr(get_u32(value, 4)),
        name: name.into(),
    })
}

fn inode(value: &[u8], inode_size: usize) -> Option<Record> {
    let raw = value.get(4..)?;
    let fits = (GOOD_OLD_INODE_BYTES..=inode_size).contains(&raw.len());
    fits.then(|| Record::Inode {
        inode: InodeNr(get_u32(value, 0)),
        raw: raw.into(),
    })
}
