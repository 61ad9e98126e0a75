//! Indices of files, names and sets of attributes in the tree.

/// A file, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub(crate) u32);

impl FileId {
    /// The root of the first layer.
    pub(crate) const FIRST_ROOT: FileId = FileId(0);
    pub(crate) const NONE: FileId = FileId(u32::MAX);
}

/// A name, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameId(pub(crate) u32);

/// A set of attributes that files share, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttributesId(pub(crate) u32);
