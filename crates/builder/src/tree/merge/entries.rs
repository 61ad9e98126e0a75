//! The entries of a layer over those of the layers below.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::tree::file::Origin;
use crate::tree::ids::{FileId, NameId};
use crate::tree::lookup::path_below;
use crate::tree::merge::layer::Merge;
use crate::tree::resolve::Missing;

/// What is left to do for a name.
enum Added {
    Done,
    /// Two directories that are one.
    Below((FileId, FileId)),
    /// A directory without an entry that is a link below.
    Link,
}

impl Merge<'_> {
    /// Adds the entries of the layer.
    pub(crate) fn add(&mut self, root: FileId) -> Result<()> {
        self.tree.layer = self.layer;
        let mut left = vec![(root, self.tree.root)];
        let mut links: VecDeque<(NameId, FileId)> = VecDeque::new();
        loop {
            if let Some((upper, lower)) = left.pop() {
                self.attributes(upper, lower);
                for at in self.children(upper) {
                    self.step()?;
                    let name = self.children[at];
                    match self.add_name(name, lower)? {
                        Added::Done => {}
                        Added::Below(both) => left.push(both),
                        Added::Link => links.push_back((name, lower)),
                    }
                }
            } else if let Some((name, lower)) = links.pop_front() {
                left.push(self.add_below_link(name, lower)?);
            } else {
                return Ok(());
            }
        }
    }

    fn attributes(&mut self, upper: FileId, lower: FileId) {
        let upper = *self.tree.file(upper);
        if upper.origin == Origin::Entry {
            let lower = self.tree.file_mut(lower);
            (lower.origin, lower.attributes) = (upper.origin, upper.attributes);
            (lower.seconds, lower.nanoseconds) = (upper.seconds, upper.nanoseconds);
        }
    }

    fn add_name(&mut self, name: NameId, lower: FileId) -> Result<Added> {
        let tree = &mut *self.tree;
        let file = tree.names.get(name).file;
        if file == FileId::NONE || tree.file(file).origin == Origin::Marks {
            return Ok(Added::Done);
        }
        if tree.file(file).is_directory()
            && let Some(there) = tree.find_same(lower, name)
        {
            let there = tree.names.get(there).file;
            if tree.file(there).is_directory() {
                return Ok(Added::Below((file, there)));
            }
            if tree.is_symlink(there) && tree.file(file).origin != Origin::Entry {
                return Ok(Added::Link);
            }
        }
        tree.bind_same(lower, name, file)?;
        Ok(Added::Done)
    }

    /// A directory of the layer without an entry, and the one to which the link below leads.
    fn add_below_link(&mut self, name: NameId, lower: FileId) -> Result<(FileId, FileId)> {
        self.step()?;
        let tree = &mut *self.tree;
        let file = tree.names.get(name).file;
        // An earlier one of these may have replaced it.
        let there = tree.find_same(lower, name);
        let there = there.map(|there| tree.names.get(there).file);
        match there {
            Some(there) if tree.is_symlink(there) => {
                let target = tree.follow(lower, there, Missing::Make)?;
                let path = || path_below(tree, lower, name);
                let Some(target) = target else {
                    let problem = "a layer has files below this symbolic link, which leads to no \
                                   directory in the layers below";
                    let advice = "add the directory to the upper layer";
                    return Err(Error::refused(&path(), problem, advice));
                };
                match self.followed {
                    Some((_, count)) => *count += 1,
                    None => *self.followed = Some((path(), 1)),
                }
                Ok((file, target))
            }
            Some(there) if tree.file(there).is_directory() => Ok((file, there)),
            _ => {
                let made = tree.make_same(lower, name)?;
                Ok((file, made))
            }
        }
    }
}
