//! Records of the running transaction, for a fast commit.
//!
//! First the changes of names in their order, then the changed ranges of each file and its inode,
//! as in Linux. A directory has no record. A range is recorded as it is mapped now, so that the
//! order of its changes does not matter. An inode without a name has no record: a crash frees it.
//!
//! A new inode has a record before its first name, since Linux reads its type. A file has a record
//! without data before its last name is removed: e2fsck does not count links, but it frees an empty
//! file without a name. Linux frees it at the removal.
//!
//! Layout: [`recordable`] lists what may be recorded.
//!
//! Locking: no handle is open meanwhile, so no map changes; inode states are locked one by one.

mod recordable;

use crate::parts::map::{self, LOGICAL_END, Mapping};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::name_log::{NameChange, NotedName};
use crate::types::error::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use uext4_format::extent::Extent;
use uext4_format::fast_commit::Record;
use uext4_format::superblock::SUPERBLOCK_OFFSET;
use uext4_format::{BlockNr, FileType, InodeFlags, InodeNr, LogicalBlock, Tid};
use uext4_journal::{FullReason, Handle, Object, Stamp};
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
        if !self.base.journal.writes_fast_commits() {
            return Ok(self.base.journal.wait_durable(change.tid)?);
        }
        let (inodes, _) = self.inodes.place(&self.space, InodeNr::JOURNAL)?;
        Ok(self.base.journal.make_durable(
            change,
            &|| self.blocks_read_before_replay(inodes),
            &mut |tid, keys| self.records(tid, keys),
        )?)
    }

    /// The blocks that e2fsck reads before it replays the log: it replays records with those
    /// copies. `inodes` is the block of the journal's inode.
    fn blocks_read_before_replay(&self, inodes: BlockNr) -> Vec<BlockNr> {
        let geometry = &self.base.geometry;
        let superblock = BlockNr(SUPERBLOCK_OFFSET >> geometry.block_bits);
        let descriptors = 0..geometry.descriptor_blocks_count();
        let descriptors = descriptors.map(|at| geometry.descriptor_block(at));
        let mut blocks: Vec<_> = descriptors.chain([superblock, inodes]).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Promises the records of changed names of files in `dir`.
    pub(crate) fn promise_names(&self, handle: &Handle<'_>, dir: &Inode) {
        handle.promise_records();
        if handle.is_recorded() && dir.facts().flags.contains(InodeFlags::INLINE_DATA) {
            handle.require_full(FullReason::Layout);
        }
    }

    /// Promises the record of a freed inode: that of the removal of its last name.
    pub(crate) fn promise_if_gone(&self, handle: &Handle<'_>, inode: InodeNr) {
        if self.name_log.is_gone(handle, inode) {
            handle.promise_records();
        }
    }

    /// Records that a removal through the handle took the inode's last name.
    pub(crate) fn record_last_name(&self, handle: &Handle<'_>, state: &mut InodeState) {
        if !handle.is_recorded() {
            return;
        }
        match recordable::check(state) {
            Err(reason) => handle.require_full(reason),
            Ok(()) if state.has_xattrs() => handle.require_full(FullReason::Attribute),
            Ok(()) => {
                let emptied = state.emptied_bytes();
                self.name_log.note_last(handle, state.nr(), emptied);
            }
        }
    }

    fn records(&self, tid: Tid, mut keys: Vec<u64>) -> Recorded<Vec<Record>> {
        keys.sort_unstable();
        keys.dedup();
        if keys.len() > INODES_MAX {
            return Err(FullReason::TooMany);
        }
        let mut records = Vec::new();
        let names = without_short_lives(self.name_log.take(tid));
        self.check_link_counts(&names)?;
        for name in names {
            self.record_name(name, &mut records)?;
        }
        for key in keys {
            let inode = self.load_inode(InodeNr(clamp_u32(key))).map_err(failed)?;
            self.record_inode(&inode, &mut records)?;
        }
        Ok(records)
    }

    fn record_name(&self, name: NotedName, records: &mut Vec<Record>) -> Recorded<()> {
        let NotedName { change, dentry } = name;
        let inode = dentry.inode;
        match change {
            NameChange::Create => {
                self.check_inode_slot(inode)?;
                let created = self.load_inode(inode).map_err(failed)?;
                let mut state = created.live().write_unlogged();
                records.push(inode_record(&mut state)?);
                records.push(Record::Create(dentry));
            }
            NameChange::Link => {
                self.check_named(inode)?;
                records.push(Record::Link(dentry));
            }
            NameChange::Unlink { last: None } => {
                self.check_named(inode)?;
                records.push(Record::Unlink(dentry));
            }
            NameChange::Unlink { last: Some(raw) } => {
                records.push(Record::DelRange {
                    inode,
                    start: LogicalBlock(0),
                    len_blocks: clamp_u32(LOGICAL_END),
                });
                records.push(Record::Inode { inode, raw });
                records.push(Record::Unlink(dentry));
            }
        }
        Ok(())
    }

    /// Checks the place of a new inode. Replayers keep the bytes behind the fields of a record: the
    /// attributes of the file that had the place would be those of the new one.
    fn check_inode_slot(&self, nr: InodeNr) -> Recorded<()> {
        let (block, offset) = self.inodes.place(&self.space, nr).map_err(failed)?;
        let mut bytes = vec![0; usize::from(self.base.geometry.inode_size)];
        let read = self.base.journal.read_part(block, offset, &mut bytes);
        read.map_err(|error| failed(error.into()))?;
        if recordable::may_have_attributes(&bytes) {
            Err(FullReason::Attribute)
        } else {
            Ok(())
        }
    }

    /// Checks an inode of which a name changed. One without names was checked when it lost the
    /// last one ([`Self::record_last_name`]).
    fn check_named(&self, nr: InodeNr) -> Recorded<()> {
        let inode = self.load_inode(nr).map_err(failed)?;
        let state = inode.read();
        match state.disk.links {
            0 => Ok(()),
            _ => recordable::check_kind(&state),
        }
    }

    /// Refuses an order of changes in which a replay would free an inode that has another name:
    /// changes of different names are noted in any order.
    fn check_link_counts(&self, names: &[NotedName]) -> Recorded<()> {
        let mut counts: HashMap<InodeNr, u16> = HashMap::new();
        for name in names.iter().rev() {
            let nr = name.dentry.inode;
            let known = counts.get(&nr).copied();
            let after = match (&name.change, known) {
                (NameChange::Unlink { last: Some(_) }, _) => 0,
                (_, Some(after)) => after,
                (_, None) => self.load_inode(nr).map_err(failed)?.read().disk.links,
            };
            let before = match name.change {
                NameChange::Unlink { last: Some(_) } => Some(1),
                NameChange::Unlink { last: None } => (after > 0).then_some(after + 1),
                NameChange::Link => after.checked_sub(1).filter(|before| *before > 0),
                NameChange::Create => after.checked_sub(1).filter(|before| *before == 0),
            };
            counts.insert(nr, before.ok_or(FullReason::Other)?);
        }
        Ok(())
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
        recordable::check(&state)?;
        let first = records.len();
        for range in changed.iter() {
            if !map::is_in_inode(&state) {
                return Err(FullReason::Layout);
            }
            self.record_range(&state, range, records)?;
        }
        // e2fsck 1.47 keeps an extent of length 0 where a removal leaves none, and adds wrongly to
        // it. Each block is either mapped or not, so the order has no other effect.
        records[first..].sort_by_key(|record| matches!(record, Record::DelRange { .. }));
        records.push(inode_record(&mut state)?);
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

fn inode_record(state: &mut InodeState) -> Recorded<Record> {
    recordable::check(state)?;
    Ok(Record::Inode {
        inode: state.nr(),
        raw: state.record_bytes(),
    })
}

/// The changes without those of inodes that were created and lost their last name since the last
/// fast commit.
fn without_short_lives(mut names: Vec<NotedName>) -> Vec<NotedName> {
    // Places of the changes of an inode since its creation.
    let mut lives: HashMap<InodeNr, Vec<usize>> = HashMap::new();
    let mut is_left_out = vec![false; names.len()];
    for (at, name) in names.iter().enumerate() {
        let nr = name.dentry.inode;
        if matches!(name.change, NameChange::Create) {
            lives.insert(nr, vec![at]);
        } else if let Some(life) = lives.get_mut(&nr) {
            life.push(at);
        }
        if matches!(name.change, NameChange::Unlink { last: Some(_) }) {
            let life = lives.remove(&nr).unwrap_or_default();
            life.into_iter().for_each(|at| is_left_out[at] = true);
        }
    }
    let mut is_left_out = is_left_out.into_iter();
    names.retain(|_| is_left_out.next() == Some(false));
    names
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
