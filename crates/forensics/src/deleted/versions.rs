//! The last state of each deleted inode in which it still had its map: from images of the inode
//! tables in the log, and from unused inodes.
//!
//! An inode is the same one as long as its number, generation and time of creation are.

use super::history::History;
use crate::inodes::in_use;
use crate::{Memory, Result};
use std::collections::HashMap;
use uext4_format::extent::ExtentNode;
use uext4_format::indirect::{ROOT_POINTERS, pointer};
use uext4_format::{Checksums, FileType, GroupNr, Inode, InodeFlags, InodeNr, RawInode, Timestamp};
use uext4_num::{clamp_u32, u64_of};

/// Memory for each inode, beside its bytes.
const VERSION_BYTES: u64 = 512;

/// An inode as it was.
pub(crate) struct Version {
    pub(crate) nr: InodeNr,
    pub(crate) inode: Inode,
    /// The transaction with it; `None` if it is in its table.
    pub(crate) order: Option<u32>,
    pub(crate) deleted: Option<Timestamp>,
    /// Whether the number has another inode now.
    pub(crate) is_reused: bool,
}

type Key = (InodeNr, u32, Timestamp);

/// The start of the table of each group, in the order of blocks.
struct Tables(Vec<(u64, GroupNr)>);

/// All deleted inodes with a map, without order.
pub(crate) fn versions(history: &History<'_>, memory: &Memory) -> Result<Vec<Version>> {
    let mut found = Versions {
        history,
        memory,
        all: HashMap::new(),
        deaths: HashMap::new(),
    };
    found.add_logged()?;
    found.add_unused()?;
    let deaths = found.deaths;
    let all = found.all.into_iter().map(|(key, mut version)| {
        version.deleted = deaths.get(&key).copied();
        version
    });
    Ok(all.collect())
}

struct Versions<'v, 'h> {
    history: &'v History<'h>,
    memory: &'v Memory,
    all: HashMap<Key, Version>,
    /// Times of deletion.
    deaths: HashMap<Key, Timestamp>,
}

impl Versions<'_, '_> {
    fn tables(&self) -> Result<Tables> {
        let geometry = self.history.image.geometry();
        self.memory
            .take(u64::from(geometry.group_count).saturating_mul(16))?;
        let groups = (0..geometry.group_count).map(GroupNr);
        let image = self.history.image;
        let mut tables: Vec<_> = groups
            .map(|group| (image.descriptor(group).inode_table.0, group))
            .collect();
        tables.sort_unstable_by_key(|table| table.0);
        Ok(Tables(tables))
    }

    fn add_logged(&mut self) -> Result<()> {
        let geometry = *self.history.image.geometry();
        let tables = self.tables()?;
        let mut bitmap = (None, None);
        for past in self.history.all() {
            let block = past.logged.block;
            let Some((group, into)) = tables.find(block, geometry.inode_table_blocks()) else {
                continue;
            };
            if bitmap.0 != Some(group) {
                bitmap = (Some(group), self.history.image.inode_bitmap(group));
            }
            let bytes = self.history.bytes(past);
            let now = self.history.image.block(block);
            let (Some(bytes), Some(now)) = (bytes, now) else {
                continue;
            };
            let size = usize::from(geometry.inode_size);
            let first = into.saturating_mul(geometry.inodes_per_block());
            let pairs = bytes.chunks_exact(size).zip(now.chunks_exact(size));
            for (index, (then, now)) in (first..geometry.inodes_per_group).zip(pairs) {
                let nr = geometry.inode_at(group, index);
                let current = in_use(bitmap.1.as_deref(), index, now).then_some(now);
                self.add(nr, then, current, Some(past.order))?;
            }
        }
        Ok(())
    }

    fn add_unused(&mut self) -> Result<()> {
        let image = self.history.image;
        image.inodes(&mut |slot| {
            if slot.is_allocated {
                return Ok(());
            }
            self.add(slot.nr, slot.bytes, None, None)
        })
    }

    /// Adds an inode as it was, unless it is in use: `current` is what is in use under its number.
    fn add(
        &mut self,
        nr: InodeNr,
        then: &[u8],
        current: Option<&[u8]>,
        order: Option<u32>,
    ) -> Result<()> {
        let raw = RawInode(then);
        if !matches!(raw.mode() >> 12, 0x4 | 0x8) || nr.0 < self.first_inode() {
            return Ok(());
        }
        let geometry = self.history.image.geometry();
        let checksums = self.history.image.checksums();
        let Ok(inode) = Inode::parse(then, nr, geometry, checksums) else {
            return Ok(());
        };
        let key = (nr, inode.generation, inode.crtime);
        let in_use = current.map(|now| Inode::parse(now, nr, geometry, &Checksums::NONE));
        if let Some(Ok(now)) = &in_use
            && (nr, now.generation, now.crtime) == key
        {
            return Ok(());
        }
        self.add_death(key, &inode)?;
        if inode.size == 0 || !self.has_content(&inode) {
            return Ok(());
        }
        let bytes = VERSION_BYTES.saturating_add(u64::from(geometry.inode_size));
        let version = Version {
            nr,
            inode,
            order,
            deleted: None,
            is_reused: in_use.is_some(),
        };
        if self.all.insert(key, version).is_none() {
            self.memory.take(bytes)?;
        }
        Ok(())
    }

    fn first_inode(&self) -> u32 {
        self.history.image.geometry().first_inode
    }

    /// Keeps the time of a deletion. A small number is the next inode of the orphan list.
    fn add_death(&mut self, key: Key, inode: &Inode) -> Result<()> {
        let is_time = inode.dtime > self.history.image.geometry().inodes_count;
        if is_time && inode.links == 0 {
            let time = Timestamp::new(inode.dtime.into(), 0);
            if self.deaths.insert(key, time).is_none() {
                self.memory.take(u64_of(size_of::<(Key, Timestamp)>()))?;
            }
        }
        Ok(())
    }

    fn has_content(&self, inode: &Inode) -> bool {
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            return inode.file_type() == Some(FileType::Regular);
        }
        let geometry = self.history.image.geometry();
        if inode.flags.contains(InodeFlags::EXTENTS) {
            let root = ExtentNode::new(&inode.i_block[..]);
            return root.magic() == uext4_format::extent::MAGIC && !root.is_empty();
        }
        let mut pointers = (0..ROOT_POINTERS).map(|at| pointer(&inode.i_block, at));
        pointers.any(|block| geometry.contains(block))
    }
}

impl Tables {
    /// The group whose table has a block, and the block's place in the table.
    fn find(&self, block: u64, blocks: u32) -> Option<(GroupNr, u32)> {
        let after = self.0.partition_point(|table| table.0 <= block);
        let (start, group) = self.0.get(after.checked_sub(1)?)?;
        let into = block.checked_sub(*start)?;
        (into < u64::from(blocks)).then(|| (*group, clamp_u32(into)))
    }
}

/// Bytes of inline data that are left in an inode: those in the place of the map, and those in its
/// attribute.
pub(crate) fn inline_content(inode: &Inode) -> Option<Vec<u8>> {
    use uext4_format::xattr::{NameIndex, XattrName, XattrValue, decode_ibody};
    let place = uext4_format::DamageLocation::Inode(InodeNr(0));
    let set = decode_ibody(&inode.tail, place).ok();
    let name = XattrName {
        index: NameIndex::SYSTEM,
        rest: b"data".to_vec(),
    };
    let value = set.as_ref().and_then(|set| set.get(&name));
    let value = match value {
        Some(XattrValue::Here(bytes)) => &bytes[..],
        _ => &[],
    };
    uext4_format::inline_data::read_file(&inode.i_block, value, inode.size)
}
