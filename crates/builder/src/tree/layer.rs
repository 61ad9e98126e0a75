//! Layers of the tree before they are merged.

use crate::tree::ids::FileId;
use crate::tree::names::Names;

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
    /// Number of names before those of the layer.
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
