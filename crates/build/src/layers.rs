//! Entries enter the tree: layers from the top down, hidden names, directories without an entry.
//!
//! A name that a layer hides, an opaque directory, and a file that is no directory hide all of
//! later layers below them. A directory that exists for such marks only is no part of the image.
//!
//! Invariant: an entry that is hidden changes nothing, neither here nor above.

use uext4_format::FileType;

use crate::attributes::AttributesId;
use crate::names::NameId;
use crate::tree::{File, FileId, Origin, Place, Tree};
use crate::{Error, Result};

/// The place of a path.
pub(crate) enum Spot<'a> {
    /// An upper layer hides it.
    Hidden,
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
    /// The place for a file at the path, with the directories above it.
    pub(crate) fn spot<'a>(&mut self, path: &'a [u8]) -> Result<Spot<'a>> {
        self.walk(path, Purpose::Add)
    }

    fn walk<'a>(&mut self, path: &'a [u8], purpose: Purpose) -> Result<Spot<'a>> {
        if path.is_empty() {
            return Ok(Spot::Root);
        }
        let mut above = vec![FileId::ROOT];
        let mut names = path.split(|byte| *byte == b'/').peekable();
        let mut parent = FileId::ROOT;
        while let Some(name) = names.next() {
            let known = self.names.find(parent, name);
            if self.hides(parent, known) {
                return Ok(Spot::Hidden);
            }
            if names.peek().is_none() {
                self.enter_image(&above, purpose);
                return Ok(Spot::Name {
                    parent,
                    name,
                    known,
                });
            }
            parent = match known.map(|id| self.names.get(id)) {
                Some(found) if found.file != FileId::NONE => {
                    if !self.file(found.file).is_directory() {
                        return self.no_directory(path, name, found.layer);
                    }
                    found.file
                }
                _ => self.make_directory(parent, name, known)?,
            };
            above.push(parent);
        }
        Ok(Spot::Root)
    }

    /// Whether a name of a directory is hidden from this layer.
    fn hides(&self, parent: FileId, known: Option<NameId>) -> bool {
        let earlier = |mark: u16| mark != 0 && mark - 1 < self.layer;
        let hidden = known.is_some_and(|id| earlier(self.names.get(id).hidden));
        hidden || earlier(self.file(parent).opaque)
    }

    fn no_directory<'a>(&self, path: &[u8], name: &[u8], layer: u16) -> Result<Spot<'a>> {
        if layer < self.layer {
            return Ok(Spot::Hidden);
        }
        let problem = format!("{} is above it, and no directory", name.escape_ascii());
        Err(Error::refused(path, problem, "give the path without links"))
    }

    fn make_directory(
        &mut self,
        parent: FileId,
        name: &[u8],
        known: Option<NameId>,
    ) -> Result<FileId> {
        let file = self.new_file(FileType::Directory, Origin::Marks, self.implicit)?;
        self.bind(parent, name, known, file)?;
        Ok(file)
    }

    /// Makes a name refer to a file.
    fn bind(
        &mut self,
        parent: FileId,
        name: &[u8],
        known: Option<NameId>,
        file: FileId,
    ) -> Result<()> {
        let layer = self.layer;
        match known {
            Some(id) => {
                let name = self.names.get_mut(id);
                (name.file, name.layer) = (file, layer);
            }
            None => {
                self.new_name(parent, name, file)?;
            }
        }
        Ok(())
    }

    fn enter_image(&mut self, above: &[FileId], purpose: Purpose) {
        if purpose == Purpose::Hide {
            return;
        }
        for id in above {
            let file = self.file_mut(*id);
            if file.origin == Origin::Marks {
                file.origin = Origin::Implicit;
            }
        }
    }

    /// Puts a directory at the spot; answers it if the attributes are its own now.
    pub(crate) fn add_directory(
        &mut self,
        path: &[u8],
        spot: &Spot<'_>,
        attributes: AttributesId,
    ) -> Result<Option<FileId>> {
        let there = match spot {
            Spot::Hidden => return Ok(None),
            Spot::Root => Some(FileId::ROOT),
            Spot::Name { known, .. } => known.map(|id| self.names.get(id).file),
        };
        let there = there.filter(|id| *id != FileId::NONE);
        if let Some(id) = there.filter(|id| self.file(*id).is_directory()) {
            let layer = self.layer;
            let file = self.file_mut(id);
            if file.origin == Origin::Entry && file.layer < layer {
                return Ok(None);
            }
            (file.origin, file.layer, file.attributes) = (Origin::Entry, layer, attributes);
            return Ok(Some(id));
        }
        self.add_file(path, spot, FileType::Directory, attributes)
    }

    /// Puts a new file at the spot, which replaces one of the same layer; answers it if it is not
    /// hidden.
    pub(crate) fn add_file(
        &mut self,
        path: &[u8],
        spot: &Spot<'_>,
        kind: FileType,
        attributes: AttributesId,
    ) -> Result<Option<FileId>> {
        if !self.is_open(path, spot)? {
            return Ok(None);
        }
        let file = self.new_file(kind, Origin::Entry, attributes)?;
        self.name_file(spot, file)?;
        Ok(Some(file))
    }

    /// Gives a file one more name.
    pub(crate) fn add_link(&mut self, path: &[u8], spot: &Spot<'_>, target: &[u8]) -> Result<()> {
        if !self.is_open(path, spot)? {
            return Ok(());
        }
        let refuse = |problem: &str| {
            let problem = format!("it links to {}, which {problem}", target.escape_ascii());
            Err(Error::refused(path, problem, "give the file itself first"))
        };
        match self.linkable(target) {
            None => refuse("the same layer does not have, or an upper layer hides"),
            Some(file) if self.file(file).is_directory() => refuse("is a directory"),
            Some(file) => self.name_file(spot, file),
        }
    }

    fn linkable(&self, target: &[u8]) -> Option<FileId> {
        let mut at = FileId::ROOT;
        let mut layer = 0;
        for name in target.split(|byte| *byte == b'/') {
            let id = self
                .names
                .find(at, name)
                .filter(|id| !self.hides(at, Some(*id)))?;
            let name = self.names.get(id);
            (at, layer) = (name.file, name.layer);
            if at == FileId::NONE {
                return None;
            }
        }
        (layer == self.layer).then_some(at)
    }

    fn name_file(&mut self, spot: &Spot<'_>, file: FileId) -> Result<()> {
        match spot {
            Spot::Name {
                parent,
                name,
                known,
            } => self.bind(*parent, name, *known, file),
            Spot::Hidden | Spot::Root => Ok(()),
        }
    }

    /// Whether a file that is no directory may be put at the spot.
    fn is_open(&self, path: &[u8], spot: &Spot<'_>) -> Result<bool> {
        let refuse = |problem: &str| {
            let advice = "leave one of the two out";
            Err(Error::refused(path, problem, advice))
        };
        let known = match spot {
            Spot::Hidden => return Ok(false),
            Spot::Root => return refuse("the root is a directory, and the entry is not"),
            Spot::Name { known, .. } => known.map(|id| self.names.get(id)),
        };
        let Some(known) = known.filter(|known| known.file != FileId::NONE) else {
            return Ok(true);
        };
        let there: &File = self.file(known.file);
        if there.origin == Origin::Marks {
            return Ok(true);
        }
        if known.layer < self.layer {
            return Ok(false);
        }
        if there.is_directory() {
            return refuse("the path was a directory before, and is now another file");
        }
        Ok(true)
    }

    /// Hides a path from later layers.
    pub(crate) fn hide(&mut self, path: &[u8]) -> Result<()> {
        let mark = self.layer.saturating_add(1);
        match self.walk(path, Purpose::Hide)? {
            Spot::Hidden => {}
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
                self.names.get_mut(id).hidden = mark;
            }
        }
        Ok(())
    }

    /// Hides everything below a path from later layers.
    pub(crate) fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        let mark = self.layer.saturating_add(1);
        let directory = match self.walk(path, Purpose::Hide)? {
            Spot::Hidden => return Ok(()),
            Spot::Root => FileId::ROOT,
            Spot::Name {
                parent,
                name,
                known,
            } => match known.map(|id| self.names.get(id).file) {
                Some(file) if file != FileId::NONE => file,
                _ => self.make_directory(parent, name, known)?,
            },
        };
        let file = self.file_mut(directory);
        if file.opaque == 0 {
            file.opaque = mark;
        }
        Ok(())
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
        Ok(())
    }

    /// Takes the place of a file out, so that it is there no more.
    pub(crate) fn take_place(&mut self, id: FileId) -> Place {
        std::mem::replace(&mut self.file_mut(id).place, Place::None)
    }
}
