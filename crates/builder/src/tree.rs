//! The tree in memory: files, and names that refer to them.
//!
//! Layers have trees of their own until they are merged.
//!
//! Memory: 80 bytes a file besides its names; attributes that files share are kept once.

use std::borrow::Cow;
use std::ops::Range;

use uext4_format::dirent::NAME_MAX;
use uext4_format::{BlockNr, FileType, InodeNr, Timestamp};
use uext4_num::{clamp_u32, usize_of};

use crate::attributes::{AttributesId, Interned, Limits};
use crate::key::Keys;
use crate::names::{NameId, Names};
use crate::{Attributes, Error, ReadAt, Result};

/// A file, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub(crate) u32);

impl FileId {
    /// The root of the first layer.
    pub(crate) const FIRST_ROOT: FileId = FileId(0);
    pub(crate) const NONE: FileId = FileId(u32::MAX);
}

/// Reason why a directory exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Only for names below it that hide others. The image does not have it.
    Marks,
    /// For files below it. The first entry gives it attributes.
    Implicit,
    /// An entry; also all other files.
    Entry,
    /// Stands for the file of a layer below to which a hard link leads.
    Pending,
    /// Value of an extended attribute.
    Value,
}

/// Blocks of a file that follow one another in the file and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First block of the file.
    pub(crate) logical: u32,
    /// Number of blocks.
    pub(crate) blocks: u32,
    /// First block on disk.
    pub(crate) start: BlockNr,
}

/// Where the contents of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: no data.
    None,
    /// In a file that is read later: an index.
    Later(u32),
    /// In memory, as many bytes as the file has: target of a symbolic link, or what the inode
    /// holds (feature `inline_data`). An offset in the arena.
    Kept(u32),
    /// The children of a directory: a range of the sorted names.
    Children { first: u32, count: u32 },
    /// One piece.
    One(Piece),
    /// Several pieces: an index.
    Many(u32),
}

/// A file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    pub(crate) kind: FileType,
    pub(crate) origin: Origin,
    /// One more than the layer that hides everything below of the layers below it; 0: none.
    pub(crate) opaque: u16,
    /// The name of a directory; `None` for a root.
    pub(crate) name: Option<NameId>,
    pub(crate) attributes: AttributesId,
    pub(crate) nanoseconds: u32,
    pub(crate) seconds: i64,
    /// Size in bytes; of a device, its numbers.
    pub(crate) size: u64,
    /// Digest of the contents. Of a directory with an index: 1.
    pub(crate) digest: u64,
    pub(crate) place: Place,
    /// Names, and for a directory `.` and the `..` below it; counted at the end.
    pub(crate) links: u32,
    pub(crate) ino: InodeNr,
}

impl File {
    pub(crate) fn mtime(&self) -> Timestamp {
        Timestamp::new(self.seconds, self.nanoseconds)
    }

    /// Whether the directory has an index.
    pub(crate) fn is_indexed(&self) -> bool {
        self.is_directory() && self.digest != 0
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }
}

/// A file whose contents are read at the end.
pub(crate) struct Later {
    pub(crate) file: Box<dyn ReadAt>,
    /// Where data may be; `None`: everywhere.
    pub(crate) ranges: Option<Box<[Range<u64>]>>,
}

impl Later {
    /// Where data may be in a file of this size.
    pub(crate) fn ranges_of(&self, size: u64) -> Cow<'_, [Range<u64>]> {
        match &self.ranges {
            Some(ranges) => Cow::Borrowed(ranges),
            None => Cow::Owned(std::iter::once(0..size).collect()),
        }
    }
}

/// A hard link to a file that its layer does not have.
pub(crate) struct Pending {
    /// What stands for the file.
    pub(crate) file: FileId,
    pub(crate) path: Box<[u8]>,
    pub(crate) target: Box<[u8]>,
}

/// A layer: the names and files from here on, up to the next layer.
pub(crate) struct Layer {
    pub(crate) root: FileId,
    /// Its first name.
    pub(crate) names: u32,
    /// Its first pending link.
    pub(crate) pending: usize,
    /// Whether it has whiteouts or opaque directories.
    pub(crate) has_marks: bool,
}

impl Layer {
    pub(crate) fn new(root: FileId, names: &Names, pending: &[Pending]) -> Layer {
        Layer {
            root,
            names: names.len(),
            pending: pending.len(),
            has_marks: false,
        }
    }
}

/// See the module.
pub(crate) struct Tree {
    pub(crate) names: Names,
    pub(crate) files: Vec<File>,
    pub(crate) attributes: Interned,
    pub(crate) laters: Vec<Later>,
    /// Pieces of files with several.
    pub(crate) pieces: Vec<Vec<Piece>>,
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
            pieces: Vec::new(),
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
            place: Place::None,
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

    /// Keeps bytes of a file in memory.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Result<Place> {
        let at = u32::try_from(self.arena.len()).map_err(|_| too_many(b""))?;
        self.arena.extend_from_slice(bytes);
        Ok(Place::Kept(at))
    }

    /// The bytes of a file of this size that were kept.
    pub(crate) fn kept(&self, at: u32, size: u64) -> &[u8] {
        let at = usize_of(at);
        &self.arena[at..at + usize_of(clamp_u32(size))]
    }

    /// The pieces of a file.
    pub(crate) fn pieces_of(&self, file: &File) -> &[Piece] {
        match &file.place {
            Place::Many(at) => &self.pieces[usize_of(*at)],
            _ => &[],
        }
    }

    /// Appends a piece to the contents of a file, joined to the last one if possible.
    pub(crate) fn append(&mut self, id: FileId, piece: Piece) {
        let last = match self.file_mut(id).place {
            Place::Many(at) => {
                let pieces = &mut self.pieces[usize_of(at)];
                match pieces.last_mut() {
                    Some(last) if joins(last, &piece) => last.blocks += piece.blocks,
                    _ => pieces.push(piece),
                }
                return;
            }
            Place::One(last) => last,
            _ => return self.file_mut(id).place = Place::One(piece),
        };
        self.file_mut(id).place = if joins(&last, &piece) {
            Place::One(Piece {
                blocks: last.blocks + piece.blocks,
                ..last
            })
        } else {
            self.pieces.push(vec![last, piece]);
            Place::Many(clamp_u32(self.pieces.len() - 1))
        };
    }
}

fn joins(last: &Piece, next: &Piece) -> bool {
    last.logical.checked_add(last.blocks) == Some(next.logical)
        && last.start.0 + u64::from(last.blocks) == next.start.0
}

fn too_many(path: &[u8]) -> Error {
    let problem = "the tree has more than 4 Gi files, or bytes of names, targets or inline data";
    Error::refused(path, problem, "build several images")
}
