//! Setting and removing attributes: choice of the area, and its cost for the inode.

use super::Rights;
use super::areas::{self, LoadedBlock};
use super::refs::Refs;
use super::value::NewValue;
use super::{SetMode, block};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::quota::{Owners, Usage};
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::xattr::{
    XattrName, XattrSet, XattrValue, block_capacity_bytes, encode_ibody, entry_bytes,
    ibody_capacity_bytes,
};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, Feature, InodeFlags};
use uext4_journal::{FullReason, Handle};
use uext4_num::clamp_i64;
use uext4_sync::Arc;

/// Name length of the shortest attribute that must fit beside a value in a block (as in Linux).
const SHORT_NAME_BYTES: usize = 3;

/// Most of a block that stays free for names where values may have inodes (as in Linux).
const NAMES_MAX_BYTES: usize = 1024;

/// A change of one attribute.
pub(super) struct Edit<'a> {
    pub(super) name: &'a XattrName,
    /// The new value; `None` removes it.
    pub(super) value: Option<XattrValue>,
    pub(super) mode: SetMode,
    /// The required current value; if it differs, the answer is [`Error::Busy`].
    pub(super) was: Option<&'a XattrValue>,
    /// Whether quota limits apply to the caller.
    pub(super) rights: Rights,
}

/// Sets an attribute in its own handle.
pub(super) fn set(
    fs: &Fs,
    inode: &Arc<Inode>,
    name: &XattrName,
    value: &[u8],
    (mode, rights): (SetMode, Rights),
) -> Result<()> {
    set_with(fs, inode, name, value, (mode, rights), |_| {})
}

/// Sets an attribute and changes the inode, in one handle.
pub(super) fn set_with(
    fs: &Fs,
    inode: &Arc<Inode>,
    name: &XattrName,
    value: &[u8],
    (mode, rights): (SetMode, Rights),
    change: impl Fn(&mut InodeState),
) -> Result<()> {
    let has_ea_inode = fs.base.features.has(Feature::EA_INODE);
    if !(has_ea_inode && value.len() > value_max_bytes(fs)) {
        let edit = Edit {
            name,
            value: Some(XattrValue::Here(value.to_vec())),
            mode,
            was: None,
            rights,
        };
        match run(fs, inode, edit, &change) {
            Err(Error::NoSpace) if has_ea_inode && !value.is_empty() => {}
            done => return done,
        }
    }
    set_large(fs, inode, name, value, (mode, rights), change)
}

/// Largest value in bytes that is tried without its own inode.
fn value_max_bytes(fs: &Fs) -> usize {
    block_capacity_bytes(fs.block_size()) - entry_bytes(SHORT_NAME_BYTES)
}

fn set_large(
    fs: &Fs,
    inode: &Arc<Inode>,
    name: &XattrName,
    value: &[u8],
    (mode, rights): (SetMode, Rights),
    change: impl Fn(&mut InodeState),
) -> Result<()> {
    check_mode(mode, areas::find(fs, &inode.read(), name)?.is_some())?;
    let new = NewValue::write(fs, inode, value)?;
    let handle = fs.start(credits::XATTR + credits::MAP)?;
    let (nr, value) = new.create(&handle, inode, name)?;
    let edit = Edit {
        name,
        value: Some(value),
        mode,
        was: None,
        rights,
    };
    let (result, mut refs) = apply(fs, &handle, inode, edit, &change);
    // Drops the initial reference of the new inode.
    refs.drop_one(nr);
    refs.apply(fs, &handle)?;
    result
}

/// Removes an attribute in its own handle.
pub(super) fn remove(fs: &Fs, inode: &Arc<Inode>, name: &XattrName) -> Result<()> {
    run(
        fs,
        inode,
        Edit {
            name,
            value: None,
            mode: SetMode::Replace,
            was: None,
            rights: Rights::ALL,
        },
        &|_| {},
    )
}

/// Applies one edit in its own handle.
pub(super) fn run(
    fs: &Fs,
    inode: &Arc<Inode>,
    edit: Edit<'_>,
    change: &impl Fn(&mut InodeState),
) -> Result<()> {
    let handle = fs.start(credits::XATTR)?;
    run_in(fs, &handle, inode, edit, change)
}

/// Applies one edit in the caller's handle.
pub(super) fn run_in(
    fs: &Fs,
    handle: &Handle<'_>,
    inode: &Arc<Inode>,
    edit: Edit<'_>,
    change: &impl Fn(&mut InodeState),
) -> Result<()> {
    let (result, refs) = apply(fs, handle, inode, edit, change);
    refs.apply(fs, handle)?;
    result
}

/// Applies one edit; the caller applies the changed references on value inodes.
fn apply(
    fs: &Fs,
    handle: &Handle<'_>,
    inode: &Arc<Inode>,
    edit: Edit<'_>,
    change: &impl Fn(&mut InodeState),
) -> (Result<()>, Refs) {
    handle.require_full(FullReason::Attribute);
    let mut refs = Refs::default();
    let now = fs.now();
    if let Err(error) = super::expand(fs, handle, inode) {
        return (Err(error), refs);
    }
    let result = {
        let mut state = handle.write(inode);
        inode.forget_no_acl(&mut state);
        edit_areas(fs, handle, &mut state, edit, &mut refs).map(|changed| {
            change(&mut state);
            if changed == Changed::Yes {
                state.disk.set_ctime(now);
                state.disk.version = state.disk.version.wrapping_add(1);
            }
        })
    };
    if result.is_ok() {
        mark_superblock(fs, handle);
    } else {
        refs = Refs::default();
    }
    (result, refs)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    Yes,
    No,
}

fn edit_areas(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    edit: Edit<'_>,
    refs: &mut Refs,
) -> Result<Changed> {
    if state.disk.flags.contains(InodeFlags::EA_INODE) {
        let problem = CorruptKind::HasAttributes;
        return Err(Corrupt::new(DamageLocation::Inode(state.nr()), "value inode", problem).into());
    }
    let mut ibody = areas::ibody(state)?;
    let old = areas::read_block(fs, state)?;
    let mut block = old.as_ref().map(|old| old.set.clone()).unwrap_or_default();
    let present = ibody.get(edit.name).or_else(|| block.get(edit.name));
    check_mode(edit.mode, present.is_some())?;
    if edit.was.is_some() && edit.was != present {
        return Err(Error::Busy);
    }
    if present == edit.value.as_ref() {
        return Ok(Changed::No);
    }
    match edit.value {
        None => {
            ibody.remove(edit.name);
            block.remove(edit.name);
        }
        Some(value) => put_value(fs, state, (&mut ibody, &mut block), edit.name, value)?,
    }
    let before = Before {
        old,
        rights: edit.rights,
    };
    store_over(fs, handle, state, before, (&ibody, &block), refs)?;
    Ok(Changed::Yes)
}

fn check_mode(mode: SetMode, exists: bool) -> Result<()> {
    match mode {
        SetMode::Create if exists => Err(Error::Exists),
        SetMode::Replace if !exists => Err(Error::NoAttribute),
        _ => Ok(()),
    }
}

/// Puts the value into the inode's area if it fits, else into the block's.
fn put_value(
    fs: &Fs,
    state: &InodeState,
    (ibody, block): (&mut XattrSet, &mut XattrSet),
    name: &XattrName,
    value: XattrValue,
) -> Result<()> {
    let mut with = ibody.clone();
    with.set(name.clone(), value.clone());
    if with.area_bytes() <= ibody_capacity_bytes(state.xattr_area().len()) {
        *ibody = with;
        block.remove(name);
        return Ok(());
    }
    ibody.remove(name);
    let is_here = matches!(&value, XattrValue::Here(bytes) if !bytes.is_empty());
    block.set(name.clone(), value);
    let fits = block.area_bytes() <= block_capacity_bytes(fs.block_size());
    if fits && !(is_here && leaves_no_names(fs, block)) {
        Ok(())
    } else {
        Err(Error::NoSpace)
    }
}

/// Whether the values in the block leave less space for names than Linux keeps free where values
/// may have inodes. Otherwise one long value could be the last attribute.
fn leaves_no_names(fs: &Fs, block: &XattrSet) -> bool {
    let values_bytes: usize = block.iter().map(|entry| entry.value.area_bytes()).sum();
    let reserved_bytes = (fs.block_size() / 8).min(NAMES_MAX_BYTES);
    let left_bytes = fs.block_size().saturating_sub(values_bytes);
    fs.base.features.has(Feature::EA_INODE) && left_bytes < reserved_bytes
}

/// Stores both sets (in the inode, in the block), replacing the areas' content.
pub(super) fn store(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    new: (&XattrSet, &XattrSet),
    refs: &mut Refs,
) -> Result<()> {
    let before = Before {
        old: areas::read_block(fs, state)?,
        rights: Rights::ALL,
    };
    store_over(fs, handle, state, before, new, refs)
}

/// The current block, and the rights of the change.
struct Before {
    old: Option<LoadedBlock>,
    rights: Rights,
}

fn store_over(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    Before { old, rights }: Before,
    (ibody, block): (&XattrSet, &XattrSet),
    refs: &mut Refs,
) -> Result<()> {
    let old_ibody = areas::ibody(state)?;
    let nothing = XattrSet::new();
    let old_block = old.as_ref().map_or(&nothing, |old| &old.set);
    let before = sectors(fs, &old_ibody, old_block) + u64::from(old.is_some()) * cluster(fs);
    let after = sectors(fs, ibody, block) + u64::from(!block.is_empty()) * cluster(fs);
    let inodes = values(ibody, block) - values(&old_ibody, old_block);
    let more = Usage {
        bytes: (clamp_i64(after) - clamp_i64(before)) << 9,
        inodes,
    };
    let _claim = fs
        .quota
        .claim_use(&fs.base, rights.limits, Owners::of(&state.disk), more)?;
    let (blocks_raw, flags) = (state.disk.blocks_raw, state.disk.flags);
    let charged = state
        .disk
        .sectors(&fs.base.geometry)
        .saturating_sub(before)
        .saturating_add(after);
    state
        .disk
        .set_sectors(charged, &fs.base.geometry)
        .map_err(|_| Error::NoSpace)?;
    let stored = block::put(fs, handle, state, (old.as_ref(), rights.space), block, refs);
    if let Err(error) = stored {
        (state.disk.blocks_raw, state.disk.flags) = (blocks_raw, flags);
        return Err(error);
    }
    let grown = Usage {
        inodes,
        ..Usage::sectors(after)
    };
    fs.quota.charge(handle, (state.nr(), &state.disk), grown);
    fs.quota.charge(
        handle,
        (state.nr(), &state.disk),
        Usage::sectors(before).less(),
    );
    // Its size was checked before; an empty area may lack space for the magic.
    let _ = encode_ibody(state.xattr_area_mut(), ibody);
    refs.take_all(ibody);
    refs.drop_all(&old_ibody);
    Ok(())
}

/// Sectors charged to the owner: each value inode counts as if it were its own.
fn sectors(fs: &Fs, ibody: &XattrSet, block: &XattrSet) -> u64 {
    let clusters: u64 = ibody
        .iter()
        .chain(block.iter())
        .map(|entry| match entry.value {
            XattrValue::Here(_) => 0,
            XattrValue::Inode { size, .. } => {
                u64::from(size).div_ceil(fs.base.geometry.cluster_size())
            }
        })
        .sum();
    clusters * cluster(fs)
}

/// Number of value inodes: the owner is charged for each as for a file.
fn values(ibody: &XattrSet, block: &XattrSet) -> i64 {
    let entries = ibody.iter().chain(block.iter());
    let in_inodes = entries.filter(|entry| matches!(entry.value, XattrValue::Inode { .. }));
    clamp_i64(in_inodes.count())
}

/// What the owners of an inode are charged for it: its blocks, which include those of values in
/// inodes, itself, and each of its entries with a value in an inode.
pub(crate) fn usage(fs: &Fs, state: &InodeState) -> Result<Usage> {
    let block = areas::read_block(fs, state)?;
    let block = block.map(|block| block.set).unwrap_or_default();
    Ok(Usage {
        inodes: 1 + values(&areas::ibody(state)?, &block),
        ..Usage::sectors(state.disk.sectors(&fs.base.geometry))
    })
}

/// Moves the usage of an inode and its attributes to the new owners.
pub(crate) fn transfer(fs: &Fs, handle: &Handle<'_>, state: &InodeState, to: Owners) -> Result<()> {
    if !fs.quota.is_on() || to == Owners::of(&state.disk) {
        return Ok(());
    }
    let charged = (state.nr(), &state.disk);
    fs.quota.transfer(handle, charged, to, usage(fs, state)?);
    Ok(())
}

/// 512-byte sectors of a cluster, the unit of `i_blocks`.
fn cluster(fs: &Fs) -> u64 {
    fs.base.geometry.cluster_size() >> 9
}

/// Sets the superblock's feature for attributes.
fn mark_superblock(fs: &Fs, handle: &Handle<'_>) {
    if fs
        .base
        .superblock
        .read()
        .disk
        .features()
        .has(Feature::EXT_ATTR)
    {
        return;
    }
    fs.base.superblock.update(handle, |disk| {
        let mut features = disk.features();
        features.insert(Feature::EXT_ATTR);
        disk.set_features(features);
    });
}
