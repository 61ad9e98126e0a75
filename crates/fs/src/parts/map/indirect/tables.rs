//! Lists the blocks of all tables of a file.

use super::walk::{Table, load};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use uext4_format::BlockNr;
use uext4_format::indirect::{DIRECT_BLOCKS, pointers_per_block};
use uext4_num::clamp_u32;

/// The blocks of all tables, each before those that it names; `None` if there are more than `max`.
pub(in super::super) fn tables(
    fs: &Fs,
    state: &InodeState,
    max: usize,
) -> Result<Option<Vec<BlockNr>>> {
    let mut found = Vec::new();
    // Depth first: at most the pointers of two tables wait.
    let mut waiting = Vec::new();
    for levels in (1..=3).rev() {
        let at = DIRECT_BLOCKS + levels - 1;
        waiting.extend(Table::Root.pointer(state, at).map(|nr| (nr, levels)));
    }
    while let Some((nr, levels)) = waiting.pop() {
        if found.len() == max {
            return Ok(None);
        }
        found.push(nr);
        if levels > 1 {
            let table = load(fs, state, nr)?;
            let pointers = (0..clamp_u32(pointers_per_block(fs.block_size()))).rev();
            let below = pointers.filter_map(|at| table.pointer(state, at));
            waiting.extend(below.map(|nr| (nr, levels - 1)));
        }
    }
    Ok(Some(found))
}
