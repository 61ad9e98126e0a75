//! The control socket: how a running mount is looked into and steered.
//!
//! Layout: one stream socket per mount, in the mount's directory (`runtime_dir`). A client sends
//! one JSON object per line and gets one line back for each: `wire` says what they hold, `verbs`
//! has one line per verb, `socket` is the server's side, `client` the other.
//! Invariants: only the server's user and the superuser are listened to. A client that says
//! nothing, too much or nonsense costs a thread for a few seconds and the mount nothing.
//!
//! A new verb is a variant of [`Ask`] and an arm in `verbs`.

mod client;
mod line;
mod places;
mod quota;
mod socket;
mod verbs;
mod wire;

pub use client::Client;
pub use quota::{NewGrace, NewLimits, QuotaRow};
pub(crate) use socket::{Control, SOCKET_NAME};
pub use wire::{Ask, Refusal};
