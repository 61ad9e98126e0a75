//! Data of regular files, and targets of symbolic links.
//!
//! There is no page cache: reads and writes go directly to the device, except new data with delayed
//! allocation (`delayed`). Data are written to reserved blocks first; then one handle sets the
//! bitmap bits, maps the blocks and updates the size. A crash therefore never exposes stale block
//! contents, and `data=ordered` needs no extra write.
//!
//! Invariants: the bytes behind the size in the last block are zero on disk; a shrink zeroes them,
//! and a change that moves the size up past a partial block zeroes its tail first. A commit never
//! contains written extents behind the size on disk; unwritten ones are allowed.
//!
//! Locking: `Inode::io` shared to read, exclusive to change; it keeps blocks from being freed under
//! a reader. The state's lock is held for lookups only, not during data I/O.
//!
//! Not here: permissions, setuid bits, waiting for durability (`ops`).

mod allocate;
mod balance;
mod delay;
mod fallocate;
mod fiemap;
mod inline;
mod io;
mod lost_flush;
mod preallocation;
mod read;
mod seek;
mod shift;
mod size;
mod symlink;
#[cfg(test)]
mod tests;
mod times;
mod truncate;
mod whole_blocks;
mod window;
mod write;
mod write_out;
mod write_policy;

pub(crate) use delay::discard_delayed;
pub use fallocate::FallocateMode;
pub(crate) use fallocate::fallocate;
pub use fiemap::Extent;
pub(crate) use fiemap::fiemap;
pub(crate) use inline::{clear as leave_inode, init as init_inline};
pub use read::FileRange;
pub(crate) use read::{read, with_data_ranges};
pub use seek::Seek;
pub(crate) use seek::seek;
pub(crate) use symlink::{is_fast_link, read_link, write_link};
pub use times::Times;
pub(crate) use truncate::{can_be_cut, finish_truncate, free_all_blocks, truncate};
pub(crate) use whole_blocks::{append_zeroes, cut_to};
pub use write::{Position, Written};
pub(crate) use write::{check_position, check_room, write};
pub(crate) use write_out::{
    close, report, write_out, write_out_and_report, write_out_before_chown,
};
pub(crate) use write_policy::{WritePolicy, check_regular};
