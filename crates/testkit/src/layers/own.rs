//! A layer without those below it.

use std::collections::BTreeSet;

use super::{Layer, Object, Tree, directories_above};

/// The tree of a layer alone, with links as their files; and its directories that replace a file,
/// which has taken away what the layers below have there, as a whiteout does.
pub(super) fn own_tree(below: &Tree, layer: &Layer) -> (Tree, BTreeSet<String>) {
    let mut own = Tree::new();
    let mut emptied = BTreeSet::new();
    for (path, object) in &layer.entries {
        for above in directories_above(path) {
            let implied = Object::Directory { mode: None };
            own.entry(above.to_owned()).or_insert(implied);
        }
        let object = match object {
            Object::Link(target) => match own.get(target) {
                Some(object) => object.clone(),
                None => below[target].clone(),
            },
            other => other.clone(),
        };
        let is_directory = object.is_directory();
        let earlier = own.insert(path.clone(), object);
        if is_directory && earlier.is_some_and(|earlier| !earlier.is_directory()) {
            emptied.insert(path.clone());
        }
    }
    (own, emptied)
}
