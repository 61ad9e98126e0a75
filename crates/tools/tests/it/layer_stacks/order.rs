//! The members of a layer in two orders. For uext4 a layer is a set, whatever the order of its tar;
//! umoci extracts one member after the other.

use std::collections::BTreeSet;

use uext4_testkit::layers::{Applied, Landing, Layer, Object, directories_above, join};

/// A member of a tar: its path, and its type.
pub(super) type Member = (String, Object);

/// As they were drawn, with the marks at the end.
pub(super) fn drawn(layer: &Layer) -> Vec<Member> {
    let entries = layer.entries.iter().cloned();
    entries.chain(marks(layer)).collect()
}

/// In an order for which the extraction has the result of the set, as far as there is one:
///
/// 1. Each directory with an entry is before all that is below it.
/// 2. A directory without an entry that replaces a file has an entry here, with the mode that it
///    has anyway: umoci before 0.5 ends with "not a directory" instead.
/// 3. Marks are before entries, apart from those below a directory that begins empty: these hide
///    nothing.
/// 4. Entries below a symbolic link of the layers below are the last.
/// 5. A hard link of a path to itself, which changes nothing, is left out.
pub(super) fn extracted(layer: &Layer, applied: &Applied) -> Vec<Member> {
    let mut order = Order {
        layer,
        applied,
        opened: BTreeSet::new(),
        members: Vec::new(),
    };
    let (idle, marks): (Vec<_>, Vec<_>) =
        marks(layer).partition(|(path, _)| is_below_new(layer, applied, path));
    for mark in marks {
        order.open(&mark.0);
        order.members.push(mark);
    }
    let is_late = late(layer, applied);
    let entries = || layer.entries.iter().zip(&is_late);
    // Directories that are not there before the late entries.
    let late_paths = entries().filter(|(_, is_late)| **is_late);
    let mut late_paths: Vec<&str> = late_paths.map(|((path, _), _)| &path[..]).collect();
    late_paths.extend(applied.followed());
    for (entry, is_late) in entries() {
        let mut above = directories_above(&entry.0).into_iter();
        let late = above.find(|above| late_paths.contains(above));
        order.open(late.unwrap_or(&entry.0));
        if !is_late && !leads_to_itself(entry) {
            order.members.push(entry.clone());
        }
    }
    for (entry, _) in entries().filter(|(_, is_late)| **is_late) {
        order.open(&entry.0);
        if !leads_to_itself(entry) {
            order.members.push(entry.clone());
        }
    }
    order.members.extend(idle);
    order.members
}

fn is_below(path: &str, directory: &str) -> bool {
    directories_above(path).contains(&directory)
}

/// Whether it is a hard link of a path to itself.
fn leads_to_itself((path, object): &Member) -> bool {
    matches!(object, Object::Link(target) if target == path)
}

/// Whether a directory above the path begins empty: it replaces a file of the layer, or it is
/// reached through a symbolic link and the layers below have none where it comes to be.
fn is_below_new(layer: &Layer, applied: &Applied, path: &str) -> bool {
    let is_directory = |at: &str| applied.marked.get(at).is_some_and(Object::is_directory);
    directories_above(path).into_iter().any(|above| {
        let mut entries = layer.entries.iter();
        let landed = applied.landed.iter();
        let mut landed = landed.filter(|landed| landed.kind != Landing::Link);
        entries.any(|(path, object)| path == above && !object.is_directory())
            || landed.any(|landed| landed.path == above && !is_directory(&landed.at))
    })
}

struct Order<'a> {
    layer: &'a Layer,
    applied: &'a Applied,
    /// Directories with an entry among the members.
    opened: BTreeSet<String>,
    members: Vec<Member>,
}

impl Order<'_> {
    /// Adds the directories above a path.
    fn open(&mut self, path: &str) {
        for above in directories_above(path) {
            let mut entries = self.layer.entries.iter().rev();
            let entry = entries.find(|(path, _)| path == above).cloned();
            let replacing = self.applied.replacing.iter().any(|path| path == above);
            let made =
                replacing.then(|| (above.to_owned(), Object::Directory { mode: Some(0o755) }));
            let Some(entry) = entry.or(made) else {
                continue;
            };
            if self.opened.insert(above.to_owned()) {
                self.members.push(entry);
            }
        }
    }
}

/// Marks in the order of what they hide: those of a directory before those below it.
fn marks(layer: &Layer) -> impl Iterator<Item = Member> {
    let whiteouts = layer.whiteouts.iter().map(|path| {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        (path, join(directory, &format!(".wh.{name}")))
    });
    let opaque = layer.opaque.iter();
    let opaque = opaque.map(|path| (path, join(path, ".wh..wh..opq")));
    let mut marks: Vec<_> = whiteouts.chain(opaque).collect();
    marks.sort();
    marks.into_iter().map(|(_, name)| (name, Object::File(0)))
}

/// Which entries are below a symbolic link of the layers below, or depend on such entries.
fn late(layer: &Layer, applied: &Applied) -> Vec<bool> {
    let mut moved: Vec<&str> = Vec::new();
    let mut targets = Vec::new();
    let mut is_late = Vec::new();
    for (path, object) in &layer.entries {
        let follows = applied.followed().any(|link| is_below(path, link));
        let depends = moved.iter().any(|moved| {
            path == moved
                || is_below(path, moved)
                || matches!(object, Object::Link(target) if target == moved)
        });
        let depends = depends || targets.contains(&path);
        if follows || depends {
            moved.push(path);
            if let Object::Link(target) = object {
                targets.push(target);
            }
        }
        is_late.push(follows || depends);
    }
    is_late
}
