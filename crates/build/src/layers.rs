//! Entries enter the tree of their layer.
//!
//! Each layer has a tree of its own while sources are read, with its whiteouts and opaque marks;
//! [`crate::merge`] makes one tree of all of them at the end. So what a layer says does not depend
//! on the layers that were read before it.
//!
//! Invariant: a directory for the path of a mark only ([`Origin::Marks`]) has no entries below it.

use uext4_format::FileType;

use crate::attributes::AttributesId;
use crate::names::NameId;
use crate::tree::{FileId, Layer, Origin, Pending, Place, Tree};
use crate::{Error, Result};

/// Upper layers that [`Tree::is_covered`] looks through.
const COVERING_MAX: usize = 64;
/// Directories above a path for which [`Tree::is_covered`] looks it up.
const COVERED_LEVELS_MAX: usize = 64;

/// The place of a path in the tree of its layer.
pub(crate) enum Spot<'a> {
    /// The root.
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
enum Purpose {
    /// A file: directories on the way become part of the image.
    Add,
    /// A mark: they need not.
    Hide,
}

impl Tree {
    /// The root of the layer that entries come from.
    fn layer_root(&self) -> FileId {
        self.layers.last().map_or(self.root, |layer| layer.root)
    }

    /// The place for a file at the path, with the directories above it.
    pub(crate) fn spot<'a>(&mut self, path: &'a [u8]) -> Result<Spot<'a>> {
        self.walk(path, Purpose::Add)
    }

    fn walk<'a>(&mut self, path: &'a [u8], purpose: Purpose) -> Result<Spot<'a>> {
        if path.is_empty() {
            return Ok(Spot::Root);
        }
        let mut names = path.split(|byte| *byte == b'/').peekable();
        let mut parent = self.layer_root();
        while let Some(name) = names.next() {
            let known = self.names.find(parent, name);
            if names.peek().is_none() {
                return Ok(Spot::Name {
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
        Ok(Spot::Root)
    }

    /// Makes a directory that no entry gives.
    pub(crate) fn make_directory(
        &mut self,
        parent: FileId,
        name: &[u8],
        known: Option<NameId>,
        origin: Origin,
    ) -> Result<FileId> {
        let file = self.new_file(FileType::Directory, origin, self.implicit)?;
        self.bind(parent, name, known, file)?;
        Ok(file)
    }

    /// Makes a name refer to a file.
    pub(crate) fn bind(
        &mut self,
        parent: FileId,
        name: &[u8],
        known: Option<NameId>,
        file: FileId,
    ) -> Result<()> {
        let layer = self.layer;
        let id = match known {
            Some(id) => {
                let name = self.names.get_mut(id);
                (name.file, name.layer) = (file, layer);
                id
            }
            None => self.new_name(parent, name, file)?,
        };
        let file = self.file_mut(file);
        if file.is_directory() {
            file.name = Some(id);
        }
        Ok(())
    }

    /// Puts a directory at the spot, or gives one that is there its attributes.
    pub(crate) fn add_directory(
        &mut self,
        path: &[u8],
        spot: &Spot<'_>,
        attributes: AttributesId,
    ) -> Result<FileId> {
        let there = match spot {
            Spot::Root => Some(self.layer_root()),
            Spot::Name { known, .. } => known.map(|id| self.names.get(id).file),
        };
        let there = there.filter(|id| *id != FileId::NONE && self.file(*id).is_directory());
        let Some(id) = there else {
            self.hide_replaced(spot);
            return self.add_file(path, spot, FileType::Directory, attributes);
        };
        let file = self.file_mut(id);
        (file.origin, file.attributes) = (Origin::Entry, attributes);
        Ok(id)
    }

    /// An earlier entry of the layer at the spot, which is no directory, has taken away what the
    /// layers below have there, as tar does: a directory that replaces it begins empty.
    fn hide_replaced(&mut self, spot: &Spot<'_>) {
        if let Spot::Name {
            known: Some(id), ..
        } = spot
            && self.names.get(*id).file != FileId::NONE
        {
            self.names.get_mut(*id).hides = true;
            self.note_marks();
        }
    }

    /// Puts a new file at the spot, which replaces one of the same layer.
    pub(crate) fn add_file(
        &mut self,
        path: &[u8],
        spot: &Spot<'_>,
        kind: FileType,
        attributes: AttributesId,
    ) -> Result<FileId> {
        self.check_free(path, spot)?;
        let file = self.new_file(kind, Origin::Entry, attributes)?;
        self.name_file(spot, file)?;
        Ok(file)
    }

    /// Gives a file one more name. A file that the layer does not have is looked for in the layers
    /// below when they are known.
    pub(crate) fn add_link(&mut self, path: &[u8], spot: &Spot<'_>, target: &[u8]) -> Result<()> {
        self.check_free(path, spot)?;
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
        self.name_file(spot, file)
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

    fn name_file(&mut self, spot: &Spot<'_>, file: FileId) -> Result<()> {
        match spot {
            Spot::Name {
                parent,
                name,
                known,
            } => self.bind(*parent, name, *known, file),
            Spot::Root => Ok(()),
        }
    }

    /// Checks that a file that is no directory may be put at the spot.
    fn check_free(&self, path: &[u8], spot: &Spot<'_>) -> Result<()> {
        let refuse = |problem: &str| {
            let advice = "leave one of the two out";
            Err(Error::refused(path, problem, advice))
        };
        let Spot::Name { known, .. } = spot else {
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

    /// Hides a path of the layers below.
    pub(crate) fn hide(&mut self, path: &[u8]) -> Result<()> {
        match self.walk(path, Purpose::Hide)? {
            Spot::Root => return self.hide_below(path),
            Spot::Name {
                parent,
                name,
                known,
            } => {
                let id = match known {
                    Some(id) => id,
                    None => self.new_name(parent, name, FileId::NONE)?,
                };
                self.names.get_mut(id).hides = true;
            }
        }
        self.note_marks();
        Ok(())
    }

    /// Hides everything below a path of the layers below.
    pub(crate) fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        let directory = match self.walk(path, Purpose::Hide)? {
            Spot::Root => self.layer_root(),
            Spot::Name {
                parent,
                name,
                known,
            } => match known.map(|id| self.names.get(id).file) {
                Some(file) if file != FileId::NONE => file,
                _ => self.make_directory(parent, name, known, Origin::Marks)?,
            },
        };
        let mark = self.layer.saturating_add(1);
        self.file_mut(directory).opaque = mark;
        self.note_marks();
        Ok(())
    }

    fn note_marks(&mut self) {
        if let Some(layer) = self.layers.last_mut() {
            layer.has_marks = true;
        }
    }

    /// Begins the next layer.
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

    /// Whether one of the layers just above hides a path of this layer, as far as that can be told
    /// before all layers are known. An error costs time or space: the merge decides.
    pub(crate) fn is_covered(&self, path: &[u8]) -> bool {
        let levels = path.iter().filter(|byte| **byte == b'/').count();
        if levels >= COVERED_LEVELS_MAX {
            return false;
        }
        let mut upper = self.layers.iter().rev().skip(1).take(COVERING_MAX);
        upper.any(|layer| self.covers(layer.root, path))
    }

    fn covers(&self, root: FileId, path: &[u8]) -> bool {
        let mut at = root;
        for name in path.split(|byte| *byte == b'/') {
            if self.file(at).opaque != 0 {
                return true;
            }
            let Some(known) = self.names.find(at, name).map(|id| self.names.get(id)) else {
                return false;
            };
            if known.hides || !self.file(known.file).is_directory() {
                return true;
            }
            at = known.file;
        }
        self.file(at).origin != Origin::Marks
    }

    /// Takes the place of a file out, so that it is there no more.
    pub(crate) fn take_place(&mut self, id: FileId) -> Place {
        std::mem::replace(&mut self.file_mut(id).place, Place::None)
    }
}
