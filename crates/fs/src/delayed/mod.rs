//! Data that wait for their blocks (delayed allocation).
//!
//! A write into a hole keeps its bytes in the file's [`Buffer`] and claims space; blocks are chosen
//! when the data are written out, all that is consecutive at once. So a file that is written in
//! small pieces gets one extent, and one that is deleted before that never touches the disk.
//!
//! Layout: a [`Buffer`] per inode ([`Waiting`]), behind `Inode::io`; one [`Pool`] per mount, which
//! bounds the bytes of all buffers and knows the inodes that have some, by age; a thread
//! ([`Flusher`]) that writes out what is old. Without threads (`Threads::Inline`) data wait for a
//! sync or the bound.
//!
//! Invariants: a block in a buffer is not mapped. Each of its clusters is claimed, unless another
//! block of the cluster is mapped. Claims for the file's tree cover the worst case. So writing out
//! never lacks space. The size on disk (`InodeState::disksize`) ends before the first block in the
//! buffer behind it.
//! Locking: a buffer is guarded by its inode's `InodeIo`. The pool's lists are `Rank::Queue`.
//! Not here: filling and writing out (`file::delay`, `file::write_out`), the claims
//! (`space::delayed`).

mod balance;
mod buffer;
mod errors;
mod exposure;
mod flusher;
mod pool;
mod untold;
mod waiting;

pub(crate) use balance::Reach;
pub(crate) use buffer::{Buffer, Promise};
pub use errors::ErrorCursor;
pub(crate) use errors::{Told, WriteErrors};
pub(crate) use exposure::{Exposure, Sample};
pub(crate) use flusher::Flusher;
pub(crate) use pool::Pool;
use untold::Untold;
pub(crate) use waiting::Waiting;
