//! Draws stacks: few names, so that layers often meet at one path.

use super::{Layer, Object, Stack, Tree, directories_above};
use crate::rng::Rng;

impl Stack {
    /// Two to five layers.
    pub fn random(rng: &mut Rng) -> Stack {
        let mut stack = Stack::default();
        let mut sizes = 1;
        for _ in 0..2 + rng.below(4) {
            let layer = Layer::random(rng, &stack.tree().unwrap_or_default(), &mut sizes);
            stack.push(layer);
        }
        stack
    }
}

fn random_path(rng: &mut Rng) -> String {
    let names = ["a", "b", "c"];
    let count = 1 + rng.below(3);
    let parts: Vec<&str> = (0..count).map(|_| names[rng.below(3) as usize]).collect();
    parts.join("/")
}

fn linkable(tree: &Tree) -> Vec<String> {
    let files = tree
        .iter()
        .filter(|(_, object)| matches!(object, Object::File(_) | Object::Link(_)));
    files.map(|(path, _)| path.clone()).collect()
}

/// What a hard link at the path may lead to: files of the layer, and those below it.
fn targets(path: &str, below: &Tree, own: &Tree) -> Vec<String> {
    let mut targets = linkable(own);
    // Of two names that are one path, the layer's counts.
    targets.extend(linkable(below).into_iter().filter(|path| !hides(own, path)));
    targets.retain(|target| !directories_above(path).contains(&&target[..]));
    targets
}

/// Whether a layer hides a path of the layers below it.
fn hides(own: &Tree, path: &str) -> bool {
    let mut above = directories_above(path).into_iter();
    own.contains_key(path)
        || above.any(|path| own.get(path).is_some_and(|object| !object.is_directory()))
}

impl Layer {
    fn random(rng: &mut Rng, below: &Tree, sizes: &mut u64) -> Layer {
        let mut layer = Layer::default();
        let mut own = Tree::new();
        for _ in 0..1 + rng.below(7) {
            layer.add_random(rng, below, &mut own, sizes);
        }
        let is_directory = |path: &str| own.get(path).is_none_or(Object::is_directory);
        let fits = |path: &String| directories_above(path).into_iter().all(is_directory);
        layer.whiteouts.retain(fits);
        layer.opaque.retain(|path| fits(path) && is_directory(path));
        layer
    }

    fn add_random(&mut self, rng: &mut Rng, below: &Tree, own: &mut Tree, sizes: &mut u64) {
        let path = random_path(rng);
        let is_directory = |path: &str| own.get(path).is_none_or(Object::is_directory);
        if !directories_above(&path).into_iter().all(is_directory) {
            return;
        }
        match rng.below(20) {
            0..3 => return self.whiteouts.push(path),
            3..4 if is_directory(&path) => return self.opaque.push(path),
            3..4 => return,
            _ => {}
        }
        let there = own.get(&path);
        let Some(object) = random_object(rng, &path, below, own, sizes) else {
            return;
        };
        if there.is_some_and(Object::is_directory) && !object.is_directory() {
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

fn random_object(
    rng: &mut Rng,
    path: &str,
    below: &Tree,
    own: &Tree,
    sizes: &mut u64,
) -> Option<Object> {
    Some(match rng.below(10) {
        0..3 => Object::Directory {
            mode: Some(0o700 + rng.below(8) as u16),
        },
        3..5 => {
            let targets = ["a", "../b", "/b", "c/a", "/a/b", "..", "../../c"];
            Object::Symlink(targets[rng.below(7) as usize].to_owned())
        }
        5..7 => {
            let targets = targets(path, below, own);
            if targets.is_empty() {
                return None;
            }
            Object::Link(targets[rng.below(targets.len() as u64) as usize].clone())
        }
        _ => {
            *sizes += 1;
            Object::File(*sizes)
        }
    })
}
