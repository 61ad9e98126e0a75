//! What the marks of a layer take away from the layers below.

use crate::error::Result;
use crate::tree::file::Origin;
use crate::tree::ids::{FileId, NameId};
use crate::tree::merge::layer::Merge;
use crate::tree::resolve::Missing;

/// Something that a mark takes away.
enum Hidden {
    Name(NameId),
    Below(FileId),
}

impl Merge<'_> {
    /// Takes away what marks name. All paths mean what they do before the layer.
    pub(crate) fn hide(&mut self, root: FileId) -> Result<()> {
        let mut hidden = Vec::new();
        let mut left = vec![(root, self.tree.root)];
        while let Some((upper, lower)) = left.pop() {
            if self.tree.file(upper).opaque != 0 {
                hidden.push(Hidden::Below(lower));
                continue;
            }
            for at in self.children(upper) {
                self.step()?;
                let name = self.children[at];
                let Some(there) = self.tree.find_same(lower, name) else {
                    continue;
                };
                let known = self.tree.names.get(name);
                if known.hides {
                    hidden.push(Hidden::Name(there));
                    continue;
                }
                let upper = self.tree.file(known.file);
                let (is_directory, origin) = (upper.is_directory(), upper.origin);
                let file = self.tree.names.get(there).file;
                if is_directory && self.tree.file(file).is_directory() {
                    left.push((known.file, file));
                } else if is_directory && origin != Origin::Entry {
                    let target = self.tree.follow(lower, file, Missing::Leave)?;
                    left.extend(target.map(|target| (known.file, target)));
                }
            }
        }
        let mark = self.layer.saturating_add(1);
        for hidden in hidden {
            match hidden {
                Hidden::Name(name) => self.tree.names.get_mut(name).file = FileId::NONE,
                Hidden::Below(file) => self.tree.file_mut(file).opaque = mark,
            }
        }
        Ok(())
    }
}
