//! Inline directories, stored in their inode.
//!
//! Layout: `i_block` holds the parent and a first area of entries; the value of the attribute
//! `system.data`, also in the inode, holds a second area if it is not empty. "." and ".." have no
//! entries.
//! Invariants: the attribute exists exactly while the flag INLINE_DATA is set; the directory's size
//! is 60 bytes plus the value's length.
//! Locking: changes need the `index` lock exclusively; the inode's state guards the bytes.
//! References: kernel documentation, "inlinedata".

use super::error::{DirError, DirResult};
use super::grow;
use super::lock_mode::LockMode;
use super::scan::Found;
use super::view::{Dir, Form, is_dot};
use crate::parts::map;
use crate::state::inode::InodeState;
use crate::types::error::{Error, Result};
use uext4_format::dirent::{
    DirEntry, DirEntryType, DirLeaf, Insertion, NewEntry, init_first_block,
};
use uext4_format::inline_data::{self, ROOT_BYTES};
use uext4_format::xattr::{
    XattrName, XattrSet, XattrValue, decode_ibody, encode_ibody, ibody_capacity_bytes, value_bytes,
};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, FileType, Full, InodeFlags, InodeNr};
use uext4_journal::Handle;
use uext4_num::u64_of;

/// A copy of an inline directory's bytes.
pub(super) struct Content {
    i_block: [u8; ROOT_BYTES],
    value: Vec<u8>,
}

impl Content {
    /// Copies the bytes from the inode.
    pub(super) fn of(state: &InodeState) -> Result<Self> {
        let value = match attributes(state)?.remove(&XattrName::inline_data()) {
            Some(XattrValue::Here(value)) => value,
            Some(XattrValue::Inode { .. }) => {
                let problem = CorruptKind::ValueElsewhere;
                return Err(Corrupt::new(location(state), "inline directory", problem).into());
            }
            None => Vec::new(),
        };
        Ok(Self {
            i_block: state.disk.i_block,
            value,
        })
    }

    /// The entries of both areas, without free records.
    pub(super) fn entries(
        &self,
        nr: InodeNr,
    ) -> impl Iterator<Item = std::result::Result<DirEntry<'_>, Corrupt>> {
        inline_data::records(&self.i_block, &self.value, DamageLocation::Inode(nr))
            .filter(|record| record.as_ref().map_or(true, |entry| !entry.is_free()))
    }

    fn find(&self, nr: InodeNr, name: &[u8]) -> Result<Option<Found>> {
        for entry in self.entries(nr) {
            let entry = entry?;
            if entry.name == name {
                return Ok(Some(Found {
                    inode: entry.inode,
                    kind: entry.kind,
                }));
            }
        }
        Ok(None)
    }

    /// Calls `change` for each area until it returns something.
    fn in_areas<T>(
        &mut self,
        nr: InodeNr,
        mut change: impl FnMut(&mut DirLeaf<&mut [u8]>) -> std::result::Result<Option<T>, Corrupt>,
    ) -> Result<Option<T>> {
        let place = DamageLocation::Inode(nr);
        let mut root = inline_data::root_area_mut(&mut self.i_block, place);
        if let Some(answer) = change(&mut root)? {
            return Ok(Some(answer));
        }
        Ok(change(&mut inline_data::value_area(
            &mut self.value[..],
            place,
        ))?)
    }

    /// Writes the bytes into the inode.
    fn store(self, state: &mut InodeState) -> Result<()> {
        let mut set = attributes(state)?;
        let size = ROOT_BYTES + self.value.len();
        set.set(XattrName::inline_data(), XattrValue::Here(self.value));
        // The value kept its length or was cut to the available space.
        encode_ibody(&mut state.disk.tail, &set).map_err(|Full| Error::NoSpace)?;
        state.disk.i_block = self.i_block;
        state.disk.size = u64_of(size);
        Ok(())
    }
}

fn location(state: &InodeState) -> DamageLocation {
    DamageLocation::Inode(state.nr())
}

fn attributes(state: &InodeState) -> Result<XattrSet> {
    Ok(decode_ibody(&state.disk.tail, location(state))?)
}

/// Passes the entry `name` to `use_it` while the inode is locked.
pub(super) fn with_entry<T>(
    dir: &Dir<'_>,
    name: &[u8],
    use_it: impl FnOnce(Found) -> Result<T>,
) -> Result<Option<T>> {
    let state = dir.inode.read();
    let found = if is_dot(name) {
        let inode = if name.len() == 1 {
            dir.inode.nr()
        } else {
            inline_data::parent(&state.disk.i_block)
        };
        Some(Found {
            inode,
            kind: dir.config().entry_type(FileType::Directory),
        })
    } else {
        Content::of(&state)?.find(dir.inode.nr(), name)?
    };
    found.map(use_it).transpose()
}

/// The inode that ".." names, from the front of `i_block`.
pub(super) fn parent_of(dir: &Dir<'_>) -> InodeNr {
    inline_data::parent(&dir.inode.read().disk.i_block)
}

/// Changes the inode that ".." names.
pub(super) fn set_parent(dir: &Dir<'_>, handle: &Handle<'_>, parent: InodeNr) {
    inline_data::set_parent(&mut handle.write(dir.inode).disk.i_block, parent);
}

/// True when there is no entry.
pub(super) fn is_empty(dir: &Dir<'_>) -> Result<bool> {
    let content = Content::of(&dir.inode.read())?;
    let first = content.entries(dir.inode.nr()).next().transpose()?;
    Ok(first.is_none())
}

/// Makes an empty inline directory; one with a block if the inode has no space for the attribute.
pub(super) fn init(dir: &mut Dir<'_>, handle: &Handle<'_>, parent: InodeNr) -> Result<()> {
    let stored = {
        let mut state = handle.write(dir.inode);
        let mut content = Content {
            i_block: [0; ROOT_BYTES],
            value: Vec::new(),
        };
        inline_data::init_directory(&mut content.i_block, parent);
        content.store(&mut state)
    };
    match stored {
        Err(Error::NoSpace) => {
            let image = block_image(dir, parent, None)?;
            move_to_block(dir, handle, image)
        }
        other => other,
    }
}

/// As [`super::can_insert`]; returns by how many blocks the directory grows.
pub(super) fn can_insert(dir: &Dir<'_>, name: &[u8], index: LockMode) -> DirResult<u32> {
    let nr = dir.inode.nr();
    let state = dir.inode.read();
    let mut content = Content::of(&state)?;
    if content.find(nr, name)?.is_some() {
        return Err(Error::Exists.into());
    }
    if index != LockMode::Exclusive {
        return Err(DirError::NeedExclusive);
    }
    let kind = dir.config().entry_type(FileType::Regular);
    let inode = nr; // of any: what counts is the length of the name
    let new = NewEntry { inode, name, kind };
    let fits = add(&mut content, nr, &new)? || grow_value(&state, &mut content, &new)?;
    Ok(u32::from(!fits))
}

/// Adds an entry; false when the inode is full, and the directory has to be [converted](convert).
pub(super) fn insert(dir: &Dir<'_>, handle: &Handle<'_>, new: &NewEntry<'_>) -> DirResult<bool> {
    let nr = dir.inode.nr();
    let mut state = handle.write(dir.inode);
    let mut content = Content::of(&state)?;
    if content.find(nr, new.name)?.is_some() {
        return Err(Error::Exists.into());
    }
    let fits = add(&mut content, nr, new)? || grow_value(&state, &mut content, new)?;
    if fits {
        content.store(&mut state)?;
    }
    Ok(fits)
}

fn add(content: &mut Content, nr: InodeNr, new: &NewEntry<'_>) -> Result<bool> {
    let added = content.in_areas(nr, |area| match area.insert(new)? {
        Insertion::Done(_) => Ok(Some(())),
        Insertion::Exists(..) | Insertion::Full => Ok(None),
    })?;
    Ok(added.is_some())
}

/// Extends the value to the inode's free space, if the entry fits then.
fn grow_value(state: &InodeState, content: &mut Content, new: &NewEntry<'_>) -> Result<bool> {
    let room = ibody_capacity_bytes(state.disk.tail.len());
    let used = attributes(state)?.area_bytes() - value_bytes(content.value.len());
    let len = room.saturating_sub(used) & !3;
    if len < content.value.len() + new.space_needed() {
        return Ok(false);
    }
    inline_data::grow_value(&mut content.value, len, location(state))?;
    add(content, state.nr(), new)
}

/// Moves the entries into a first block.
pub(super) fn convert(dir: &mut Dir<'_>, handle: &Handle<'_>) -> Result<()> {
    let content = Content::of(&dir.inode.read())?;
    let image = block_image(dir, inline_data::parent(&content.i_block), Some(&content))?;
    move_to_block(dir, handle, image)
}

/// Lets the directory begin with a block of these bytes instead of its content in the inode.
fn move_to_block(dir: &mut Dir<'_>, handle: &Handle<'_>, image: Vec<u8>) -> Result<()> {
    let before = dir.inode.read().disk.clone();
    {
        let mut state = handle.write(dir.inode);
        let mut set = attributes(&state)?;
        set.remove(&XattrName::inline_data());
        // Cannot fail: the set got smaller.
        let _ = encode_ibody(&mut state.disk.tail, &set);
        state.disk.flags.remove(InodeFlags::INLINE_DATA);
        state.disk.size = 0;
        map::init(dir.fs, &mut state);
    }
    dir.form = Form::Linear;
    dir.blocks = 0;
    let grown = grow::append(dir, handle, image);
    if grown.is_err() {
        handle.write(dir.inode).disk = before;
        dir.form = Form::Inline;
    }
    grown.map(drop)
}

fn block_image(dir: &Dir<'_>, parent: InodeNr, content: Option<&Content>) -> Result<Vec<u8>> {
    let nr = dir.inode.nr();
    let kind = dir.config().entry_type(FileType::Directory);
    let mut image = vec![0; dir.fs.block_size()];
    init_first_block(&mut image, dir.config().tail, nr, parent, kind);
    let mut leaf = DirLeaf::new(&mut image[..], dir.config().tail, DamageLocation::Inode(nr));
    for entry in content.iter().flat_map(|content| content.entries(nr)) {
        let DirEntry {
            inode, name, kind, ..
        } = entry?;
        match leaf.insert(&NewEntry { inode, name, kind })? {
            Insertion::Done(_) => {}
            Insertion::Exists(..) => return Err(dir.damage(CorruptKind::NameStandsTwice).into()),
            Insertion::Full => return Err(dir.damage(CorruptKind::BlockTooSmall).into()),
        }
    }
    Ok(image)
}

/// As [`super::remove`].
pub(super) fn remove(
    dir: &Dir<'_>,
    handle: &Handle<'_>,
    name: &[u8],
    child: InodeNr,
) -> DirResult<()> {
    change(dir, handle, (name, child), |area| {
        Ok(area.remove(name)?.map(drop))
    })
}

/// As [`super::replace`].
pub(super) fn replace(
    dir: &Dir<'_>,
    handle: &Handle<'_>,
    (name, old): (&[u8], InodeNr),
    (new, kind): (InodeNr, DirEntryType),
) -> DirResult<()> {
    change(dir, handle, (name, old), |area| {
        Ok(area.retarget(name, new, kind)?.then_some(()))
    })
}

/// Changes the entry `name` if its inode is `child`.
fn change(
    dir: &Dir<'_>,
    handle: &Handle<'_>,
    (name, child): (&[u8], InodeNr),
    change: impl FnMut(&mut DirLeaf<&mut [u8]>) -> std::result::Result<Option<()>, Corrupt>,
) -> DirResult<()> {
    let nr = dir.inode.nr();
    let mut state = handle.write(dir.inode);
    let mut content = Content::of(&state)?;
    match content.find(nr, name)? {
        Some(found) if found.inode == child => content.in_areas(nr, change)?,
        _ => return Err(Error::NotFound.into()),
    };
    Ok(content.store(&mut state)?)
}
