//! What a layer does to the tree of those below it.

use super::Tree;

/// A layer on the tree of those below it.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// The tree with the layer; `None` if a path of it leads through a link to no directory.
    pub tree: Option<Tree>,
    /// The tree after the whiteouts and opaque marks of the layer, before its entries.
    pub marked: Tree,
    /// All paths of the layer.
    pub landed: Vec<Landed>,
    /// Directories without an entry that replace a file.
    pub replacing: Vec<String>,
    /// Whether a whiteout or an opaque mark leads through a loop of symbolic links.
    pub has_looping_marks: bool,
    /// Whether an entry of the layer takes away a symbolic link that a path of the layer leads
    /// through, or a directory to which such a link leads.
    pub blocks_itself: bool,
    /// Whether an entry or a mark below a symbolic link takes away another link that the layer
    /// leads through: the model does not know what is below that one.
    pub loses_links: bool,
}

/// A path of a layer in the tree.
#[derive(Clone, Debug)]
pub struct Landed {
    /// The path as the layer has it.
    pub path: String,
    /// The path in the tree, without symbolic links.
    pub at: String,
    /// What it is there.
    pub kind: Landing,
}

/// What a path of a layer is in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// A directory, which may have been there.
    Directory,
    /// Anything else of the layer, also if a directory of the layer replaces it.
    File,
    /// A symbolic link of the layers below, which the layer leads through.
    Link,
}

impl Applied {
    /// Paths of the layer that lead through a symbolic link of the layers below.
    pub fn followed(&self) -> impl Iterator<Item = &str> {
        let links = self.landed.iter();
        let links = links.filter(|landed| landed.kind == Landing::Link);
        links.map(|landed| &landed.path[..])
    }

    /// Whether a path of the layer replaces something that another path of it needs, because
    /// symbolic links of the layers below give one file both. Then the order of entries counts.
    pub fn has_conflict(&self) -> bool {
        self.blocks_itself || self.landed.iter().any(|landed| self.is_needed(landed))
    }

    /// Whether another path of the layer needs what this one replaces.
    fn is_needed(&self, landed: &Landed) -> bool {
        let others = self.landed.iter();
        let mut others = others.filter(|other| match landed.kind {
            Landing::Directory => false,
            // What is below its path is below a later directory.
            Landing::File => !is_in(&other.path, &landed.path),
            Landing::Link => other.path != landed.path,
        });
        others.any(|other| is_in(&other.at, &landed.at))
    }
}

/// Whether a path is that of a directory, or below it.
pub fn is_in(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
