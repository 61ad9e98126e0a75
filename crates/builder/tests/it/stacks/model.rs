//! The model: objects by path, and layers that change them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uext4_testkit::rng::Rng;

use super::Seen;

/// Something with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// Without a mode: only names below it make it exist.
    Directory {
        mode: Option<u16>,
    },
    /// A file by its size, which no other has.
    File(u64),
    Symlink(String),
    /// One more name of the file at a path.
    Link(String),
}

type Tree = BTreeMap<String, Object>;

/// Paths are in the order of a tar: a directory before what is in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    pub(super) entries: Vec<(String, Object)>,
    pub(super) whiteouts: Vec<String>,
    pub(super) opaque: Vec<String>,
}

/// Layers from the bottom up.
#[derive(Debug, Default)]
pub(super) struct Stack {
    pub(super) layers: Vec<Layer>,
    merged: Option<Tree>,
}

pub(super) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

fn directories_above(path: &str) -> Vec<&str> {
    let slashes = path.match_indices('/');
    slashes.map(|(at, _)| &path[..at]).collect()
}

impl Stack {
    pub(super) fn random(rng: &mut Rng) -> Stack {
        let mut stack = Stack::default();
        let mut tree = Some(Tree::new());
        let mut sizes = 1;
        for _ in 0..2 + rng.below(4) {
            let known = tree.clone().unwrap_or_default();
            let layer = Layer::random(rng, &known, &mut sizes);
            tree = tree.and_then(|tree| Merge::apply(tree, &layer));
            stack.layers.push(layer);
        }
        stack.merged = tree;
        stack
    }

    /// What a listing of the image tells; `None` if a layer cannot be applied.
    pub(super) fn merged(&self) -> Option<Seen> {
        let tree = self.merged.as_ref()?;
        let mut first: BTreeMap<&Object, &String> = BTreeMap::new();
        for (path, object) in tree {
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

impl PartialOrd for Object {
    fn partial_cmp(&self, other: &Object) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Object {
    fn cmp(&self, other: &Object) -> std::cmp::Ordering {
        format!("{self:?}").cmp(&format!("{other:?}"))
    }
}

fn is_directory(object: &Object) -> bool {
    matches!(object, Object::Directory { .. })
}

fn path(rng: &mut Rng) -> String {
    let names = ["a", "b", "c"];
    let count = 1 + rng.below(3);
    let parts: Vec<&str> = (0..count).map(|_| names[rng.below(3) as usize]).collect();
    parts.join("/")
}

impl Layer {
    fn random(rng: &mut Rng, below: &Tree, sizes: &mut u64) -> Layer {
        let mut layer = Layer::default();
        let mut own = Tree::new();
        for _ in 0..1 + rng.below(7) {
            layer.add_random(rng, below, &mut own, sizes);
        }
        let is_directory =
            |path: &str| !matches!(own.get(path), Some(object) if !is_directory(object));
        let fits = |path: &String| directories_above(path).into_iter().all(is_directory);
        layer.whiteouts.retain(fits);
        layer.opaque.retain(|path| fits(path) && is_directory(path));
        layer
    }

    fn add_random(&mut self, rng: &mut Rng, below: &Tree, own: &mut Tree, sizes: &mut u64) {
        let path = path(rng);
        let fits = directories_above(&path)
            .iter()
            .all(|above| own.get(*above).is_none_or(is_directory));
        if !fits {
            return;
        }
        match rng.below(20) {
            0..3 => return self.whiteouts.push(path),
            3..4 if own.get(&path).is_none_or(is_directory) => return self.opaque.push(path),
            3..4 => return,
            _ => {}
        }
        let there = own.get(&path);
        let object = match rng.below(10) {
            0..3 => Object::Directory {
                mode: Some(0o700 + rng.below(8) as u16),
            },
            3..5 => {
                let targets = ["a", "../b", "/b", "c/a", "/a/b", "..", "../../c"];
                Object::Symlink(targets[rng.below(7) as usize].to_owned())
            }
            5..7 => {
                let linkable = |tree: &Tree| {
                    let is_file =
                        |object: &Object| matches!(object, Object::File(_) | Object::Link(_));
                    let files = tree.iter().filter(|(_, object)| is_file(object));
                    files.map(|(path, _)| path.clone()).collect::<Vec<_>>()
                };
                let mut targets = linkable(own);
                // Of two names that are one path, the layer's counts.
                let hidden = |path: &String| {
                    own.contains_key(path)
                        || directories_above(path)
                            .iter()
                            .any(|above| own.get(*above).is_some_and(|found| !is_directory(found)))
                };
                targets.extend(linkable(below).into_iter().filter(|path| !hidden(path)));
                targets.retain(|target| !directories_above(&path).contains(&&target[..]));
                if targets.is_empty() {
                    return;
                }
                Object::Link(targets[rng.below(targets.len() as u64) as usize].clone())
            }
            _ => {
                *sizes += 1;
                Object::File(*sizes)
            }
        };
        if there.is_some_and(is_directory) && !is_directory(&object) {
            return;
        }
        for above in directories_above(&path) {
            let implied = Object::Directory { mode: None };
            own.entry(above.to_owned()).or_insert(implied);
        }
        own.insert(path.clone(), object.clone());
        self.entries.push((path, object));
    }
}

/// One layer on its way into the tree of those below it.
struct Merge {
    tree: Tree,
    own: Tree,
}

impl Merge {
    /// The tree with a layer; `None` if a path of the layer leads through a link to no directory.
    fn apply(tree: Tree, layer: &Layer) -> Option<Tree> {
        let own = own_tree(&tree, layer);
        let mut merge = Merge { tree, own };
        merge.hide(layer);
        merge.add()?;
        Some(merge.tree)
    }

    fn hide(&mut self, layer: &Layer) {
        let whole: BTreeSet<&String> = layer.whiteouts.iter().collect();
        let mut gone = BTreeSet::new();
        for path in &layer.whiteouts {
            if let Some(directory) = self.place(above(path), &whole, layer) {
                let name = path.rsplit('/').next().expect("a name");
                gone.insert(join(&directory, name));
            }
        }
        let mut emptied = BTreeSet::new();
        for path in &layer.opaque {
            if !whole.contains(path)
                && let Some(directory) = self.place(path, &whole, layer)
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
    fn place(&self, path: &str, whole: &BTreeSet<&String>, layer: &Layer) -> Option<String> {
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
                    walk(&mut self.tree.clone(), &at, target, false)?
                }
                _ => return None,
            };
        }
        Some(at)
    }

    fn add(&mut self) -> Option<()> {
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
                            left.push((child, there));
                        }
                        (Object::Directory { mode: None }, Some(Object::Symlink(_))) => {
                            links.push_back((child, there));
                        }
                        _ => self.replace(&child, &there),
                    }
                }
            } else if let Some((own, there)) = links.pop_front() {
                let found = match self.tree.get(&there) {
                    Some(Object::Directory { .. }) => there,
                    Some(Object::Symlink(target)) => {
                        let target = target.clone();
                        walk(&mut self.tree, above(&there), &target, true)?
                    }
                    _ => {
                        self.tree.remove(&there);
                        let implied = Object::Directory { mode: None };
                        self.tree.insert(there.clone(), implied);
                        there
                    }
                };
                left.push((own, found));
            } else {
                return Some(());
            }
        }
    }

    /// Puts an object of the layer, with all below it, in the place of what is there.
    fn replace(&mut self, own: &str, there: &str) {
        let prefix = format!("{there}/");
        self.tree
            .retain(|path, _| path != there && !path.starts_with(&prefix));
        let prefix = format!("{own}/");
        for (path, object) in &self.own {
            if path == own || path.starts_with(&prefix) {
                let moved = format!("{there}{}", &path[own.len()..]);
                self.tree.insert(moved, object.clone());
            }
        }
    }
}

/// The tree of a layer alone, with links as their files.
fn own_tree(below: &Tree, layer: &Layer) -> Tree {
    let mut own = Tree::new();
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
        own.insert(path.clone(), object);
    }
    own
}

/// The directory at a path; missing ones are made on demand.
fn walk(tree: &mut Tree, from: &str, target: &str, make: bool) -> Option<String> {
    let start = |from: &str, target: &str| match target.starts_with('/') {
        true => String::new(),
        false => from.to_owned(),
    };
    let names = |target: &str| -> Vec<String> { target.rsplit('/').map(str::to_owned).collect() };
    let mut at = start(from, target);
    let mut left = names(target);
    let mut links = 0;
    while let Some(name) = left.pop() {
        match &name[..] {
            "" => continue,
            ".." => {
                at = above(&at).to_owned();
                continue;
            }
            _ => {}
        }
        let next = join(&at, &name);
        match tree.get(&next).cloned() {
            Some(Object::Directory { .. }) => at = next,
            Some(Object::Symlink(target)) => {
                links += 1;
                if links > 40 {
                    return None;
                }
                at = start(&at, &target);
                left.extend(names(&target));
            }
            Some(_) => return None,
            None if make => {
                tree.insert(next.clone(), Object::Directory { mode: None });
                at = next;
            }
            None => return None,
        }
    }
    Some(at)
}
