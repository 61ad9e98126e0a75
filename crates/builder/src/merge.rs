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
//! Invariants: the merged tree has no directory of a layer that is not merged yet, so each
//! directory is merged once. An opaque directory keeps its names; those of layers below its mark
//! are dead ([`Tree::is_alive`]), without a look at each.
//!
//! Not here: contents. Blocks of files without a name stay free.
//!
//! References: OCI image specification, "Applying Changesets".

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::names::NameId;
use crate::resolve::Missing;
use crate::tree::{FileId, Origin, Pending, Tree};
use crate::{Builder, Error, Result};

/// Steps between two looks at the callback.
const STEPS: u32 = 4096;

/// The first symbolic link that was followed, and how many there were.
type Followed = Option<(Vec<u8>, u64)>;

impl Builder {
    /// Merges all layers; answers the symbolic links that were followed.
    pub(crate) fn merge_layers(&mut self) -> Result<Followed> {
        let layers = std::mem::take(&mut self.tree.layers);
        let pending = std::mem::take(&mut self.tree.pending);
        let (mut names, mut links) = (self.tree.names.len(), pending.len());
        let mut followed = None;
        for (nr, layer) in (0..self.tree.layer + 1).zip(&layers).rev() {
            let is_lowest = nr == self.tree.layer;
            let own = layer.names..names;
            let pending = &pending[layer.pending..links];
            (names, links) = (layer.names, layer.pending);
            let mut merge = Merge {
                children: Vec::new(),
                layer: nr,
                steps: 0,
                followed: &mut followed,
                build: self,
            };
            if !pending.is_empty() {
                merge.resolve(pending, own.clone(), is_lowest)?;
            }
            match is_lowest {
                true => self.tree.root = layer.root,
                false => {
                    merge.sort(own);
                    if layer.has_marks {
                        merge.hide(layer.root)?;
                    }
                    merge.add(layer.root)?;
                }
            }
        }
        Ok(followed)
    }
}

/// One layer on its way into the merged tree.
struct Merge<'a> {
    build: &'a mut Builder,
    /// Names of the layer, by directory.
    children: Vec<NameId>,
    layer: u16,
    steps: u32,
    followed: &'a mut Followed,
}

/// Something that a mark takes away.
enum Hidden {
    Name(NameId),
    Below(FileId),
}

impl Merge<'_> {
    fn tree(&mut self) -> &mut Tree {
        &mut self.build.tree
    }

    /// Ends the merge if the caller wants.
    fn step(&mut self) -> Result<()> {
        self.steps = self.steps.wrapping_add(1);
        match self.steps.is_multiple_of(STEPS) {
            true => self.build.report(),
            false => Ok(()),
        }
    }

    /// Gives the names of hard links to files of layers below these files.
    fn resolve(&mut self, pending: &[Pending], own: Range<u32>, is_lowest: bool) -> Result<()> {
        let mut files = HashMap::with_capacity(pending.len());
        for link in pending {
            self.step()?;
            let found = match is_lowest {
                true => None,
                false => self.tree().resolve_file(&link.target)?,
            };
            files.insert(link.file, (link, found));
        }
        for id in own.map(NameId) {
            let file = self.build.tree.names.get(id).file;
            let Some((link, found)) = files.get(&file) else {
                continue;
            };
            match found {
                Some(found) => self.tree().names.get_mut(id).file = *found,
                None => return Err(no_target(link)),
            }
        }
        Ok(())
    }

    fn sort(&mut self, own: Range<u32>) {
        let tree = &self.build.tree;
        self.children = own.map(NameId).collect();
        self.children.sort_unstable_by(|one, other| {
            let parent = |id: &NameId| tree.names.get(*id).parent;
            let names = || tree.names.bytes(*one).cmp(tree.names.bytes(*other));
            parent(one).cmp(&parent(other)).then_with(names)
        });
    }

    /// The places of the names that a directory of the layer has.
    fn children(&self, directory: FileId) -> Range<usize> {
        let names = &self.build.tree.names;
        let parent = |id: &NameId| names.get(*id).parent;
        let start = self.children.partition_point(|id| parent(id) < directory);
        let count = self.children[start..].partition_point(|id| parent(id) == directory);
        start..start + count
    }

    /// Takes away what marks name. All paths mean what they do before the layer.
    fn hide(&mut self, root: FileId) -> Result<()> {
        let mut hidden = Vec::new();
        let mut left = vec![(root, self.tree().root)];
        while let Some((upper, lower)) = left.pop() {
            if self.build.tree.file(upper).opaque != 0 {
                hidden.push(Hidden::Below(lower));
                continue;
            }
            for at in self.children(upper) {
                self.step()?;
                let name = self.children[at];
                let Some(there) = self.build.tree.find_same(lower, name) else {
                    continue;
                };
                let known = self.build.tree.names.get(name);
                if known.hides {
                    hidden.push(Hidden::Name(there));
                    continue;
                }
                let upper = self.build.tree.file(known.file);
                let (is_directory, origin) = (upper.is_directory(), upper.origin);
                let file = self.build.tree.names.get(there).file;
                if is_directory && self.build.tree.file(file).is_directory() {
                    left.push((known.file, file));
                } else if is_directory && origin != Origin::Entry {
                    let found = self.tree().follow(lower, file, Missing::Leave)?;
                    left.extend(found.map(|found| (known.file, found)));
                }
            }
        }
        let mark = self.layer.saturating_add(1);
        for hidden in hidden {
            match hidden {
                Hidden::Name(name) => self.tree().names.get_mut(name).file = FileId::NONE,
                Hidden::Below(file) => self.tree().file_mut(file).opaque = mark,
            }
        }
        Ok(())
    }

    /// Adds the entries of the layer.
    fn add(&mut self, root: FileId) -> Result<()> {
        self.tree().layer = self.layer;
        let mut left = vec![(root, self.tree().root)];
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
        let upper = *self.build.tree.file(upper);
        if upper.origin == Origin::Entry {
            let lower = self.tree().file_mut(lower);
            (lower.origin, lower.attributes) = (upper.origin, upper.attributes);
            (lower.seconds, lower.nanoseconds) = (upper.seconds, upper.nanoseconds);
        }
    }

    fn add_name(&mut self, name: NameId, lower: FileId) -> Result<Added> {
        let tree = &mut self.build.tree;
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
        let tree = &mut self.build.tree;
        let file = tree.names.get(name).file;
        // An earlier one of these may have replaced it.
        let there = tree.find_same(lower, name);
        let there = there.map(|there| tree.names.get(there).file);
        match there {
            Some(there) if tree.is_symlink(there) => {
                let found = tree.follow(lower, there, Missing::Make)?;
                let path = || crate::resolve::path_below(tree, lower, name);
                let Some(found) = found else {
                    let problem = "a layer has files below this symbolic link, which leads to no \
                                   directory in the layers below";
                    let advice = "add the directory to the upper layer";
                    return Err(Error::refused(&path(), problem, advice));
                };
                match self.followed {
                    Some((_, count)) => *count += 1,
                    None => *self.followed = Some((path(), 1)),
                }
                Ok((file, found))
            }
            Some(there) if tree.file(there).is_directory() => Ok((file, there)),
            _ => {
                let made = tree.make_same(lower, name)?;
                Ok((file, made))
            }
        }
    }
}

/// What is left to do for a name.
enum Added {
    Done,
    /// Two directories that are one.
    Below((FileId, FileId)),
    /// A directory without an entry that is a link below.
    Link,
}

fn no_target(link: &Pending) -> Error {
    let target = crate::error::shown(&link.target);
    let problem = format!(
        "it is a hard link to {target}, which neither an earlier entry of its layer nor a layer \
         below has"
    );
    let advice = "put both names into one archive, the target first, as tar does";
    Error::refused(&link.path, problem, advice)
}
