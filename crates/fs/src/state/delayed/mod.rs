//! Delayed allocation: file data in memory without allocated blocks.
//!
//! A write into a hole copies its bytes to the file's [`Buffer`] and reserves space. Writeback
//! allocates the blocks, for whole runs at once. A file written in small pieces gets one extent,
//! and a file deleted before writeback never reaches the disk.
//!
//! Layout: a [`Buffer`] per inode ([`LazyBuffer`]), behind `Inode::io`; the state of its writeback
//! errors ([`WriteErrors`]) and of failed flushes ([`FlushGeneration`]).
//!
//! Invariants: a block in a buffer is not mapped. Each of its clusters is reserved, unless another
//! block of the cluster is mapped. Reservations for the file's tree cover the worst case, so
//! writeback never lacks space. The size on disk (`InodeState::disksize`) ends before the first
//! block in the buffer behind it.
//!
//! Locking: a buffer is guarded by its inode's `InodeIo`.
//!
//! Not here: filling and writeback (`file::write`, `file::write_out`), the reservations
//! (`space::delayed`), the dirty inodes of a mount (`writeback`).

mod buffer;
mod errors;
mod flush_generation;
mod lazy_buffer;

pub(crate) use buffer::{Buffer, Promise};
pub use errors::ErrorCursor;
pub(crate) use errors::{Advance, WriteErrors};
pub(crate) use flush_generation::{FlushGeneration, Sample};
pub(crate) use lazy_buffer::LazyBuffer;
