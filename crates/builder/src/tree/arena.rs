//! The tree in memory: files, and names that refer to them.
//!
//! Layers have trees of their own until they are merged.
//!
//! Memory: 80 bytes a file besides its names; attributes that files share are kept once.

use uext4_format::dirent::NAME_MAX;
use uext4_format::{FileType, InodeNr};
use uext4_num::{clamp_u32, usize_of};

use crate::error::{Error, Result};
use crate::sources::entry::Attributes;
use crate::tree::attributes::Interned;
use crate::tree::file::{DataLocation, File, Later, MappedRun, Origin};
use crate::tree::ids::{AttributesId, FileId, NameId};
use crate::tree::keys::Keys;
use crate::tree::layer::{Layer, Pending};
use crate::tree::limits::Limits;
use crate::tree::names::Names;

/// Files, names and attributes of all layers.
pub(crate) struct Tree {
    pub(crate) names: Names,
    pub(crate) files: Vec<File>,
    pub(crate) attributes: Interned,
    pub(crate) laters: Vec<Later>,
    /// Runs of files with several.
    pub(crate) runs: Vec<Vec<MappedRun>>,
    arena: Vec<u8>,
    /// Used if places follow from paths.
    pub(crate) keys: Keys,
    /// Attributes of directories without an entry.
    pub(crate) implicit: AttributesId,
    /// Attributes of a root without an entry.
    pub(crate) root_attributes: AttributesId,
    /// The layer that entries come from; layers count from the top.
    pub(crate) layer: u16,
    /// Layers so far, from the top down.
    pub(crate) layers: Vec<Layer>,
    /// Hard links whose files are in layers below.
    pub(crate) pending: Vec<Pending>,
    /// The root of the image, once the layers are merged.
    pub(crate) root: FileId,
}

impl Tree {
    /// A tree with the root only, which has this owner until an entry says otherwise.
    pub(crate) fn new(owner: (u32, u32), limits: Limits) -> Result<Tree> {
        let mut attributes = Interned::new(limits);
        let mut directory = Attributes {
            permissions: 0o755,
            ..Attributes::default()
        };
        let implicit = attributes.intern(b"", &directory)?;
        (directory.uid, directory.gid) = owner;
        let root = attributes.intern(b"", &directory)?;
        let mut tree = Tree {
            names: Names::new(),
            files: Vec::new(),
            attributes,
            laters: Vec::new(),
            runs: Vec::new(),
            arena: Vec::new(),
            keys: Keys::unused(),
            implicit,
            root_attributes: root,
            layer: 0,
            layers: Vec::new(),
            pending: Vec::new(),
            root: FileId::FIRST_ROOT,
        };
        let root = tree.new_file(FileType::Directory, Origin::Implicit, root)?;
        tree.layers
            .push(Layer::new(root, &tree.names, &tree.pending));
        Ok(tree)
    }

    pub(crate) fn file(&self, id: FileId) -> &File {
        &self.files[usize_of(id.0)]
    }

    pub(crate) fn file_mut(&mut self, id: FileId) -> &mut File {
        &mut self.files[usize_of(id.0)]
    }

    pub(crate) fn new_file(
        &mut self,
        kind: FileType,
        origin: Origin,
        attributes: AttributesId,
    ) -> Result<FileId> {
        let id = u32::try_from(self.files.len())
            .ok()
            .filter(|id| *id < u32::MAX);
        let id = id.ok_or_else(|| too_many(b""))?;
        self.files.push(File {
            kind,
            origin,
            opaque: 0,
            name: None,
            attributes,
            nanoseconds: 0,
            seconds: 0,
            size: 0,
            digest: 0,
            location: DataLocation::None,
            links: 0,
            ino: InodeNr(0),
        });
        Ok(FileId(id))
    }

    /// Adds a name to a directory that does not have it.
    pub(crate) fn new_name(&mut self, parent: FileId, name: &[u8], file: FileId) -> Result<NameId> {
        if name.is_empty() || name.len() > NAME_MAX || matches!(name, b"." | b"..") {
            let problem = "a part of the path is empty, . or .., or longer than 255 bytes";
            return Err(Error::refused(name, problem, "rename the file"));
        }
        let id = self.names.add(parent, name, file, self.layer);
        id.ok_or_else(|| too_many(name))
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

    /// Keeps bytes of a file in memory.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Result<DataLocation> {
        let at = u32::try_from(self.arena.len()).map_err(|_| too_many(b""))?;
        self.arena.extend_from_slice(bytes);
        Ok(DataLocation::Kept(at))
    }

    /// The bytes of a file of this size that were kept.
    pub(crate) fn kept(&self, at: u32, size: u64) -> &[u8] {
        let at = usize_of(at);
        &self.arena[at..at + usize_of(clamp_u32(size))]
    }

    /// Runs of a file with several; empty for other files.
    pub(crate) fn runs_of(&self, file: &File) -> &[MappedRun] {
        match &file.location {
            DataLocation::Many(at) => &self.runs[usize_of(*at)],
            _ => &[],
        }
    }

    /// Appends a run to the contents of a file, joined to the last one if possible.
    pub(crate) fn append(&mut self, id: FileId, run: MappedRun) {
        let last = match self.file_mut(id).location {
            DataLocation::Many(at) => {
                let runs = &mut self.runs[usize_of(at)];
                match runs.last_mut() {
                    Some(last) if joins(last, &run) => last.blocks += run.blocks,
                    _ => runs.push(run),
                }
                return;
            }
            DataLocation::One(last) => last,
            _ => return self.file_mut(id).location = DataLocation::One(run),
        };
        self.file_mut(id).location = if joins(&last, &run) {
            DataLocation::One(MappedRun {
                blocks: last.blocks + run.blocks,
                ..last
            })
        } else {
            self.runs.push(vec![last, run]);
            DataLocation::Many(clamp_u32(self.runs.len() - 1))
        };
    }

    /// Takes the place of a file out, so that it is there no more.
    pub(crate) fn take_location(&mut self, id: FileId) -> DataLocation {
        std::mem::replace(&mut self.file_mut(id).location, DataLocation::None)
    }
}

fn joins(last: &MappedRun, next: &MappedRun) -> bool {
    last.logical.checked_add(last.blocks) == Some(next.logical)
        && last.start.0 + u64::from(last.blocks) == next.start.0
}

fn too_many(path: &[u8]) -> Error {
    let problem = "the tree has more than 4 Gi files, or bytes of names, targets or inline data";
    Error::refused(path, problem, "build several images")
}
