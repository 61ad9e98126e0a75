//! Tables, and the path of them down to a block.

use super::super::limits::block_bounds;
use crate::cache::extent_status::Mapping;
use crate::cache::meta::{MetaBlock, Seal};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use uext4_format::extent::ExtentState;
use uext4_format::indirect::{self, IndirectPath, pointer, pointers_per_block};
use uext4_format::{BlockNr, DamageLocation};
use uext4_journal::{Handle, Object};
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::Arc;

/// A table of pointers: `i_block`, or a block.
#[derive(Clone)]
pub(super) enum Table {
    Root,
    Block(Arc<MetaBlock>),
}

impl Table {
    pub(super) fn read<R>(&self, state: &InodeState, look: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Table::Root => look(&state.disk.i_block),
            Table::Block(block) => look(block.live().read().bytes()),
        }
    }

    pub(super) fn edit<R>(
        &self,
        handle: &Handle<'_>,
        state: &mut InodeState,
        edit: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        match self {
            Table::Root => edit(&mut state.disk.i_block),
            Table::Block(block) => edit(handle.write(block).bytes_mut()),
        }
    }

    pub(super) fn pointer(&self, state: &InodeState, at: u32) -> Option<BlockNr> {
        let block = self.read(state, |table| pointer(table, usize_of(at)));
        (block.0 != 0).then_some(block)
    }
}

/// A table on the path to a block, and the position in it.
pub(super) struct Step {
    pub(super) table: Table,
    pub(super) at: u32,
}

pub(super) fn load(fs: &Fs, state: &InodeState, nr: BlockNr) -> Result<Table> {
    let place = DamageLocation::InodeBlock(state.nr(), nr);
    let block = fs.read_block(nr, Seal::Indirect, |bytes| {
        indirect::validate(bytes, &block_bounds(fs), place)
    })?;
    Ok(Table::Block(block))
}

/// The tables on the path to a block, down to the last one that exists.
pub(super) fn walk(fs: &Fs, state: &InodeState, path: &IndirectPath) -> Result<Vec<Step>> {
    let mut steps = Vec::with_capacity(4);
    let mut table = Table::Root;
    for (level, &at) in path.offsets().iter().enumerate() {
        let next = table.pointer(state, at);
        steps.push(Step { table, at });
        let Some(next) = next.filter(|_| level < path.indirect_levels()) else {
            break;
        };
        table = load(fs, state, next)?;
    }
    Ok(steps)
}

/// Distance of the path's block from the first one under its pointer of `level`, and the number of
/// blocks under such a pointer.
pub(super) fn span(fs: &Fs, path: &IndirectPath, level: usize) -> (u64, u64) {
    let pointers = pointers_per_block(fs.block_size());
    let below = &path.offsets()[level + 1..];
    below.iter().fold((0, 1), |(offset, size), &at| {
        (offset * pointers + u64::from(at), size * pointers)
    })
}

/// The run of equal or consecutive pointers from position `at` on.
pub(super) fn run_from(table: &[u8], at: u32, max_blocks: u32) -> Mapping {
    let start = pointer(table, usize_of(at));
    let step = u64::from(start.0 != 0);
    let next = (1..max_blocks).take_while(|&len| {
        let next = pointer(table, usize_of(at + len));
        next.0 == start.0 + u64::from(len) * step
    });
    let len_blocks = 1 + clamp_u32(next.count());
    if start.0 == 0 {
        return Mapping::Hole { len_blocks };
    }
    Mapping::Mapped {
        start,
        len_blocks,
        state: ExtentState::Written,
    }
}
