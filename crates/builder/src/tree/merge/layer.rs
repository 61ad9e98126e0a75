//! One layer on its way into the merged tree.

use std::ops::Range;

use crate::error::Result;
use crate::progress::Reporter;
use crate::report::Followed;
use crate::tree::arena::Tree;
use crate::tree::ids::{FileId, NameId};

/// Steps between two calls of the callback for progress.
const STEPS: u32 = 4096;

/// One layer on its way into the merged tree.
pub(crate) struct Merge<'a> {
    pub(crate) tree: &'a mut Tree,
    pub(crate) reporter: &'a mut Reporter,
    /// Names of the layer, by directory.
    pub(crate) children: Vec<NameId>,
    pub(crate) layer: u16,
    pub(crate) steps: u32,
    pub(crate) followed: &'a mut Followed,
}

impl Merge<'_> {
    /// Ends the merge if the caller wants.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS) {
            self.reporter.report()?;
        }
        Ok(())
    }

    /// Sorts the names of the layer by directory, then by bytes.
    pub(crate) fn sort(&mut self, own: Range<u32>) {
        let tree = &*self.tree;
        self.children = own.map(NameId).collect();
        self.children.sort_unstable_by(|one, other| {
            let parent = |id: &NameId| tree.names.get(*id).parent;
            let by_parent = parent(one).cmp(&parent(other));
            by_parent.then_with(|| tree.names.bytes(*one).cmp(tree.names.bytes(*other)))
        });
    }

    /// The places of the names that a directory of the layer has.
    pub(crate) fn children(&self, directory: FileId) -> Range<usize> {
        let names = &self.tree.names;
        let parent = |id: &NameId| names.get(*id).parent;
        let start = self.children.partition_point(|id| parent(id) < directory);
        let count = self.children[start..].partition_point(|id| parent(id) == directory);
        start..start + count
    }
}
