//! Control socket: inspection and administration of a running mount.
//!
//! Layout: one stream socket per mount, in the mount's directory (`runtime_dir`). A client sends
//! one JSON object per line and gets one line back for each. `wire` defines the messages, `verbs`
//! implements each verb, `socket` is the server side, `client` the client side.
//! A client that takes a snapshot reads it over its connection: `snapshot_wire` has the frames,
//! `snapshots` the server's side, with `snapshot_list` and `snapshot_channel`, `remote` and
//! `remote_connection` the client's. `remembered` has copies that a later one can continue,
//! `snapshot_chain` how.
//! Invariants: only the server's user and the superuser are served. A silent, flooding or malformed
//! client costs one thread for a few seconds and does not disturb the mount.
//!
//! A new verb is a variant of [`Ask`] and an arm in `verbs`.

mod client;
mod line;
mod quota;
mod remembered;
mod remote;
mod remote_connection;
mod snapshot_chain;
mod snapshot_channel;
mod snapshot_list;
mod snapshot_wire;
mod snapshots;
mod socket;
mod verbs;
mod wait_slots;
mod wire;

pub use client::{Client, kind_of};
pub use quota::{NewGrace, NewLimits, QuotaRow};
pub use remote::{Remote, RemoteDevice};
pub use snapshot_wire::{
    Continued, CopyFormat, CopyIdentity, Earlier, FileIdentity, Noted, Since, SnapshotPurpose,
    SnapshotResult, SnapshotWanted,
};
pub(crate) use socket::Control;
pub use wire::{Ask, Refusal};
