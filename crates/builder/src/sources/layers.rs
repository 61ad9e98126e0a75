//! Entries enter the tree of their layer.
//!
//! Each layer has a tree of its own while sources are read, with its whiteouts and opaque marks;
//! [`crate::tree::merge`] makes one tree of all of them at the end. So what a layer says does not
//! depend on the layers that were read before it.
//!
//! Invariant: a directory for the path of a mark only ([`Origin::Marks`]) has no entries below it.

use uext4_format::FileType;

use crate::error::{Error, Result};
use crate::tree::arena::Tree;
use crate::tree::file::Origin;
use crate::tree::ids::{AttributesId, FileId, NameId};
use crate::tree::layer::{Layer, Pending};

/// The place of a path in the tree of its layer.
pub(crate) enum PathSlot<'a> {
    /// The root directory, which has no name.
    Root,
    /// A name of a directory, which may exist.
    Name {
        parent: FileId,
        name: &'a [u8],
        known: Option<NameId>,
    },
}

/// Reason for a walk through directories.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A file: directories on the way become part of the image.
    Add,
    /// A mark: they need not.
    Hide,
}

impl Tree {
    /// The root of the layer that entries come from.
    pub(crate) fn layer_root(&self) -> FileId {
        self.layers.last().map_or(self.root, |layer| layer.root)
    }

    /// The place for a file at the path, with the directories above it.
    pub(crate) fn slot<'a>(&mut self, path: &'a [u8]) -> Result<PathSlot<'a>> {
        self.walk(path, Purpose::Add)
    }

    pub(crate) fn walk<'a>(&mut self, path: &'a [u8], purpose: Purpose) -> Result<PathSlot<'a>> {
        if path.is_empty() {
            return Ok(PathSlot::Root);
        }
        let mut names = path.split(|byte| *byte == b'/').peekable();
        let mut parent = self.layer_root();
        while let Some(name) = names.next() {
            let known = self.names.find(parent, name);
            if names.peek().is_none() {
                return Ok(PathSlot::Name {
                    parent,
                    name,
                    known,
                });
            }
            parent = match known.map(|id| self.names.get(id).file) {
                Some(file) if file != FileId::NONE => {
                    if !self.file(file).is_directory() {
                        let problem =
                            format!("{} is above it, and no directory", name.escape_ascii());
                        let advice = "give the path without links";
                        return Err(Error::refused(path, problem, advice));
                    }
                    file
                }
                _ => self.make_directory(parent, name, known, Origin::Marks)?,
            };
            let directory = self.file_mut(parent);
            if purpose == Purpose::Add && directory.origin == Origin::Marks {
                directory.origin = Origin::Implicit;
            }
        }
        Ok(PathSlot::Root)
    }

    /// Puts a directory at the slot, or gives one that is there its attributes.
    pub(crate) fn add_directory(
        &mut self,
        path: &[u8],
        slot: &PathSlot<'_>,
        attributes: AttributesId,
    ) -> Result<FileId> {
        let there = match slot {
            PathSlot::Root => Some(self.layer_root()),
            PathSlot::Name { known, .. } => known.map(|id| self.names.get(id).file),
        };
        let there = there.filter(|id| *id != FileId::NONE && self.file(*id).is_directory());
        let Some(id) = there else {
            self.hide_replaced(slot);
            return self.add_file(path, slot, FileType::Directory, attributes);
        };
        let file = self.file_mut(id);
        (file.origin, file.attributes) = (Origin::Entry, attributes);
        Ok(id)
    }

    /// An earlier entry of the layer at the slot, which is no directory, has taken away what the
    /// layers below have there, as tar does: a directory that replaces it begins empty.
    fn hide_replaced(&mut self, slot: &PathSlot<'_>) {
        if let PathSlot::Name {
            known: Some(id), ..
        } = slot
            && self.names.get(*id).file != FileId::NONE
        {
            self.names.get_mut(*id).hides = true;
            self.record_marks();
        }
    }

    /// Puts a new file at the slot, which replaces one of the same layer.
    pub(crate) fn add_file(
        &mut self,
        path: &[u8],
        slot: &PathSlot<'_>,
        kind: FileType,
        attributes: AttributesId,
    ) -> Result<FileId> {
        self.check_free(path, slot)?;
        let file = self.new_file(kind, Origin::Entry, attributes)?;
        self.name_file(slot, file)?;
        Ok(file)
    }

    /// Gives a file one more name. A file that the layer does not have is looked for in the layers
    /// below when they are known.
    pub(crate) fn add_link(
        &mut self,
        path: &[u8],
        slot: &PathSlot<'_>,
        target: &[u8],
    ) -> Result<()> {
        self.check_free(path, slot)?;
        let file = match self.linkable(target) {
            Some(file) if self.file(file).is_directory() => {
                let problem = format!(
                    "it links to {}, which is a directory",
                    target.escape_ascii()
                );
                let advice = "give links to files only";
                return Err(Error::refused(path, problem, advice));
            }
            Some(file) => file,
            None => {
                let file = self.new_file(FileType::Regular, Origin::Pending, self.implicit)?;
                self.pending.push(Pending {
                    file,
                    path: path.into(),
                    target: target.into(),
                });
                file
            }
        };
        self.name_file(slot, file)
    }

    fn linkable(&self, target: &[u8]) -> Option<FileId> {
        let mut at = self.layer_root();
        for name in target.split(|byte| *byte == b'/') {
            let id = self.names.find(at, name)?;
            at = self.names.get(id).file;
            if at == FileId::NONE || self.file(at).origin == Origin::Marks {
                return None;
            }
        }
        Some(at)
    }

    fn name_file(&mut self, slot: &PathSlot<'_>, file: FileId) -> Result<()> {
        match slot {
            PathSlot::Name {
                parent,
                name,
                known,
            } => self.bind(*parent, name, *known, file),
            PathSlot::Root => Ok(()),
        }
    }

    /// Checks that a file that is no directory may be put at the slot.
    fn check_free(&self, path: &[u8], slot: &PathSlot<'_>) -> Result<()> {
        let refuse = |problem: &str| {
            let advice = "leave one of the two out";
            Err(Error::refused(path, problem, advice))
        };
        let PathSlot::Name { known, .. } = slot else {
            return refuse("the root is a directory, and the entry is not");
        };
        let there = known.map(|id| self.names.get(id).file);
        let there = there
            .filter(|id| *id != FileId::NONE)
            .map(|id| self.file(id));
        match there {
            Some(file) if file.is_directory() && file.origin != Origin::Marks => {
                refuse("the path was a directory before, and is now another file")
            }
            _ => Ok(()),
        }
    }

    /// Begins the next layer; at most 65534 are possible.
    pub(crate) fn next_layer(&mut self) -> Result<()> {
        self.layer = self
            .layer
            .checked_add(1)
            .filter(|layer| *layer < u16::MAX)
            .ok_or_else(|| {
                let problem = "there are more than 65534 layers";
                Error::refused(b"", problem, "merge layers before")
            })?;
        let root = self.new_file(FileType::Directory, Origin::Implicit, self.root_attributes)?;
        self.layers
            .push(Layer::new(root, &self.names, &self.pending));
        Ok(())
    }
}
