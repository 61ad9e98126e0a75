//! Look-ups in a tree.

use super::super::mapped::Mapped;
use super::walk;
use crate::cache::extent_status::Mapping;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use uext4_format::extent::ExtentNode;
use uext4_format::{BlockNr, LogicalBlock};
use uext4_num::clamp_u32;

/// The mapping at `at`; a hole is at least as long as its length says.
pub(in crate::parts::map) fn lookup(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
) -> Result<Mapping> {
    let leaf = walk::leaf(fs, state, at)?;
    let (found, next) = leaf
        .node
        .read(state, |node| (node.find(at), next_key(&node, at)));
    if let Some((_, extent)) = found {
        let skip = at.0 - extent.logical.0;
        let start = BlockNr(extent.start.0 + u64::from(skip));
        let len_blocks = u32::from(extent.len) - skip;
        return Ok(Mapping::Mapped {
            start,
            len_blocks,
            state: extent.state,
        });
    }
    let end = next.map_or(leaf.expect.logical.end, |key| u64::from(key.0));
    let len_blocks = end.saturating_sub(u64::from(at.0)).max(1);
    Ok(Mapping::Hole {
        len_blocks: clamp_u32(len_blocks),
    })
}

/// The whole extent that maps `at`.
pub(in crate::parts::map) fn find(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
) -> Result<Option<Mapped>> {
    let leaf = walk::leaf(fs, state, at)?;
    let found = leaf.node.read(state, |node| node.find(at));
    Ok(found.map(|(_, extent)| Mapped {
        logical: extent.logical,
        start: extent.start,
        len_blocks: u32::from(extent.len),
        state: extent.state,
    }))
}

/// The goal for `at`: at the same distance behind the preceding extent as in the file; without one,
/// near the leaf.
pub(in crate::parts::map) fn goal(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
) -> Result<Option<BlockNr>> {
    let leaf = walk::leaf(fs, state, at)?;
    let before = leaf.node.read(state, |node| {
        let position = node.search(at);
        (
            position.and_then(|position| node.extent(position)),
            node.extent(0),
        )
    });
    Ok(match before {
        (Some(extent), _) => {
            let distance = u64::from(at.0 - extent.logical.0);
            extent.start.0.checked_add(distance).map(BlockNr)
        }
        (None, Some(next)) => {
            let distance = u64::from(next.logical.0.saturating_sub(at.0));
            Some(BlockNr(next.start.0.saturating_sub(distance)))
        }
        (None, None) => leaf.node.block().map(|block| block.nr()),
    })
}

fn next_key(node: &ExtentNode<&[u8]>, at: LogicalBlock) -> Option<LogicalBlock> {
    node.key(node.search(at).map_or(0, |position| position + 1))
}
