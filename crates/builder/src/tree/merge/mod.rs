//! Merges the layers into one tree, from the bottom up: what each layer does to those below it.
//!
//! A layer first takes away what its marks name, then adds its entries; a directory that exists on
//! both sides is one, and all else of the upper layer replaces the name below. A subtree that only
//! the upper layer has moves as a whole, by one name.
//!
//! A directory that the upper layer has no entry for, and that is a symbolic link below, is the
//! directory to which the link leads, as for the extraction of one tar after the other. Such names
//! come after all others of the layer.
//!
//! Layout: `layer` is one layer during the merge; `hard_links`, `marks` and `entries` are its
//! steps, in this order.
//!
//! Invariants: the merged tree has no directory of a layer that is not merged yet, so each
//! directory is merged once. An opaque directory keeps its names; those of layers below its mark
//! are dead ([`Tree::is_alive`]), without a look at each.
//!
//! Not here: contents. Blocks of files without a name stay free.
//!
//! References: OCI image specification, "Applying Changesets".

mod entries;
mod hard_links;
mod layer;
mod marks;

use crate::error::Result;
use crate::progress::Reporter;
use crate::report::Followed;
use crate::tree::arena::Tree;
use crate::tree::merge::layer::Merge;

/// Merges all layers; returns the symbolic links that were followed.
pub(crate) fn merge_layers(tree: &mut Tree, reporter: &mut Reporter) -> Result<Followed> {
    let layers = std::mem::take(&mut tree.layers);
    let pending = std::mem::take(&mut tree.pending);
    let (mut names, mut links) = (tree.names.len(), pending.len());
    let lowest = tree.layer;
    let mut followed = None;
    for (nr, layer) in (0..lowest + 1).zip(&layers).rev() {
        let is_lowest = nr == lowest;
        let own = layer.names..names;
        let pending = &pending[layer.pending..links];
        (names, links) = (layer.names, layer.pending);
        let mut merge = Merge {
            tree,
            reporter,
            children: Vec::new(),
            layer: nr,
            steps: 0,
            followed: &mut followed,
        };
        if !pending.is_empty() {
            merge.resolve(pending, own.clone(), is_lowest)?;
        }
        if is_lowest {
            merge.tree.root = layer.root;
        } else {
            merge.sort(own);
            if layer.has_marks {
                merge.hide(layer.root)?;
            }
            merge.add(layer.root)?;
        }
    }
    Ok(followed)
}
