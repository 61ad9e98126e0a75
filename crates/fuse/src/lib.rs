//! The mount: an ext4 image as a directory, through FUSE.
//!
//! [`mount`] serves until somebody unmounts, here or in a process of its own; [`Session`] serves in
//! the background of this process; [`umount`] takes a mount off and waits until its server has
//! closed the image.
//!
//! Layout: `transport` brings requests and takes answers (io_uring or `/dev/fuse`); `request` and
//! `answer` are their bytes; `init` is the first exchange; `server` turns requests into operations
//! of [`uext4`]; `aside` is where what takes long is done; `nodes` holds the inodes that the kernel
//! knows; `owners` maps users and groups; `control` is how a running mount is asked, `tally` what
//! it counts, `log` what it says itself; `halt` holds changes back while it is frozen or remounted;
//! `room` says when space runs short; `bdi` is what the kernel keeps of a mount; `pressure` gives
//! memory back; `session`, `crew`, `mount_point`, `claim`, `umount`, `daemon` and `signals` are the
//! life of a mount; `inherited` closes what the program was started with, `sandbox` locks the
//! server in, and `keeper` unmounts for it then.
//! References: `linux/fuse.h`; man page `fuse(4)`.
#![deny(unsafe_code)]

mod answer;
mod aside;
mod attributes;
mod bdi;
mod claim;
mod control;
mod crew;
mod daemon;
mod ends;
mod errno;
mod error;
mod halt;
mod hands;
mod inherited;
mod init;
mod interrupted;
mod keeper;
mod log;
mod made_with;
mod mount_point;
mod nodes;
mod notify;
mod opened;
mod options;
mod owners;
mod pressure;
mod protocol;
mod remount;
mod request;
mod room;
mod runtime_dir;
mod sandbox;
mod server;
mod session;
mod signals;
mod tally;
mod transport;
mod umount;

pub use control::{Ask, Client, NewGrace, NewLimits, QuotaRow, Refusal};
pub use error::{Error, Explained, Result};
pub use inherited::close_inherited;
pub use interrupted::{catch_interrupts, is_interrupted};
pub use mount_point::Lazy;
pub use options::{Announce, Backing, Channel, DataCache, MountOptions, Run, Sandbox, Sharing};
pub use owners::{BadOwners, Owners};
pub use remount::{freeze, remount, shutdown, thaw};
pub use session::{Session, Stages, mount, mount_explained};
pub use umount::{Image, umount};
