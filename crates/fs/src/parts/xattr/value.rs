//! Value inodes (feature `ea_inode`).
//!
//! Crash safety: the data are written before the handle that creates the inode. A value inode
//! without references is an orphan from the transaction that drops the last one.

use crate::parts::map::{self, ExtentState, Mapping};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef, InodeState};
use crate::state::space::{Purpose, Reserve, Want};
use crate::types::error::{Error, Result};
use uext4_format::xattr::{EaInodeFields, XattrName, XattrValue, entry_hash_of_inode, value_hash};
use uext4_format::{
    BlockNr, BlockRun, Corrupt, CorruptKind, DamageLocation, Feature, FileType, Inode as DiskInode,
    InodeFlags, InodeNr, LogicalBlock, Seed,
};
use uext4_journal::Handle;
use uext4_num::{clamp_u32, low_u32, usize_of};
use uext4_sync::Arc;

/// Permissions of value inodes, as Linux sets them.
const MODE: u16 = 0o600;

fn corrupt(nr: InodeNr, problem: CorruptKind) -> Error {
    Corrupt::new(DamageLocation::Inode(nr), "value inode", problem).into()
}

/// Seed of the hashes of values; exists with and without metadata checksums.
fn seed(fs: &Fs) -> Seed {
    fs.base
        .checksums
        .metadata
        .unwrap_or_else(|| fs.base.superblock.read().disk.seed())
}

/// The value inode `nr`. No lock is taken.
fn load(fs: &Fs, nr: InodeNr) -> Result<Arc<Inode>> {
    if fs.hidden.contains(nr) || nr == InodeNr::ROOT || !fs.base.geometry.contains_inode(nr) {
        return Err(corrupt(nr, CorruptKind::NumberRange));
    }
    let inode = fs.load_inode(nr)?;
    if inode.is_freed() || !inode.holds_value() {
        return Err(corrupt(nr, CorruptKind::HoldsNoValue));
    }
    Ok(inode)
}

/// A reference to a value inode, which keeps it in use.
pub(super) struct ValueInode {
    inode: InodeRef,
    owner: InodeNr,
    size: u32,
}

/// Takes a reference to the value inode of an entry. `owner` is the locked state of the inode with
/// the attribute.
pub(super) fn open(fs: &Fs, owner: &InodeState, nr: InodeNr, size: u32) -> Result<ValueInode> {
    Ok(ValueInode {
        inode: InodeRef::new(load(fs, nr)?),
        owner: owner.nr(),
        size,
    })
}

impl ValueInode {
    /// The value. The caller has no inode's state locked.
    pub(super) fn read(&self, fs: &Fs) -> Result<Vec<u8>> {
        let state = self.inode.read();
        let nr = self.inode.nr();
        if state.disk.size != u64::from(self.size) {
            return Err(corrupt(nr, CorruptKind::ValueSize));
        }
        let bytes = read_all(fs, &state, usize_of(self.size))?;
        // Old values of Lustre have their owner's number instead of a hash.
        let of_lustre = low_u32(state.disk.mtime.seconds.cast_unsigned()) == self.owner.0;
        if EaInodeFields::of(&state.disk).hash == value_hash(seed(fs), &bytes) || of_lustre {
            return Ok(bytes);
        }
        Err(corrupt(nr, CorruptKind::ValueHash))
    }
}

fn read_all(fs: &Fs, state: &InodeState, size: usize) -> Result<Vec<u8>> {
    let bits = fs.base.geometry.block_bits;
    let mut bytes = vec![0; size];
    let mut at = 0;
    while at < size {
        let left_blocks = clamp_u32((size - at).div_ceil(fs.block_size()));
        let mapping = map::lookup(fs, state, LogicalBlock(clamp_u32(at >> bits)), left_blocks)?;
        let end = size.min(at + (usize_of(mapping.len_blocks()) << bits));
        let Mapping::Mapped {
            start,
            state: ExtentState::Written,
            ..
        } = mapping
        else {
            return Err(corrupt(state.nr(), CorruptKind::ValueHole));
        };
        fs.base
            .device
            .read_at(start.0 << bits, &mut bytes[at..end])?;
        at = end;
    }
    Ok(bytes)
}

/// Takes `count` references. An owner's state may be locked.
pub(super) fn take(fs: &Fs, handle: &Handle<'_>, nr: InodeNr, count: u64) -> Result<()> {
    let inode = load(fs, nr)?;
    let mut state = handle.write_nested(&inode);
    let mut fields = EaInodeFields::of(&state.disk);
    fields.refcount = fields.refcount.saturating_add(count);
    fields.store(&mut state.disk);
    Ok(())
}

/// Drops `count` references; with the last one the value inode becomes an orphan that is freed
/// soon. The caller holds no live object.
pub(super) fn release(fs: &Fs, handle: &Handle<'_>, nr: InodeNr, count: u64) -> Result<()> {
    let inode = load(fs, nr)?;
    {
        let mut state = handle.write(&inode);
        let mut fields = EaInodeFields::of(&state.disk);
        let left = fields.refcount.checked_sub(count);
        fields.refcount = left.ok_or(corrupt(nr, CorruptKind::MoreEntries))?;
        fields.store(&mut state.disk);
        if fields.refcount > 0 {
            return Ok(());
        }
    }
    orphan(fs, handle, &inode)
}

fn orphan(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    handle.write(inode).disk.links = 0;
    fs.orphans.add(&fs.base, handle, inode)?;
    inode.set_links(0);
    // The last user puts the inode on the reclaim queue.
    drop(InodeRef::new(inode.clone()));
    Ok(())
}

/// A value on disk, in blocks that are reserved in memory only. They are released if it is dropped
/// before [`Self::create`].
pub(super) struct NewValue<'a> {
    fs: &'a Fs,
    size: u32,
    hash: u32,
    runs: Vec<BlockRun>,
}

impl<'a> NewValue<'a> {
    /// Writes the value to new blocks. The caller holds no handle.
    pub(super) fn write(fs: &'a Fs, owner: &Inode, value: &[u8]) -> Result<Self> {
        let hash = value_hash(seed(fs), value);
        let mut new = Self {
            fs,
            size: clamp_u32(value.len()),
            hash,
            runs: Vec::new(),
        };
        let mut rest = value;
        while !rest.is_empty() {
            let run = new.reserve(owner, rest.len())?;
            new.runs.push(run);
            let (now, later) = rest.split_at(rest.len().min(new.bytes(run)));
            new.write_run(run, now)?;
            rest = later;
        }
        Ok(new)
    }

    fn bytes(&self, run: BlockRun) -> usize {
        usize_of(run.len_blocks) << self.fs.base.geometry.block_bits
    }

    fn reserve(&self, owner: &Inode, bytes: usize) -> Result<BlockRun> {
        let ratio = self.fs.base.geometry.blocks_per_cluster();
        let blocks = clamp_u32(bytes.div_ceil(self.fs.block_size()));
        let extents = self.fs.base.features.has(Feature::EXTENTS);
        let want = Want {
            goal: None,
            len_blocks: blocks.next_multiple_of(ratio),
            min_blocks: ratio,
            inode: owner.nr(),
            purpose: Purpose::Data,
            reserve: Reserve::Keep,
            end: (!extents).then_some(BlockNr(1 << 32)),
        };
        self.fs.space.reserve_or_commit(&self.fs.base, &want)
    }

    /// Writes whole blocks; the rest behind the value is zero.
    fn write_run(&self, run: BlockRun, value: &[u8]) -> Result<()> {
        let mut bytes = value.to_vec();
        bytes.resize(value.len().next_multiple_of(self.fs.block_size()), 0);
        let at = run.start.0 << self.fs.base.geometry.block_bits;
        Ok(self.fs.base.device.write_at(at, &bytes)?)
    }

    /// Creates the inode, with one reference, which the caller owns. Returns its number and the
    /// value of an entry with `name`.
    pub(super) fn create(
        mut self,
        handle: &Handle<'_>,
        owner: &Arc<Inode>,
        name: &XattrName,
    ) -> Result<(InodeNr, XattrValue)> {
        let fs = self.fs;
        let (kind, generation) = (FileType::Regular, fs.base.random.next());
        let nr = fs
            .space
            .alloc_inode(&fs.base, handle, &owner.near(kind, generation), kind)?;
        let disk = self.blank(owner, generation);
        let inode = fs.inodes.insert_new(&fs.space, handle, nr, &disk)?;
        if let Err(error) = self.map(handle, &inode) {
            orphan(fs, handle, &inode)?;
            return Err(error);
        }
        let entry_hash = entry_hash_of_inode(&name.rest, self.hash);
        Ok((
            nr,
            XattrValue::Inode {
                inode: nr,
                size: self.size,
                entry_hash,
            },
        ))
    }

    fn blank(&self, owner: &Inode, generation: u32) -> DiskInode {
        let fs = self.fs;
        let now = fs.now();
        let mut disk = DiskInode::new(&fs.base.geometry, fs.extra_isize.want);
        let owner = owner.read();
        disk.mode = FileType::Regular.mode_bits() | MODE;
        (disk.uid, disk.gid) = (owner.disk.uid, owner.disk.gid);
        disk.links = 1;
        disk.generation = generation;
        disk.size = u64::from(self.size);
        disk.flags = InodeFlags::EA_INODE;
        (disk.mtime, disk.crtime) = (now, now);
        disk
    }

    fn map(&mut self, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        let mut state = handle.write(inode);
        let fields = EaInodeFields {
            refcount: 1,
            hash: self.hash,
        };
        fields.store(&mut state.disk);
        map::init(self.fs, &mut state);
        let (mut at, end) = (0, self.size.div_ceil(self.fs.base.geometry.block_size()));
        while let Some(&reserved) = self.runs.first() {
            self.fs.space.commit(&self.fs.base, handle, reserved)?;
            self.runs.remove(0);
            let run = BlockRun {
                len_blocks: reserved.len_blocks.min(end - at),
                ..reserved
            };
            let written = ExtentState::Written;
            let place = LogicalBlock(at);
            let mapped = map::insert(self.fs, handle, &mut state, place, run, written);
            if let Err(error) = mapped {
                self.fs.space.free(&self.fs.base, handle, reserved)?;
                return Err(error);
            }
            at += run.len_blocks;
        }
        Ok(())
    }
}

impl Drop for NewValue<'_> {
    fn drop(&mut self) {
        for &run in &self.runs {
            self.fs.space.unreserve(run);
        }
    }
}
