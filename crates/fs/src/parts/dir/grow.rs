//! Growth of a directory: new blocks, the first index, splits.
//!
//! Invariants: the `index` lock is held exclusively, so blocks change one after the other and no
//! other thread sees an intermediate state. The new block is allocated before anything changes;
//! each step (a new level, a node split, a leaf split) leaves a sound index.
//! Locking: one object at a time.

use super::index::{Path, Probe, Step, Target, probe};
use super::name_changes::NewName;
use super::split::{Item, bytes_of, cut, separator, sorted};
use super::view::{Dir, is_dot};
use crate::cache::meta::MetaBlock;
use crate::parts::map;
use crate::state::inode::InodeState;
use crate::types::error::{Error, Result};
use uext4_format::dirent::{DirLeaf, NewEntry};
use uext4_format::htree::{DxEntry, DxNode, RootInfo, init_root};
use uext4_format::{BlockNr, Corrupt, CorruptKind, Full, InodeFlags, LogicalBlock};
use uext4_journal::{Handle, Image};
use uext4_num::clamp_u32;
use uext4_sync::Arc;

/// Most steps of one insert: one per level of the index, and one new level, with a margin.
const STEPS_MAX: usize = 8;

/// Adds a block with these bytes at the end of the directory.
pub(super) fn append(
    dir: &mut Dir<'_>,
    handle: &Handle<'_>,
    image: impl Into<Image>,
) -> Result<LogicalBlock> {
    let logical = LogicalBlock(dir.blocks);
    if dir.blocks >= dir.config().max_blocks() {
        return Err(Error::NoSpace);
    }
    let nr = map_next(dir, handle, logical)?;
    let block = dir.fs.blocks.create(handle, nr, dir.seal(), image.into());
    dir.inode.dir_blocks().put(logical, &block);
    dir.blocks += 1;
    Ok(logical)
}

fn map_next(dir: &Dir<'_>, handle: &Handle<'_>, logical: LogicalBlock) -> Result<BlockNr> {
    map_in(dir, handle, &mut handle.write(dir.inode), logical)
}

/// Adds a block to the map at the end of the directory.
pub(super) fn map_in(
    dir: &Dir<'_>,
    handle: &Handle<'_>,
    state: &mut InodeState,
    logical: LogicalBlock,
) -> Result<BlockNr> {
    let nr = map::insert_block(dir.fs, handle, state, logical)?;
    state.disk.size = (u64::from(logical.0) + 1) * dir.fs.block_bytes();
    Ok(nr)
}

/// Adds a block with this entry to a linear directory.
pub(super) fn append_leaf(
    dir: &mut Dir<'_>,
    handle: &Handle<'_>,
    new: &NewEntry<'_>,
) -> Result<()> {
    let image = packed(dir, std::iter::once(*new))?;
    append(dir, handle, image).map(drop)
}

/// The bytes of a leaf with these entries.
pub(super) fn packed<'a>(
    dir: &Dir<'_>,
    entries: impl Iterator<Item = NewEntry<'a>> + Clone,
) -> Result<Image> {
    let mut image: Image = std::iter::repeat_n(0, dir.fs.block_size()).collect();
    let place = uext4_format::DamageLocation::Inode(dir.inode.nr());
    let mut leaf = DirLeaf::init(Arc::make_mut(&mut image), dir.config().tail, place);
    leaf.pack(entries)
        .map_err(|Full| dir.damage(CorruptKind::BlockTooSmall))?;
    Ok(image)
}

pub(super) fn entry_of<'a>(entry: uext4_format::dirent::DirEntry<'a>) -> NewEntry<'a> {
    NewEntry {
        inode: entry.inode,
        name: entry.name,
        kind: entry.kind,
    }
}

/// Turns a linear directory of one block into an indexed one: the entries move to block 1.
pub(super) fn make_index(dir: &mut Dir<'_>, handle: &Handle) -> Result<()> {
    let root = dir.block_or_damage(LogicalBlock(0))?;
    let image = root.image();
    let leaf = dir.leaf(&image[..], root.nr());
    check_dots(dir, &leaf)?;
    let entries = leaf
        .entries()
        .collect::<std::result::Result<Vec<_>, Corrupt>>()?;
    let names = entries
        .into_iter()
        .filter(|entry| !is_dot(entry.name))
        .map(entry_of);
    let child = append(dir, handle, packed(dir, names)?)?;
    let (version, tail) = (dir.config().hasher.version, dir.config().tail);
    init_root(handle.write(&root).bytes_mut(), version, tail, child);
    handle.write(dir.inode).disk.flags.insert(InodeFlags::INDEX);
    dir.form = super::view::Form::Indexed;
    Ok(())
}

/// Checks that a future root begins with "." and "..", which stay in place.
fn check_dots(dir: &Dir<'_>, leaf: &DirLeaf<&[u8]>) -> Result<()> {
    let mut records = leaf.records();
    for (name, offset) in [(&b"."[..], 0), (b"..", 12)] {
        let record = records.next().transpose()?;
        if !record.is_some_and(|found| found.name == name && found.offset == offset) {
            return Err(dir.damage(CorruptKind::NoDots).into());
        }
    }
    Ok(())
}

/// True when the index cannot take another leaf.
pub(super) fn is_full(dir: &Dir<'_>, path: &Path) -> bool {
    path.len() > usize::from(dir.config().levels.indirect()) && path.steps().all(Step::is_full)
}

/// Most blocks that [`insert_with_split`] allocates when the leaf of `path` is full.
pub(super) fn blocks(path: &Path) -> u32 {
    // A leaf, and a node per full one above it; a full root moves into a node, which is then split.
    let full = path.steps().rev().take_while(|step| step.is_full()).count();
    let level = usize::from(full == path.len() && path.len() > 1);
    clamp_u32(1 + full + level)
}

/// Splits the leaf of `new` as needed, and inserts it. The name must be absent.
pub(super) fn insert_with_split(
    dir: &mut Dir<'_>,
    handle: &Handle<'_>,
    new: &NewName<'_>,
) -> Result<()> {
    for _ in 0..STEPS_MAX {
        let path = match probe(dir, Target::Name(new.name))? {
            Probe::Path(path) => path,
            Probe::Broken(corrupt) => return Err(corrupt.into()),
        };
        let mut full_below = path.len();
        while full_below > 0 && path.step(full_below - 1).is_full() {
            full_below -= 1;
        }
        match full_below {
            level if level == path.len() => return split_leaf(dir, handle, &path, &new.entry),
            0 if is_full(dir, &path) => return Err(Error::NoSpace),
            0 => add_level(dir, handle, path.step(0))?,
            level => split_node(dir, handle, path.step(level - 1), path.step(level))?,
        }
    }
    Err(dir.damage(CorruptKind::IndexFull).into())
}

/// Moves the entries of the root into a new node below it.
fn add_level(dir: &mut Dir<'_>, handle: &Handle<'_>, root: &Step) -> Result<()> {
    let tail = dir.config().tail;
    let mut above = root.block.image().to_vec();
    let mut below = vec![0; above.len()];
    DxNode::root(&mut above[..]).push_down(&mut below, LogicalBlock(dir.blocks), tail);
    let info = RootInfo::parse(&above, dir.config().levels, dir.location(root.block.nr()))?;
    RootInfo::set_indirect_levels(&mut above, info.indirect_levels + 1);
    append(dir, handle, below)?;
    overwrite(handle, &root.block, &above);
    Ok(())
}

/// Moves the upper half of a node's entries into a new node after it; `parent` has space.
fn split_node(dir: &mut Dir<'_>, handle: &Handle<'_>, parent: &Step, node: &Step) -> Result<()> {
    let tail = dir.config().tail;
    let mut lower = node.block.image().to_vec();
    let mut upper = vec![0; lower.len()];
    let mut entries = DxNode::node(&mut lower[..]);
    let middle = entries.count() / 2;
    let hash = entries
        .split_to(middle, &mut upper, tail)
        .ok_or_else(|| dir.damage(CorruptKind::NodeEmpty))?;
    let block = append(dir, handle, upper)?;
    overwrite(handle, &node.block, &lower);
    add_entry(dir, handle, parent, DxEntry { hash, block })
}

pub(super) fn overwrite(handle: &Handle<'_>, block: &Arc<MetaBlock>, bytes: &[u8]) {
    handle.write(block).bytes_mut().copy_from_slice(bytes);
}

/// Inserts an entry after the one that the step took.
fn add_entry(dir: &Dir<'_>, handle: &Handle<'_>, step: &Step, entry: DxEntry) -> Result<()> {
    let mut state = handle.write(&step.block);
    let added = step.kind.node(state.bytes_mut()).insert(step.at + 1, entry);
    added.map_err(|Full| dir.damage(CorruptKind::NodeFull).into())
}

/// Splits the leaf of `path` and inserts `new` into its half. A leaf that is only fragmented is
/// packed instead.
fn split_leaf(
    dir: &mut Dir<'_>,
    handle: &Handle<'_>,
    path: &Path,
    new: &NewEntry<'_>,
) -> Result<()> {
    let block = dir.block_or_damage(path.leaf)?;
    let image = block.image();
    let leaf = dir.leaf(&image[..], block.nr());
    let entries = leaf.entries().map(|entry| entry.map(entry_of));
    let items = sorted(&path.hasher, entries.chain(std::iter::once(Ok(*new))))?;
    let area = leaf.area_bytes();
    if bytes_of(&items) <= area / 4 * 3 {
        overwrite(handle, &block, &pack_items(dir, &items)?);
        return Ok(());
    }
    let at = cut(&items, area).ok_or_else(|| dir.damage(CorruptKind::LeafUnsplit))?;
    let (lower, upper) = (
        pack_items(dir, &items[..at])?,
        pack_items(dir, &items[at..])?,
    );
    let added = append(dir, handle, upper)?;
    overwrite(handle, &block, &lower);
    let entry = DxEntry {
        hash: separator(&items, at),
        block: added,
    };
    add_entry(dir, handle, path.parent(), entry)
}

pub(super) fn pack_items(dir: &Dir<'_>, items: &[Item<'_>]) -> Result<Image> {
    packed(dir, items.iter().map(|item| item.entry))
}
