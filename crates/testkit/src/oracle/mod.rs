//! Oracles: external programs and the kernel, which check our images.
//!
//! Every function runs one real tool, with a time limit, and keeps its whole output. A missing tool
//! is an error, never a silent pass.

mod debugfs;
mod dumpe2fs;
mod e2fsck;
mod held_loop;
mod kernel;
mod loop_device;
mod mke2fs;
mod program;
mod scratch;
mod unmount;

pub use debugfs::{Access, debugfs, debugfs_one};
pub use dumpe2fs::{Header, dumpe2fs};
pub use e2fsck::{Repair, Verdict, assert_clean, e2fsck, e2fsck_of_pair, e2fsck_repair};
pub use held_loop::HeldLoop;
pub use kernel::KernelMount;
pub use loop_device::{LoopDevice, LoopMount};
pub use mke2fs::{mke2fs, mke2fs_image};
pub use program::{Output, Program, has_fuse2fs, in_ci, is_installed};
pub use scratch::scratch_dir;
