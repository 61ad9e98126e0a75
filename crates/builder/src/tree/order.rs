//! The order of the image: paths component by component, in the order of their bytes.
//!
//! Inodes are numbered in this order from 12 on, or by the keys of their paths; lost+found has 11.
//! So numbers depend on neither the order of entries nor the threads.

use uext4_format::InodeNr;
use uext4_num::{clamp_u32, nonnegative, usize_of};

use crate::error::{Error, Result};
use crate::layout::inode_numbers::InodeNumbers;
use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, Origin};
use crate::tree::ids::{FileId, NameId};
use crate::tree::lookup::path_of;

/// The first inode that is not reserved: lost+found.
pub(crate) const LOST_FOUND: InodeNr = InodeNr(11);
/// Most links of a file that is no directory.
const LINKS_MAX: u32 = 65_000;

/// Names and files of the image in its order.
pub(crate) struct Sorted {
    /// Names of the image, by directory, then by bytes: [`DataLocation::Children`] refers to it.
    pub(crate) names: Vec<NameId>,
    /// Files in the order of paths, by the first path of each.
    pub(crate) order: Vec<FileId>,
}

impl Sorted {
    /// Sorted names of a directory; empty for other files.
    pub(crate) fn children(&self, location: DataLocation) -> &[NameId] {
        match location {
            DataLocation::Children { first, count } => {
                let first = usize_of(first);
                &self.names[first..first + usize_of(count)]
            }
            _ => &[],
        }
    }
}

/// Sorts the tree, numbers its files and counts their links.
pub(crate) fn sort(tree: &mut Tree, numbers: &mut InodeNumbers) -> Result<Sorted> {
    let mut names: Vec<NameId> = (0..tree.names.len())
        .map(NameId)
        .filter(|id| is_in_image(tree, *id))
        .collect();
    names.sort_unstable_by(|one, other| {
        let key = |id: &NameId| tree.names.get(*id).parent;
        key(one)
            .cmp(&key(other))
            .then_with(|| tree.names.bytes(*one).cmp(tree.names.bytes(*other)))
    });
    let mut first = 0;
    while let Some(name) = names.get(usize_of(first)) {
        let parent = tree.names.get(*name).parent;
        let rest = &names[usize_of(first)..];
        let count = rest.partition_point(|id| tree.names.get(*id).parent == parent);
        let count = clamp_u32(count);
        tree.file_mut(parent).location = DataLocation::Children { first, count };
        first += count;
    }
    let mut sorted = Sorted {
        names,
        order: Vec::new(),
    };
    number(tree, &mut sorted, numbers)?;
    Ok(sorted)
}

fn is_in_image(tree: &Tree, id: NameId) -> bool {
    tree.is_alive(id) && tree.file(tree.names.get(id).file).origin != Origin::Marks
}

fn number(tree: &mut Tree, sorted: &mut Sorted, numbers: &mut InodeNumbers) -> Result<()> {
    let top = tree.root;
    let root = tree.file_mut(top);
    (root.ino, root.links) = (InodeNr::ROOT, 2);
    let location = root.location;
    let mut order = vec![top];
    let lost_found = tree.names.find(top, b"lost+found");
    let lost_found = lost_found.map(|id| tree.names.get(id).file);
    order.extend(lost_found);
    let mut stack = vec![(top, sorted.children(location).iter())];
    while let Some((directory, left)) = stack.last_mut() {
        let Some(name) = left.next() else {
            stack.pop();
            continue;
        };
        let id = tree.names.get(*name).file;
        let is_directory = tree.file(id).is_directory();
        if is_directory {
            tree.file_mut(*directory).links += 1;
        }
        let parent = tree.keys.get(*directory);
        let name = tree.names.bytes(*name);
        tree.keys.set(id, || parent.child(name));
        let key = tree.keys.get(id);
        let file = tree.file_mut(id);
        file.links += 1;
        if file.ino.0 != 0 {
            continue;
        }
        if lost_found == Some(id) {
            file.ino = LOST_FOUND;
        } else {
            file.ino = numbers.take(key)?;
            order.push(id);
        }
        if is_directory {
            file.links += 1;
            let location = file.location;
            stack.push((id, sorted.children(location).iter()));
        }
    }
    check_links(tree, &order)?;
    sorted.order = order;
    Ok(())
}

fn check_links(tree: &Tree, order: &[FileId]) -> Result<()> {
    let over = order.iter().find(|id| {
        let file = tree.file(**id);
        file.links > LINKS_MAX && !file.is_directory()
    });
    match over {
        None => Ok(()),
        Some(id) => {
            let problem = "the file has more than 65000 names";
            Err(Error::refused(
                &path_of(tree, *id),
                problem,
                "copy it for some of them",
            ))
        }
    }
}

/// The latest change in the tree, in seconds.
pub(crate) fn latest(tree: &Tree, sorted: &Sorted) -> u64 {
    let files = sorted.order.iter().map(|id| tree.file(*id));
    let entries = files.filter(|file| file.origin == Origin::Entry);
    entries
        .map(|file| nonnegative(file.seconds))
        .max()
        .unwrap_or(0)
}
