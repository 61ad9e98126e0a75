//! FUSE server for ext4 images: mounts an image as a directory.
//!
//! [`mount`] serves until the mount is unmounted, in this process or in a process of its own.
//! [`Session`] serves in the background of this process. [`umount`] unmounts and waits until the
//! server has closed the image.
//!
//! Layout, requests: `transport` receives requests and sends replies (io_uring or `/dev/fuse`);
//! `request` and `reply` encode them; `init` negotiates the connection; `server` turns requests
//! into operations of [`uext4`]; `worker_pool` runs the ones that take long, `affinity` pins
//! its threads; `nodes` counts the inodes that the kernel knows; `owners` maps users and groups.
//!
//! State: `control` is the control socket; `request_stats` counts, `log` writes messages;
//! `freeze_gate` is the freeze barrier; `free_space` watches free space; `bdi` sets the kernel's
//! limits for the mount; `pressure` returns memory; `rings_hint` tells that io_uring is off.
//!
//! Life of a mount: `session`, `workers`, `mount_dir`, `mount_point`, `mount_table`, `claim`,
//! `umount`, `elsewhere`, `daemon` and `signals`; `close_fds` closes inherited descriptors;
//! `sandbox` confines the server, and `keeper` unmounts for a confined server.
//!
//! | methods of `Server` | file |
//! | --- | --- |
//! | dispatch, replies, inodes by number, end | `server/mod.rs` |
//! | lookup, forget, create, link, rename, unlink | `server/names.rs` |
//! | open, create with open, release | `server/open.rs` |
//! | read, write, fallocate, seek, copy, fsync | `server/data.rs` |
//! | listings | `server/dirs.rs` |
//! | getattr, setattr, statfs; attributes by name | `server/attrs.rs`, `server/xattrs.rs` |
//! | callers and owners, and what they may do | `server/credentials.rs` |
//! | append-only and immutable files | `server/guarded.rs` |
//! | ENOSPC below the cache of the kernel | `server/enospc.rs` |
//! | ioctls; block map | `server/control.rs`, `server/bmap.rs` |
//! | freeze, remount, grow, shutdown | `server/freeze.rs` |
//!
//! References: `linux/fuse.h`; man page `fuse(4)`.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod affinity;
mod attachment;
mod attributes;
mod bdi;
mod cache_bound;
mod claim;
mod close_fds;
mod control;
mod daemon;
mod elsewhere;
mod errno;
mod error;
mod fixed_options;
mod free_space;
mod freeze_gate;
mod init;
mod interrupted;
mod keeper;
mod log;
mod mount_dir;
mod mount_point;
mod mount_table;
mod nodes;
mod notify;
mod opened;
mod options;
mod owners;
mod pressure;
mod privileged;
mod protocol;
mod remount;
mod reply;
mod request;
mod request_stats;
mod rings_hint;
mod runtime_dir;
mod sandbox;
mod server;
mod session;
mod signals;
mod stopper;
mod thread_exit;
mod transport;
mod umount;
mod worker_pool;
mod workers;

pub use close_fds::close_inherited;
pub use control::{
    Ask, Client, Continued, CopyFormat, CopyIdentity, Earlier, FileIdentity, NewGrace, NewLimits,
    Noted, QuotaRow, Refusal, Remote, RemoteDevice, Since, SnapshotPurpose, SnapshotResult,
    SnapshotWanted, kind_of,
};
pub use error::{Error, Explained, Result};
pub use interrupted::{catch_interrupts, is_interrupted};
pub use log::escape_controls;
pub use mount_point::Lazy;
pub use options::{Announce, Backing, Channel, DataCache, MountOptions, Run, Sandbox, Sharing};
pub use owners::{BadOwners, Owners};
pub use remount::{freeze, remount, shutdown, thaw};
pub use rings_hint::io_uring_hint;
pub use session::{Session, Stages, mount, mount_explained};
pub use umount::{Image, umount, umount_telling};
