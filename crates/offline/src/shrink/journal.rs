//! Moves the journal, whose log is empty while a file system is at rest.
//!
//! ```text
//! blocks of the log copied, with a new map          nothing refers to them
//! a transaction in the new log, complete, flush     the same
//! the inode of the journal, one sector              from here on the new log is the log
//! the transaction home                              old blocks are free, new ones are in use
//! ```
//!
//! The transaction says what its own log needs: until a replay, the new blocks are free in the
//! bitmaps. Before the third step a recovery finds the old log, which is empty; after it the new
//! one, with a transaction that brings bitmaps and counts to it. So no state in between has blocks
//! without an owner, whatever the journal's map consists of.
//!
//! Invariant: the first block of the log, which says where it starts, is among those that move. So
//! the old log stays empty while the transaction is written to blocks that both have.

use super::layout::Holder;
use super::maps::translated;
use super::moves::Mover;
use super::plan::FileMove;
use uext4_format::extent::Extent;
use uext4_journal::LogRun;
use uext4_mkfs::journal_backup;
use uext4_volume::Result;

impl Mover<'_> {
    /// Moves blocks of the journal.
    pub(super) fn move_journal(&mut self, holder: &Holder, file: &FileMove) -> Result<()> {
        self.commit()?;
        let inode = self.copy_file(holder, file)?;
        let (table, _) = self.descriptors.inode_position(holder.nr)?;
        self.put_inode(holder.nr, &inode)?;
        self.mark_file(holder, file)?;
        let (blocks, mut wanted) = self.take_changes()?;
        if wanted.jnl_backup_type != 0 {
            wanted.jnl_blocks = journal_backup(&inode);
        }
        let extents = translated(&holder.map.extents, &file.data);
        let runs = extents.iter().map(run_of).collect();
        self.volume.change_log(runs, table, blocks, wanted)
    }
}

fn run_of(extent: &Extent) -> LogRun {
    LogRun {
        log_start: extent.logical.0,
        device_block: extent.start.0,
        len: extent.len.into(),
    }
}
