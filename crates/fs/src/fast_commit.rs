//! Records of the running transaction, for a fast commit.
//!
//! As in Linux: the changed ranges of a file, then its inode; a directory has no record. A range is
//! recorded as it is mapped now, so that the order of its changes does not matter. An inode
//! without a name has none: a crash frees it.
//!
//! Locking: no handle is open meanwhile, so no map changes; inode states are locked one by one.

use crate::inode::{Inode, InodeState};
use crate::map::{self, LOGICAL_END, Mapping};
use crate::{Error, Fs, Result};
use std::ops::Range;
use uext4_format::extent::Extent;
use uext4_format::fast_commit::Record;
use uext4_format::{FileType, InodeFlags, InodeNr, LogicalBlock, Tid};
use uext4_journal::{FullReason, Object, Stamp};
use uext4_num::{clamp_u16, clamp_u32};

/// Most inodes of a fast commit: bounds the time for which no handle may start.
const INODES_MAX: usize = 1024;
/// Most records of a fast commit.
const RECORDS_MAX: usize = 4096;

/// Records, or why there are none.
type Recorded<T> = std::result::Result<T, FullReason>;

/// The full commit does not need what failed, or finds the error again.
fn failed(_error: Error) -> FullReason {
    FullReason::Other
}

impl Fs {
    /// Makes a change of an inode durable, by a fast commit where possible.
    pub(crate) fn make_durable(&self, change: Stamp) -> Result<()> {
        let mut make = |_tid: Tid, keys: Vec<u64>| self.records(keys);
        Ok(self.journal.make_durable(change, &mut make)?)
    }

    fn records(&self, mut keys: Vec<u64>) -> Recorded<Vec<Record>> {
        keys.sort_unstable();
        keys.dedup();
        if keys.len() > INODES_MAX {
            return Err(FullReason::TooMany);
        }
        let mut records = Vec::new();
        for key in keys {
            let inode = self.load_inode(InodeNr(clamp_u32(key))).map_err(failed)?;
            self.record_inode(&inode, &mut records)?;
        }
        Ok(records)
    }

    fn record_inode(&self, inode: &Inode, records: &mut Vec<Record>) -> Recorded<()> {
        let mut state = inode.live().write_unlogged();
        let changed = state.take_changed();
        let is_directory = state.disk.file_type() == Some(FileType::Directory);
        if is_directory || state.disk.links == 0 {
            return Ok(());
        }
        if self.hidden.contains(inode.nr()) {
            return Err(FullReason::Other);
        }
        if state.disk.flags.contains(InodeFlags::INLINE_DATA) {
            return Err(FullReason::Layout);
        }
        for range in changed.iter() {
            if !map::has_extents(&state) {
                return Err(FullReason::Layout);
            }
            self.record_range(&state, range, records)?;
        }
        records.push(Record::Inode {
            inode: inode.nr(),
            raw: state.record_bytes(),
        });
        Ok(())
    }

    fn record_range(
        &self,
        state: &InodeState,
        range: Range<u64>,
        records: &mut Vec<Record>,
    ) -> Recorded<()> {
        let (mut at, end) = (range.start, range.end.min(LOGICAL_END));
        while at < end {
            if records.len() >= RECORDS_MAX {
                return Err(FullReason::TooMany);
            }
            let logical = LogicalBlock(clamp_u32(at));
            let max_blocks = clamp_u32(end - at);
            let mapping = map::lookup(self, state, logical, max_blocks).map_err(failed)?;
            let record = record_of(state.nr(), logical, mapping);
            at += match &record {
                Record::AddRange { extent, .. } => u64::from(extent.len),
                _ => u64::from(mapping.len_blocks()),
            };
            records.push(record);
        }
        Ok(())
    }
}

/// The record of a mapping, or of its front if it is longer than an extent.
fn record_of(inode: InodeNr, logical: LogicalBlock, mapping: Mapping) -> Record {
    match mapping {
        Mapping::Hole { len_blocks } => Record::DelRange {
            inode,
            start: logical,
            len_blocks,
        },
        Mapping::Mapped {
            start,
            len_blocks,
            state,
        } => {
            let len = clamp_u16(len_blocks).min(Extent::max_len_blocks(state));
            let extent = Extent {
                logical,
                start,
                len,
                state,
            };
            Record::AddRange { inode, extent }
        }
    }
}
