//! Names of a tree, in an arena, with a hash table by directory and name.
//!
//! Invariant: the table holds every name once, by open addressing; names are never removed.
//! Memory: 20 bytes a name, its bytes, and 4 to 11 bytes in the table.

use std::hash::{BuildHasher, RandomState};

use uext4_num::{clamp_u8, clamp_u32, low_u32, usize_of};

use crate::tree::ids::{FileId, NameId};

/// A name in a directory of the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    /// The directory that has the name.
    pub(crate) parent: FileId,
    /// The file; [`FileId::NONE`] for a name that only hides.
    pub(crate) file: FileId,
    at: u32,
    /// The layer that gave the file.
    pub(crate) layer: u16,
    len: u8,
    /// Whether its layer hides the name of the layers below.
    pub(crate) hides: bool,
}

/// The names of all directories.
pub(crate) struct Names {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Indices of names plus one; 0: free. A power of two.
    table: Vec<u32>,
    hasher: RandomState,
}

impl Names {
    pub(crate) fn new() -> Names {
        Names {
            bytes: Vec::new(),
            names: Vec::new(),
            table: vec![0; 1024],
            hasher: RandomState::new(),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        clamp_u32(self.names.len())
    }

    pub(crate) fn get(&self, id: NameId) -> Name {
        self.names[usize_of(id.0)]
    }

    pub(crate) fn get_mut(&mut self, id: NameId) -> &mut Name {
        &mut self.names[usize_of(id.0)]
    }

    pub(crate) fn bytes(&self, id: NameId) -> &[u8] {
        let name = &self.names[usize_of(id.0)];
        let at = usize_of(name.at);
        &self.bytes[at..at + usize::from(name.len)]
    }

    /// The name `name` of `parent`, if it exists.
    pub(crate) fn find(&self, parent: FileId, name: &[u8]) -> Option<NameId> {
        let mut slot = self.slot_of(parent, name);
        loop {
            let id = NameId(self.table[slot].checked_sub(1)?);
            if self.get(id).parent == parent && self.bytes(id) == name {
                return Some(id);
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
    }

    /// Adds a name of at most 255 bytes that the directory does not have; `None` if there are too
    /// many bytes of names.
    pub(crate) fn add(
        &mut self,
        parent: FileId,
        name: &[u8],
        file: FileId,
        layer: u16,
    ) -> Option<NameId> {
        let id = NameId(u32::try_from(self.names.len()).ok()?);
        let at = u32::try_from(self.bytes.len()).ok()?;
        if self.names.len() * 4 >= self.table.len() * 3 {
            self.grow();
        }
        self.bytes.extend_from_slice(name);
        self.names.push(Name {
            parent,
            file,
            at,
            layer,
            len: clamp_u8(name.len()),
            hides: false,
        });
        self.enter(id);
        Some(id)
    }

    fn enter(&mut self, id: NameId) {
        let mut slot = self.slot_of(self.get(id).parent, self.bytes(id));
        while self.table[slot] != 0 {
            slot = (slot + 1) & (self.table.len() - 1);
        }
        self.table[slot] = id.0 + 1;
    }

    fn grow(&mut self) {
        let slots = self.table.len() * 2;
        self.table = Vec::new();
        self.table.resize(slots, 0);
        for id in 0..self.len() {
            self.enter(NameId(id));
        }
    }

    fn slot_of(&self, parent: FileId, name: &[u8]) -> usize {
        let hash = self.hasher.hash_one((parent.0, name));
        usize_of(low_u32(hash)) & (self.table.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_their_directory_only() {
        let mut names = Names::new();
        for at in 0..5000_u32 {
            let name = format!("n{at}");
            let id = names.add(FileId(at % 3), name.as_bytes(), FileId(at), 0);
            assert_eq!(id, Some(NameId(at)));
        }
        for at in 0..5000_u32 {
            let name = format!("n{at}");
            assert_eq!(
                names.find(FileId(at % 3), name.as_bytes()),
                Some(NameId(at))
            );
            assert_eq!(names.find(FileId((at + 1) % 3), name.as_bytes()), None);
            assert_eq!(names.bytes(NameId(at)), name.as_bytes());
        }
    }
}
