//! The two encodings, and the validation of a list.

use super::{Acl, AclEntry, PERM_ALL, Tag};
use crate::bytes::{get_u16, get_u32, put_u16, put_u32, rest, rest_mut};

const DISK_VERSION: u32 = 1;
const XATTR_VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const SHORT_BYTES: usize = 4;
const LONG_BYTES: usize = 8;
const NO_ID: u32 = u32::MAX;

/// Reason why bytes or entries are not a valid list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// The version in the header is not the one of the format.
    #[error("unknown version of the access control list")]
    Version,
    /// The length fits no number of entries.
    #[error("access control list is cut off")]
    Length,
    /// An unknown tag, or permissions beyond read, write, execute.
    #[error("bad entry in the access control list")]
    Entry,
    /// Missing, duplicate or misplaced entries.
    #[error("entries of the access control list do not fit together")]
    Structure,
}

impl Tag {
    const fn code(self) -> u16 {
        match self {
            Tag::UserObj => 0x01,
            Tag::User(_) => 0x02,
            Tag::GroupObj => 0x04,
            Tag::Group(_) => 0x08,
            Tag::Mask => 0x10,
            Tag::Other => 0x20,
        }
    }

    fn from_code(code: u16, id: u32) -> Result<Tag, AclError> {
        match code {
            0x01 => Ok(Tag::UserObj),
            0x02 => Ok(Tag::User(id)),
            0x04 => Ok(Tag::GroupObj),
            0x08 => Ok(Tag::Group(id)),
            0x10 => Ok(Tag::Mask),
            0x20 => Ok(Tag::Other),
            _ => Err(AclError::Entry),
        }
    }

    const fn id(self) -> Option<u32> {
        match self {
            Tag::User(id) | Tag::Group(id) => Some(id),
            _ => None,
        }
    }
}

impl Acl {
    /// A list of these entries, which are brought into order.
    pub fn new(mut entries: Vec<AclEntry>) -> Result<Acl, AclError> {
        entries.sort_by_key(|entry| entry.tag);
        Acl::new_in_order(entries)
    }

    /// A list from outside: kinds of entries must be in order. Linux requires neither ascending nor
    /// distinct ids, so neither does this check; they are preserved.
    fn new_in_order(entries: Vec<AclEntry>) -> Result<Acl, AclError> {
        if !entries.is_sorted_by_key(|entry| entry.tag.code()) {
            return Err(AclError::Structure);
        }
        if entries.iter().any(|entry| entry.perm & !PERM_ALL != 0) {
            return Err(AclError::Entry);
        }
        if entries.iter().any(|entry| entry.tag.id() == Some(NO_ID)) {
            return Err(AclError::Entry);
        }
        let pairs = entries.iter().zip(entries.iter().skip(1));
        let twice = pairs
            .filter(|(entry, _)| entry.tag.id().is_none())
            .any(|(entry, next)| entry.tag == next.tag);
        let has = |tag| entries.iter().any(|entry| entry.tag == tag);
        let named = entries.iter().any(|entry| entry.tag.id().is_some());
        let complete = has(Tag::UserObj) && has(Tag::GroupObj) && has(Tag::Other);
        if twice || !complete || (named && !has(Tag::Mask)) {
            return Err(AclError::Structure);
        }
        Ok(Acl { entries })
    }

    /// The list that is equivalent to the permission bits of `mode`.
    pub fn from_mode(mode: u16) -> Acl {
        let entry = |tag, shift: u32| AclEntry {
            tag,
            perm: mode >> shift & PERM_ALL,
        };
        let entries = vec![
            entry(Tag::UserObj, 6),
            entry(Tag::GroupObj, 3),
            entry(Tag::Other, 0),
        ];
        Acl { entries }
    }

    /// The entries by kind of tag; ids of one kind may be in any order.
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    pub(super) fn entries_mut(&mut self) -> &mut [AclEntry] {
        &mut self.entries
    }

    /// Reads the value that ext4 stores. A value without entries means "no list": `None`.
    pub fn from_disk(value: &[u8]) -> Result<Option<Acl>, AclError> {
        check_version(value, DISK_VERSION)?;
        let mut left = rest(value, HEADER_BYTES);
        let mut entries = Vec::new();
        while !left.is_empty() {
            let code = get_u16(left, 0);
            let bytes = if matches!(code, 0x02 | 0x08) {
                LONG_BYTES
            } else {
                SHORT_BYTES
            };
            let (entry, others) = left.split_at_checked(bytes).ok_or(AclError::Length)?;
            let tag = Tag::from_code(code, get_u32(entry, 4))?;
            let perm = get_u16(entry, 2);
            entries.push(AclEntry { tag, perm });
            left = others;
        }
        if entries.is_empty() {
            return Ok(None);
        }
        Acl::new_in_order(entries).map(Some)
    }

    /// The value that ext4 stores.
    pub fn to_disk(&self) -> Vec<u8> {
        let mut value = DISK_VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            value.extend(entry.tag.code().to_le_bytes());
            value.extend(entry.perm.to_le_bytes());
            value.extend(entry.tag.id().iter().flat_map(|id| id.to_le_bytes()));
        }
        value
    }

    /// Reads the attribute value that a program passes. A value without entries means "no list":
    /// `None`.
    pub fn from_xattr(value: &[u8]) -> Result<Option<Acl>, AclError> {
        check_version(value, XATTR_VERSION)?;
        let body = rest(value, HEADER_BYTES);
        if !body.len().is_multiple_of(LONG_BYTES) {
            return Err(AclError::Length);
        }
        if body.is_empty() {
            return Ok(None);
        }
        let entries = body.chunks(LONG_BYTES).map(|raw| {
            let tag = Tag::from_code(get_u16(raw, 0), get_u32(raw, 4))?;
            Ok(AclEntry {
                tag,
                perm: get_u16(raw, 2),
            })
        });
        Acl::new_in_order(entries.collect::<Result<_, _>>()?).map(Some)
    }

    /// The attribute value that a program gets.
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut value = XATTR_VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            value.extend(entry.tag.code().to_le_bytes());
            value.extend(entry.perm.to_le_bytes());
            value.extend(entry.tag.id().unwrap_or(NO_ID).to_le_bytes());
        }
        value
    }
}

/// The kind of an id in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// The id belongs to an entry of a named user.
    User,
    /// The id belongs to an entry of a named group.
    Group,
}

/// Replaces the ids of users and groups in an attribute value that a program passes or gets; the
/// rest, valid or not, stays as it is.
///
/// # Errors
/// The first one of `replace`; earlier ids are replaced.
pub fn replace_ids<E>(
    value: &mut [u8],
    replace: impl Fn(IdKind, u32) -> Result<u32, E>,
) -> Result<(), E> {
    let (entries, _) = rest_mut(value, HEADER_BYTES).as_chunks_mut::<LONG_BYTES>();
    for entry in entries {
        let id = get_u32(entry, 4);
        let kind = match Tag::from_code(get_u16(entry, 0), id) {
            Ok(Tag::User(_)) => IdKind::User,
            Ok(Tag::Group(_)) => IdKind::Group,
            _ => continue,
        };
        put_u32(entry, 4, replace(kind, id)?);
    }
    Ok(())
}

/// Leaves some entries of an attribute value only what every entry of a group and the one of all
/// others grant; `keeps` tells which entries stay as they are.
pub fn restrict(value: &mut [u8], keeps: impl Fn(Tag) -> bool) {
    let (entries, _) = rest_mut(value, HEADER_BYTES).as_chunks_mut::<LONG_BYTES>();
    let granted = entries
        .iter()
        .filter(|entry| {
            tag_of(&entry[..]).as_ref().is_some_and(|tag| {
                *tag == Tag::Other || (matches!(tag, Tag::GroupObj | Tag::Group(_)) && keeps(*tag))
            })
        })
        .fold(PERM_ALL, |perm, entry| perm & get_u16(&entry[..], 2));
    for entry in entries {
        if tag_of(&entry[..]).is_some_and(|tag| !keeps(tag)) {
            put_u16(entry, 2, granted);
        }
    }
}

fn tag_of(entry: &[u8]) -> Option<Tag> {
    Tag::from_code(get_u16(entry, 0), get_u32(entry, 4)).ok()
}

fn check_version(value: &[u8], version: u32) -> Result<(), AclError> {
    if value.len() < HEADER_BYTES {
        return Err(AclError::Length);
    }
    if get_u32(value, 0) != version {
        return Err(AclError::Version);
    }
    Ok(())
}
