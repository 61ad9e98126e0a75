//! Encoder of a fast commit.
//!
//! Layout: no record crosses a block, and behind each there is room for the tag of a PAD. A block
//! that lacks room for the next record ends with a PAD; the TAIL covers the rest of the last block.
//!
//! Invariant: a torn write of the first fast commit of an area leaves none or all of it. Linux and
//! e2fsck refuse an area whose first fast commit has a matching HEAD and no matching TAIL; later
//! ones they ignore. So HEAD and TAIL of the first one are in one sector: if its records do not fit
//! there as well, they follow as a second one.

use super::{
    Dentry, Record, TAG_ADD_RANGE, TAG_BYTES, TAG_CREATE, TAG_DEL_RANGE, TAG_HEAD, TAG_INODE,
    TAG_LINK, TAG_PAD, TAG_TAIL, TAG_UNLINK,
};
use crate::bytes::{get_u16, part, put_u16, put_u32, rest};
use crate::{Tid, crc32c};
use uext4_num::clamp_u16;

/// Bytes that a device writes whole.
const SECTOR_BYTES: usize = 512;
const HEAD_BYTES: usize = TAG_BYTES + 8;
/// Bytes of a TAIL up to its checksum.
const TAIL_BYTES: usize = TAG_BYTES + 8;

/// Whether the area has fast commits of the transaction already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// None: this one starts the area.
    First,
    /// Others of the same transaction precede it: no HEAD is written.
    Later,
}

/// The blocks of a fast commit of `tid` with these records.
pub fn encode(block_size: usize, tid: Tid, turn: Turn, records: &[Record]) -> Vec<u8> {
    let mut writer = Writer {
        block_size,
        out: Vec::with_capacity(block_size),
        start: 0,
    };
    if turn == Turn::First {
        writer.put(TAG_HEAD, &[&0u32.to_le_bytes(), &tid.0.to_le_bytes()]);
        let bytes: usize = records.iter().map(Record::encoded_bytes).sum();
        if framed(bytes) > SECTOR_BYTES {
            writer.end(tid);
        }
    }
    records.iter().for_each(|record| writer.push(record));
    writer.end(tid);
    writer.out
}

/// An upper bound on the blocks of a fast commit with records of `bytes` bytes in all, the longest
/// of which has `longest_bytes`.
pub fn blocks_max(block_size: usize, bytes: usize, longest_bytes: usize) -> usize {
    let unused_max = longest_bytes.max(TAIL_BYTES).saturating_add(TAG_BYTES);
    let used_min = block_size.saturating_sub(unused_max).max(1);
    // One more for a first commit without records.
    framed(bytes).div_ceil(used_min).saturating_add(1)
}

/// Bytes of records with HEAD and TAIL.
fn framed(bytes: usize) -> usize {
    bytes.saturating_add(HEAD_BYTES).saturating_add(TAIL_BYTES)
}

/// Whole fast commits with a PAD in place of each removed range, as a faulty writer would leave
/// them: for tests of a judge. `None` for other bytes.
pub fn without_removed_ranges(blocks: &[u8]) -> Option<Vec<u8>> {
    let mut out = blocks.to_vec();
    let (mut start, mut at) = (0, 0);
    while at < out.len() {
        let record = out.get(at..)?;
        let len = usize::from(get_u16(record, 2)).checked_add(TAG_BYTES)?;
        let end = at.checked_add(len).filter(|end| *end <= out.len())?;
        match get_u16(record, 0) {
            TAG_DEL_RANGE => put_u16(&mut out, at, TAG_PAD),
            TAG_TAIL => {
                let crc_at = at.checked_add(TAG_BYTES + 4)?;
                let crc = crc32c(0, part(&out, start..crc_at));
                put_u32(&mut out, crc_at, crc);
                start = end;
            }
            TAG_ADD_RANGE..=TAG_HEAD => {}
            _ => return None,
        }
        at = end;
    }
    (start == at).then_some(out)
}

impl Record {
    /// Bytes of the record with its tag.
    pub fn encoded_bytes(&self) -> usize {
        let value = match self {
            Self::AddRange { .. } => 16,
            Self::DelRange { .. } => 12,
            Self::Create(dentry) | Self::Link(dentry) | Self::Unlink(dentry) => {
                dentry.name.len().saturating_add(8)
            }
            Self::Inode { raw, .. } => raw.len().saturating_add(4),
        };
        value.saturating_add(TAG_BYTES)
    }
}

struct Writer {
    block_size: usize,
    out: Vec<u8>,
    /// Where the present fast commit starts.
    start: usize,
}

impl Writer {
    /// Bytes left in the present block.
    fn room(&self) -> usize {
        let used = self.out.len().checked_rem(self.block_size).unwrap_or(0);
        self.block_size.saturating_sub(used)
    }

    fn make_room(&mut self, bytes: usize) {
        if bytes.saturating_add(TAG_BYTES) > self.room() {
            let pad = vec![0; self.room().saturating_sub(TAG_BYTES)];
            self.put(TAG_PAD, &[&pad]);
        }
    }

    fn put(&mut self, tag: u16, value: &[&[u8]]) {
        let len: usize = value.iter().map(|part| part.len()).sum();
        self.out.extend(tag.to_le_bytes());
        self.out.extend(clamp_u16(len).to_le_bytes());
        value.iter().for_each(|part| self.out.extend(*part));
    }

    fn push(&mut self, record: &Record) {
        self.make_room(record.encoded_bytes());
        match record {
            Record::AddRange { inode, extent } => {
                let extent = extent.encode();
                self.put(TAG_ADD_RANGE, &[&inode.0.to_le_bytes(), &extent]);
            }
            Record::DelRange {
                inode,
                start,
                len_blocks,
            } => {
                let (start, len) = (start.0.to_le_bytes(), len_blocks.to_le_bytes());
                self.put(TAG_DEL_RANGE, &[&inode.0.to_le_bytes(), &start, &len]);
            }
            Record::Create(dentry) => self.put_dentry(TAG_CREATE, dentry),
            Record::Link(dentry) => self.put_dentry(TAG_LINK, dentry),
            Record::Unlink(dentry) => self.put_dentry(TAG_UNLINK, dentry),
            Record::Inode { inode, raw } => {
                self.put(TAG_INODE, &[&inode.0.to_le_bytes(), raw]);
            }
        }
    }

    fn put_dentry(&mut self, tag: u16, dentry: &Dentry) {
        let (parent, inode) = (dentry.parent.0.to_le_bytes(), dentry.inode.0.to_le_bytes());
        self.put(tag, &[&parent, &inode, &dentry.name]);
    }

    fn end(&mut self, tid: Tid) {
        self.make_room(TAIL_BYTES);
        let at = self.out.len();
        let end = at.saturating_add(self.room());
        self.put(TAG_TAIL, &[&tid.0.to_le_bytes()]);
        let covered = end.saturating_sub(at).saturating_sub(TAG_BYTES);
        put_u16(&mut self.out, at.saturating_add(2), clamp_u16(covered));
        let crc = crc32c(0, rest(&self.out, self.start));
        self.out.extend(crc.to_le_bytes());
        self.out.resize(end, 0);
        self.start = end;
    }
}
