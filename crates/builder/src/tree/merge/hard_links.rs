//! Hard links to files that their layer does not have.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::{Error, Result, shown};
use crate::tree::ids::NameId;
use crate::tree::layer::Pending;
use crate::tree::merge::layer::Merge;

impl Merge<'_> {
    /// Gives the names of hard links to files of layers below these files.
    pub(crate) fn resolve(
        &mut self,
        pending: &[Pending],
        own: Range<u32>,
        is_lowest: bool,
    ) -> Result<()> {
        let mut files = HashMap::with_capacity(pending.len());
        for link in pending {
            self.step()?;
            let target = if is_lowest {
                None
            } else {
                self.tree.resolve_file(&link.target)?
            };
            files.insert(link.file, (link, target));
        }
        for id in own.map(NameId) {
            let file = self.tree.names.get(id).file;
            let Some((link, target)) = files.get(&file) else {
                continue;
            };
            match target {
                Some(target) => self.tree.names.get_mut(id).file = *target,
                None => return Err(no_target(link)),
            }
        }
        Ok(())
    }
}

fn no_target(link: &Pending) -> Error {
    let target = shown(&link.target);
    let problem = format!(
        "it is a hard link to {target}, which neither an earlier entry of its layer nor a layer \
         below has"
    );
    let advice = "put both names into one archive, the target first, as tar does";
    Error::refused(&link.path, problem, advice)
}
