//! Writeback of delayed data: the dirty inodes of a mount, and the thread that writes them out.
//!
//! Layout: [`Pool`] bounds the bytes of all buffers and lists the dirty inodes by age; [`Flusher`]
//! is a thread that calls its [`Work`]. Without threads (`Threads::Inline`) data stay until a sync
//! or the limit.
//! Locking: the pool's lists are `Rank::Queue`.
//! Not here: the steps of writeback (`file::balance`, `file::write_out`).

mod flusher;
mod pool;
mod unseen_errors;

pub(crate) use flusher::{Flusher, Reach, Work};
pub(crate) use pool::Pool;
use unseen_errors::UnseenErrors;
