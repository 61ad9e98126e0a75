//! Random stacks of layers, and a plain model that applies them from the bottom up to a map of
//! paths, as tar does to a directory.
//!
//! Each file has a size of its own, so that types, sizes and inode numbers of a listing tell files
//! apart.
//!
//! - [`Stack::random`] draws layers from a seed, [`Stack::merged`] is what the model makes of them.
//! - [`listing`] is the same of an image, by debugfs, and [`listing_of_dir`] of a directory.
//!
//! Reference: OCI image specification, "Applying Changesets".

mod applied;
mod listing;
mod merge;
mod own;
mod random;
mod walk;

use std::cmp::Ordering;
use std::collections::BTreeMap;

pub use applied::{Applied, Landed, Landing, is_in};
pub use listing::{listing, listing_of_dir};

/// Visible of a file: its type and permissions, its size (0 for directories), and the first of its
/// paths, which is the same for all names of one file. By path, without the root.
pub type Seen = BTreeMap<String, (u32, u64, String)>;

/// Files by path: hard links are the file itself, under each path.
pub type Tree = BTreeMap<String, Object>;

/// What a path of a [`Tree`] names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A directory, with an entry or implied by a path below it.
    Directory {
        /// Its permissions; without them, only names below it make it exist.
        mode: Option<u16>,
    },
    /// A file by its size, which no other has.
    File(u64),
    /// A symbolic link by its target.
    Symlink(String),
    /// One more name of the file at a path.
    Link(String),
}

/// The changes of one layer. Paths are in the order of a tar: a directory before what is in it.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// Files by path, in order; a later one of the same path replaces an earlier one.
    pub entries: Vec<(String, Object)>,
    /// Paths that are hidden in the layers below.
    pub whiteouts: Vec<String>,
    /// Directories of which everything is hidden in the layers below.
    pub opaque: Vec<String>,
}

/// Layers from the bottom up.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    /// The lowest layer is the first.
    pub layers: Vec<Layer>,
    /// What the model makes of each layer, up to the first that cannot be applied.
    pub applied: Vec<Applied>,
}

impl Stack {
    /// Adds a layer above the others.
    pub fn push(&mut self, layer: Layer) {
        if let Some(tree) = self.tree() {
            self.applied.push(merge::apply(tree, &layer));
        }
        self.layers.push(layer);
    }

    /// The tree of all layers; `None` if one cannot be applied.
    pub fn tree(&self) -> Option<Tree> {
        match self.applied.last() {
            Some(applied) => applied.tree.clone(),
            None => Some(Tree::new()),
        }
    }

    /// Whether the model knows the merged tree, or that there is none. It does not for about one of
    /// 10,000 random stacks ([`Applied::loses_links`]).
    pub fn is_known(&self) -> bool {
        !self.applied.iter().any(|applied| applied.loses_links)
    }

    /// A listing of the merged tree; `None` if a layer cannot be applied.
    pub fn merged(&self) -> Option<Seen> {
        let tree = self.tree()?;
        let mut first: BTreeMap<&Object, &String> = BTreeMap::new();
        for (path, object) in &tree {
            first.entry(object).or_insert(path);
        }
        let seen = tree.iter().map(|(path, object)| {
            let (mode, size) = match object {
                Object::Directory { mode } => (0o40_000 + u32::from(mode.unwrap_or(0o755)), 0),
                Object::File(size) => (0o100_644, *size),
                Object::Symlink(target) => (0o120_777, target.len() as u64),
                Object::Link(_) => unreachable!("the merge gives links their file"),
            };
            let same = match object {
                Object::File(_) => first[object].clone(),
                _ => path.clone(),
            };
            (path.clone(), (mode, size, same))
        });
        Some(seen.collect())
    }
}

impl Object {
    /// Whether it is a directory, with or without a mode.
    pub fn is_directory(&self) -> bool {
        matches!(self, Object::Directory { .. })
    }
}

impl PartialOrd for Object {
    fn partial_cmp(&self, other: &Object) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Object {
    fn cmp(&self, other: &Object) -> Ordering {
        format!("{self:?}").cmp(&format!("{other:?}"))
    }
}

/// The path of a name in a directory; the root has the path "".
pub fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

/// The directory part of a path; empty for a name in the root.
pub fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// All directories of a path from the top down, without the root.
pub fn directories_above(path: &str) -> Vec<&str> {
    let slashes = path.match_indices('/');
    slashes.map(|(at, _)| &path[..at]).collect()
}
