//! Search for the index entry that leads to the last block of the directory.
//!
//! Leaves and nodes have no pointers to their parents. A descent to a name in the block passes the
//! entry. For a block without names a bounded number of nodes is scanned; if that fails, the
//! directory is not shortened.
//! Locking: the `index` lock is held exclusively.

use super::index::{Path, Probe, Step, StepKind, Target, probe};
use super::view::Dir;
use crate::cache::meta::MetaBlock;
use crate::types::error::Result;
use uext4_format::LogicalBlock;
use uext4_format::htree::DxNode;
use uext4_sync::Arc;

/// Root and two levels of nodes, then a leaf.
const LEVELS_MAX: usize = 4;
/// Most nodes scanned for a block without names.
const SCAN_NODES_MAX: usize = 1024;

/// The entry of the index that leads to the last block of the directory.
pub(super) struct Reference {
    /// Logical number of the entry's block.
    pub(super) place: LogicalBlock,
    pub(super) block: Arc<MetaBlock>,
    pub(super) kind: StepKind,
    pub(super) at: usize,
}

impl Reference {
    fn at(step: &Step, at: usize) -> Self {
        Self {
            place: step.place,
            block: step.block.clone(),
            kind: step.kind,
            at,
        }
    }
}

/// Finds the entry of the last block: on the path `near`, by a name below the block, or by a scan.
pub(super) fn last_reference(view: &Dir<'_>, near: &Path) -> Result<Option<Reference>> {
    let last = LogicalBlock(view.blocks.saturating_sub(1));
    if let Some(found) = in_steps(near, last) {
        return Ok(Some(found));
    }
    if let Some(name) = name_below(view, last)?
        && let Probe::Path(path) = probe(view, Target::Major(near.hasher.hash(&name).major))?
        && let Some(found) = on_path(view, path, last)?
    {
        return Ok(Some(found));
    }
    by_scan(view, near, last)
}

/// The entry for `block` in the roots and nodes of a path.
fn in_steps(path: &Path, block: LogicalBlock) -> Option<Reference> {
    path.steps()
        .find_map(|step| Some(Reference::at(step, position(step, block)?)))
}

/// A name in a leaf, or in the first leaf below a node.
fn name_below(view: &Dir<'_>, block: LogicalBlock) -> Result<Option<Vec<u8>>> {
    let mut at = block;
    for _ in 0..LEVELS_MAX {
        let Some(block) = view.block(at)? else {
            return Ok(None);
        };
        let image = block.image();
        if let Some(entry) = view.leaf(&image[..], block.nr()).entries().next() {
            return Ok(Some(entry?.name.to_vec()));
        }
        // A node, or an empty leaf: the block number it yields is only a hint.
        match DxNode::node(&image[..]).entry(0) {
            Some(entry) if (1..view.blocks).contains(&entry.block.0) => at = entry.block,
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The entry for `block` on the path to a name, or to the continuations of its hash.
fn on_path(view: &Dir<'_>, mut path: Path, block: LogicalBlock) -> Result<Option<Reference>> {
    loop {
        if let Some(found) = in_steps(&path, block) {
            return Ok(Some(found));
        }
        if !path.continues() || !path.advance(view)? {
            return Ok(None);
        }
    }
}

/// The index of the entry for `block` in a root or node.
fn position(step: &Step, block: LogicalBlock) -> Option<usize> {
    let state = step.block.read();
    let node = step.kind.node(state.bytes());
    node.entries().position(|entry| entry.block == block)
}

/// Scans the index, up to [`SCAN_NODES_MAX`] nodes.
fn by_scan(view: &Dir<'_>, path: &Path, block: LogicalBlock) -> Result<Option<Reference>> {
    // Nodes to scan, with the number of levels of nodes below them.
    let mut waiting = vec![(LogicalBlock(0), path.len() - 1)];
    for _ in 0..SCAN_NODES_MAX {
        let Some((place, levels_below)) = waiting.pop() else {
            break;
        };
        let step = Step {
            place,
            block: view.block_or_damage(place)?,
            kind: StepKind::at(place),
            at: 0,
            next: None,
        };
        if let Some(at) = position(&step, block) {
            return Ok(Some(Reference::at(&step, at)));
        }
        if levels_below > 0 {
            let state = step.block.read();
            let entries = step.kind.node(state.bytes());
            let nodes = entries.entries().map(|entry| entry.block);
            let inside = nodes.filter(|place| (1..view.blocks).contains(&place.0));
            waiting.extend(inside.map(|place| (place, levels_below - 1)));
        }
    }
    Ok(None)
}
