//! Names and files of the tree as the image has them, and paths for messages.

use uext4_format::FileType;

use crate::error::Result;
use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, Origin};
use crate::tree::ids::{FileId, NameId};

impl Tree {
    /// Whether a name has a file that no mark of an upper layer takes away.
    pub(crate) fn is_alive(&self, id: NameId) -> bool {
        let name = self.names.get(id);
        let opaque = self.file(name.parent).opaque;
        name.file != FileId::NONE && (opaque == 0 || name.layer < opaque)
    }

    /// The name in a directory of the image.
    pub(crate) fn find_alive(&self, directory: FileId, name: &[u8]) -> Option<NameId> {
        let id = self.names.find(directory, name);
        id.filter(|id| {
            self.is_alive(*id) && self.file(self.names.get(*id).file).origin != Origin::Marks
        })
    }

    /// The same name in another directory.
    pub(crate) fn find_same(&self, directory: FileId, name: NameId) -> Option<NameId> {
        self.find_alive(directory, self.names.bytes(name))
    }

    /// Makes the same name of another directory refer to a file.
    pub(crate) fn bind_same(&mut self, parent: FileId, name: NameId, file: FileId) -> Result<()> {
        let bytes = self.names.bytes(name).to_vec();
        let known = self.names.find(parent, &bytes);
        self.bind(parent, &bytes, known, file)
    }

    /// Makes a directory of the same name in another directory.
    pub(crate) fn make_same(&mut self, parent: FileId, name: NameId) -> Result<FileId> {
        let bytes = self.names.bytes(name).to_vec();
        let known = self.names.find(parent, &bytes);
        self.make_directory(parent, &bytes, known, Origin::Implicit)
    }

    pub(crate) fn is_symlink(&self, id: FileId) -> bool {
        self.file(id).kind == FileType::Symlink
    }

    /// Whether the inode holds the file. Of directories this is known when they are written.
    pub(crate) fn is_inline(&self, id: FileId) -> bool {
        let file = self.file(id);
        let Some(max) = self.attributes.get(file.attributes).inline_max else {
            return false;
        };
        match file.kind {
            FileType::Regular => file.origin != Origin::Value && file.size <= max,
            FileType::Directory => matches!(file.location, DataLocation::Kept(_)),
            _ => false,
        }
    }
}

/// A path of a file, for messages: looks through all names.
pub(crate) fn path_of(tree: &Tree, id: FileId) -> Vec<u8> {
    let mut parts = Vec::new();
    let mut at = id;
    while at != tree.root {
        let mut names = (0..tree.names.len()).map(NameId);
        let Some(name) = names.find(|name| tree.names.get(*name).file == at) else {
            break;
        };
        parts.push(tree.names.bytes(name).to_vec());
        at = tree.names.get(name).parent;
    }
    parts.reverse();
    parts.join(&b'/')
}

/// The path of a name below a directory, for messages.
pub(crate) fn path_below(tree: &Tree, directory: FileId, name: NameId) -> Vec<u8> {
    let mut parts = vec![tree.names.bytes(name)];
    let mut at = directory;
    while let Some(id) = tree.file(at).name {
        parts.push(tree.names.bytes(id));
        at = tree.names.get(id).parent;
    }
    parts.reverse();
    parts.join(&b'/')
}
