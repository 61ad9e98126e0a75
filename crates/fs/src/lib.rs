//! ext4 in user space: the library.
#![forbid(unsafe_code)]

pub mod mkfs;
