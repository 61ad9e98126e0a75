//! Tests of the tool as a program; e2fsck, debugfs, dumpe2fs and the kernel check the results.
#![allow(missing_docs)]

mod arguments;
mod bad_days;
mod block_device;
mod build;
mod changes;
mod damage;
mod defrag;
mod export;
mod fstab;
mod in_use;
mod log;
mod loop_mount;
mod missing;
mod mkfs;
mod mmp;
mod mount;
mod partitions;
mod places;
mod quota;
mod races;
mod recorded_errors;
mod remount;
mod resize;
mod rig;
mod room;
mod running;
mod sandbox;
mod show;
mod space;
mod strangers;
mod system;
mod transfer;
mod tune;
mod unprivileged;
mod walks;
