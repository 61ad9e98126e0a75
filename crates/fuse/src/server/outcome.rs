//! What a request needs of its thread, and what comes of it.

use crate::errno::Errno;

/// Result of an operation; the body is in the [`crate::reply::Reply`].
pub(super) type Handled<T = ()> = Result<T, Errno>;

/// What is to be sent for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A reply, with its body or an errno.
    Reply(Handled),
    /// No reply, which the kernel does not expect.
    Silent,
}

/// Request class: how long a request may occupy its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// All others: short, though one may wait for a device.
    Soon,
    /// A large transfer that no caller waits for, or that comes with others.
    Bulk,
    /// A large transfer that a caller waits for.
    Awaited,
    /// Until a commit is durable.
    Waits,
    /// Until the kernel has sent other requests and received their replies.
    NeedsWriteback,
    /// As `NeedsWriteback`; if it cannot wait for others, it is served with the data at hand.
    WantsWriteback,
    /// Until the freeze barrier ([`crate::freeze_gate::FreezeGate`]) opens.
    Frozen,
}
