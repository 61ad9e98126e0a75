//! Layers that umoci refuses or takes otherwise, each for a reason that is not a fault of uext4.

use std::collections::BTreeSet;

use uext4_testkit::layers::{Applied, Layer, Object, Stack, Tree, directories_above, is_in};
use uext4_testkit::layers::{Landed, Landing};

use super::order::{Member, extracted};

/// Why a stack is not compared with umoci.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// A hard link leads to a file of the layers below that the same layer hides or replaces.
    /// uext4 finds all such files before the layer changes anything; an extraction fails when the
    /// link comes after the change. The specification allows both: "Extracting a layer with
    /// hardlink references to files outside of the layer may fail".
    LostTarget,
    /// A whiteout or an opaque mark leads through a loop of symbolic links. It hides nothing, and
    /// uext4 ignores it; umoci ends with "too many levels of symbolic links".
    LoopingMark,
    /// Symbolic links of the layers below give one file two paths, and the layer has entries for
    /// both, of which one replaces the other. An extraction takes them in the order of the tar;
    /// for uext4 a layer is a set, and those through links come last.
    Conflict,
}

/// The reason for which a stack is left out, if there is one.
pub(super) fn reason(stack: &Stack) -> Option<Reason> {
    let mut below = Tree::new();
    for (layer, applied) in stack.layers.iter().zip(&stack.applied) {
        if loses_a_target(layer, &below, applied) {
            return Some(Reason::LostTarget);
        }
        if applied.has_looping_marks {
            return Some(Reason::LoopingMark);
        }
        if applied.has_conflict() {
            return Some(Reason::Conflict);
        }
        below = applied.tree.clone()?;
    }
    None
}

/// Hard links to files of the layers below, by their paths.
fn links_out(layer: &Layer) -> BTreeSet<(&String, &String)> {
    let mut own = BTreeSet::new();
    let mut links = BTreeSet::new();
    for (path, object) in &layer.entries {
        match object {
            Object::Link(target) if !own.contains(target) => links.insert((path, target)),
            _ => false,
        };
        own.insert(path);
    }
    links
}

fn loses_a_target(layer: &Layer, below: &Tree, applied: &Applied) -> bool {
    let links = links_out(layer);
    let is_hidden = |target: &String| applied.marked.get(target) != below.get(target);
    if links.iter().any(|(_, target)| is_hidden(target)) {
        return true;
    }
    let mut extracted_paths = BTreeSet::new();
    let members: Vec<Member> = extracted(layer, applied);
    members.iter().any(|(path, object)| {
        extracted_paths.insert(&path[..]);
        extracted_paths.extend(directories_above(path));
        match object {
            Object::Link(target) if links.contains(&(path, target)) => {
                let mut landed = applied.landed.iter();
                landed.any(|landed| {
                    extracted_paths.contains(&landed.path[..]) && takes_away(landed, target)
                        // A directory in the place of the file is above the link.
                        || &landed.path == path && is_in(&landed.at, target)
                })
            }
            _ => false,
        }
    })
}

/// Whether nothing of a file of the layers below is left where a path of the layer is.
fn takes_away(landed: &Landed, file: &str) -> bool {
    match landed.kind {
        Landing::Directory => landed.at == file,
        _ => is_in(file, &landed.at),
    }
}
