//! The attributes of one area, in memory.

use super::{XattrName, entry_bytes, value_bytes};
use crate::InodeNr;
use uext4_num::usize_of;

/// A value, or the inode that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XattrValue {
    /// Next to the entry, in the same area.
    Here(Vec<u8>),
    /// In a separate inode (`ea_inode`).
    Inode {
        /// Inode that holds the value.
        inode: InodeNr,
        /// Length of the value in bytes.
        size: u32,
        /// The hash of name and value hash, as stored with the entry.
        entry_hash: u32,
    },
}

impl XattrValue {
    /// The length of the value, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Here(value) => value.len(),
            Self::Inode { size, .. } => usize_of(*size),
        }
    }

    /// True for a value without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it takes in the area.
    pub fn area_bytes(&self) -> usize {
        match self {
            Self::Here(value) => value_bytes(value.len()),
            Self::Inode { .. } => 0,
        }
    }
}

/// An extended attribute: its name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// The name, with the number of its prefix.
    pub name: XattrName,
    /// Its value, or the inode of the value.
    pub value: XattrValue,
}

impl Xattr {
    /// Bytes that entry and value take in an area.
    pub fn area_bytes(&self) -> usize {
        entry_bytes(self.name.rest.len()).saturating_add(self.value.area_bytes())
    }
}

/// All attributes of one area, in stored order; new ones are appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XattrSet {
    entries: Vec<Xattr>,
}

impl XattrSet {
    /// A set without attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The attributes in the order in which they are stored.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Xattr> {
        self.entries.iter()
    }

    /// The number of attributes in the set.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the area can be freed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of the attribute `name`, if it is set.
    pub fn get(&self, name: &XattrName) -> Option<&XattrValue> {
        self.entries
            .iter()
            .find(|entry| entry.name == *name)
            .map(|entry| &entry.value)
    }

    /// Sets `name` and returns its old value.
    pub fn set(&mut self, name: XattrName, value: XattrValue) -> Option<XattrValue> {
        match self.entries.iter_mut().find(|entry| entry.name == name) {
            Some(entry) => Some(std::mem::replace(&mut entry.value, value)),
            None => {
                self.entries.push(Xattr { name, value });
                None
            }
        }
    }

    /// Removes `name` and returns its value.
    pub fn remove(&mut self, name: &XattrName) -> Option<XattrValue> {
        let at = self.entries.iter().position(|entry| entry.name == *name)?;
        Some(self.entries.remove(at).value)
    }

    /// Bytes that entries and values take in an area, without its header and the 4 zero bytes.
    pub fn area_bytes(&self) -> usize {
        self.entries.iter().map(Xattr::area_bytes).sum()
    }

    /// The entries in the order of a block.
    pub(super) fn sorted(&self) -> Vec<&Xattr> {
        let mut entries: Vec<&Xattr> = self.entries.iter().collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }
}

impl FromIterator<Xattr> for XattrSet {
    fn from_iter<I: IntoIterator<Item = Xattr>>(entries: I) -> Self {
        Self {
            entries: entries.into_iter().collect(),
        }
    }
}
