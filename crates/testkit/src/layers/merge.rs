//! Applies a layer to the tree of those below it.

use std::collections::{BTreeSet, VecDeque};

use super::applied::{Applied, Landed, Landing};
use super::own::own_tree;
use super::walk::{Dead, Missing, walk};
use super::{Layer, Object, Tree, above, directories_above, join};

/// One layer on its way into the tree of those below it.
struct Merge {
    tree: Tree,
    own: Tree,
    /// Directories that replace a file of the layer.
    emptied: BTreeSet<String>,
    applied: Applied,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Applied,
    /// A path leads through a link to no directory.
    Refused,
}

pub(super) fn apply(tree: Tree, layer: &Layer) -> Applied {
    let mut layer = layer.clone();
    let (own, emptied) = own_tree(&tree, &layer);
    layer.whiteouts.extend(emptied.iter().cloned());
    let mut merge = Merge {
        tree,
        own,
        emptied,
        applied: Applied::default(),
    };
    let emptied = merge.homes(&layer);
    let below = merge.tree.clone();
    merge.hide(&layer);
    merge.applied.loses_links = loses_followed_links(&below, &merge.tree, &layer);
    merge.applied.blocks_itself = merge.homes(&layer) != emptied;
    merge.applied.marked = merge.tree.clone();
    let is_refused = merge.add() == Outcome::Refused;
    merge.applied.tree = (!is_refused).then_some(merge.tree);
    merge.applied
}

/// Whether a mark that leads through a symbolic link hides a link through which paths of the layer
/// lead.
fn loses_followed_links(below: &Tree, marked: &Tree, layer: &Layer) -> bool {
    let entries = layer.entries.iter().map(|(path, _)| path);
    let marks = layer.whiteouts.iter().chain(&layer.opaque);
    let followed: BTreeSet<&str> = entries
        .chain(marks)
        .flat_map(|path| directories_above(path))
        .collect();
    below.iter().any(|(path, object)| {
        matches!(object, Object::Symlink(_))
            && !marked.contains_key(path)
            && followed.contains(&path[..])
            && !is_marked(layer, path)
    })
}

/// Whether a mark names a link, or a directory above it.
fn is_marked(layer: &Layer, link: &str) -> bool {
    layer.whiteouts.iter().any(|path| path == link)
        || directories_above(link).into_iter().any(|above| {
            layer
                .whiteouts
                .iter()
                .chain(&layer.opaque)
                .any(|path| path == above)
        })
}

impl Merge {
    /// Where the directories are that have the emptied ones.
    fn homes(&mut self, layer: &Layer) -> Vec<Option<String>> {
        let whole: BTreeSet<&String> = layer.whiteouts.iter().collect();
        let paths: Vec<String> = self.emptied.iter().cloned().collect();
        let homes = paths.iter();
        let homes = homes.map(|path| self.below(above(path), &whole, layer));
        homes.collect()
    }

    fn hide(&mut self, layer: &Layer) {
        let whole: BTreeSet<&String> = layer.whiteouts.iter().collect();
        let mut gone = BTreeSet::new();
        for path in &layer.whiteouts {
            if let Some(directory) = self.below(above(path), &whole, layer) {
                let name = path.rsplit('/').next().expect("a name");
                gone.insert(join(&directory, name));
            }
        }
        let mut emptied = BTreeSet::new();
        for path in &layer.opaque {
            if !whole.contains(path)
                && let Some(directory) = self.below(path, &whole, layer)
            {
                emptied.insert(directory);
            }
        }
        self.tree.retain(|path, _| {
            let mut all = directories_above(path).into_iter().chain([""]);
            let inside = all.any(|above| gone.contains(above) || emptied.contains(above));
            !inside && !gone.contains(path)
        });
    }

    /// Where the directory of a mark is in the tree below.
    fn below(&mut self, path: &str, whole: &BTreeSet<&String>, layer: &Layer) -> Option<String> {
        let mut at = String::new();
        let mut own = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if layer.opaque.contains(&own) {
                return None;
            }
            own = join(&own, name);
            if whole.contains(&own) {
                return None;
            }
            let is_entry = matches!(
                self.own.get(&own),
                Some(Object::Directory { mode: Some(_) })
            );
            let below = join(&at, name);
            at = match self.tree.get(&below)? {
                Object::Directory { .. } => below,
                Object::Symlink(target) if !is_entry => {
                    let mut tree = self.tree.clone();
                    let end = walk(&mut tree, &at, target, Missing::Leave, &mut Vec::new());
                    self.applied.has_looping_marks |= end == Err(Dead::Loop);
                    end.ok()?
                }
                _ => return None,
            };
        }
        Some(at)
    }

    /// Adds the entries, apart from those below links that lead to no directory.
    fn add(&mut self) -> Outcome {
        let mut outcome = Outcome::Applied;
        let mut left = vec![(String::new(), String::new())];
        let mut links = VecDeque::new();
        loop {
            if let Some((own, below)) = left.pop() {
                if let Some(Object::Directory { mode: Some(mode) }) = self.own.get(&own) {
                    let mode = Some(*mode);
                    self.tree.insert(below.clone(), Object::Directory { mode });
                }
                let children = self.own.keys().filter(|path| !path.is_empty());
                let children: Vec<String> = children
                    .filter(|path| above(path) == own)
                    .cloned()
                    .collect();
                for child in children {
                    let name = child.rsplit('/').next().expect("a name");
                    let there = join(&below, name);
                    let object = self.own[&child].clone();
                    match (&object, self.tree.get(&there)) {
                        (Object::Directory { .. }, Some(Object::Directory { .. })) => {
                            self.land(&child, &there, self.kind(&child));
                            left.push((child, there));
                        }
                        (Object::Directory { mode: None }, Some(Object::Symlink(_))) => {
                            self.land(&child, &there, Landing::Link);
                            links.push_back((child, there));
                        }
                        (Object::Directory { mode: None }, Some(_)) => {
                            self.applied.replacing.push(child.clone());
                            self.replace(&child, &there);
                        }
                        _ => self.replace(&child, &there),
                    }
                }
            } else if let Some((own, there)) = links.pop_front() {
                if !directories_above(&there)
                    .into_iter()
                    .all(|path| self.tree.get(path).is_some_and(Object::is_directory))
                {
                    self.applied.loses_links = true;
                    continue;
                }
                let directory = match self.tree.get(&there) {
                    Some(Object::Directory { .. }) => there,
                    Some(Object::Symlink(target)) => {
                        let target = target.clone();
                        let Some(directory) = self.follow(&own, &there, &target) else {
                            outcome = Outcome::Refused;
                            continue;
                        };
                        directory
                    }
                    _ => {
                        self.tree.remove(&there);
                        let implied = Object::Directory { mode: None };
                        self.tree.insert(there.clone(), implied);
                        there
                    }
                };
                self.land(&own, &directory, self.kind(&own));
                left.push((own, directory));
            } else {
                return outcome;
            }
        }
    }

    /// The directory to which a symbolic link leads, for a path of the layer.
    fn follow(&mut self, own: &str, link: &str, target: &str) -> Option<String> {
        let mut passed = Vec::new();
        let from = above(link);
        let end = walk(&mut self.tree, from, target, Missing::Make, &mut passed);
        for link in passed.drain(..) {
            self.land(own, &link, Landing::Link);
        }
        if end.is_err() {
            let mut marked = self.applied.marked.clone();
            let before = walk(&mut marked, from, target, Missing::Make, &mut passed);
            self.applied.blocks_itself |= before.is_ok();
        }
        end.ok()
    }

    fn land(&mut self, own: &str, there: &str, kind: Landing) {
        self.applied.landed.push(Landed {
            path: own.to_owned(),
            at: there.to_owned(),
            kind,
        });
    }

    /// What a path of the layer is in the tree, apart from links that it leads through.
    fn kind(&self, own: &str) -> Landing {
        if self.own[own].is_directory() && !self.emptied.contains(own) {
            Landing::Directory
        } else {
            Landing::File
        }
    }

    /// Puts an object of the layer, with all below it, instead of what is there.
    fn replace(&mut self, own: &str, there: &str) {
        let prefix = format!("{there}/");
        self.tree
            .retain(|path, _| path != there && !path.starts_with(&prefix));
        let prefix = format!("{own}/");
        let mut landed = Vec::new();
        for (path, object) in &self.own {
            if path == own || path.starts_with(&prefix) {
                let moved = format!("{there}{}", &path[own.len()..]);
                landed.push((path.clone(), moved.clone()));
                self.tree.insert(moved, object.clone());
            }
        }
        for (path, at) in landed {
            self.land(&path, &at, self.kind(&path));
        }
    }
}
