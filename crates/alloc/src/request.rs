//! What an engine is asked for, and how it says no.

use crate::ClusterNr;
use uext4_format::GroupNr;

/// Where the clusters should lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Anywhere; starts where this thread allocated last.
    Anywhere,
    /// Near this cluster: same group, else the groups after it. Busy groups are passed over.
    Near(ClusterNr),
    /// At exactly this cluster (a neighbour of the file's other data), waiting for the group's
    /// lock; when that is not free, as [`Goal::Near`].
    At(ClusterNr),
    /// At exactly this cluster or not at all.
    Only(ClusterNr),
}

/// What the clusters are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data of a file; leaves the first group of a flexible group to the others when it can.
    Data,
    /// Blocks of a directory.
    Directory,
    /// Extent tree, xattr and other metadata blocks.
    Metadata,
}

/// Whether the file is being streamed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A small file: near its goal.
    Local,
    /// A large file: packed after other large files, where streams of this thread went on.
    Stream,
}

/// One allocation.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where.
    pub goal: Goal,
    /// Clusters wanted; at least 1.
    pub len: u32,
    /// Fewest clusters that are of use, in one run; at least 1, at most `len`.
    pub min_len: u32,
    /// What for.
    pub kind: Kind,
    /// Small or streamed.
    pub placement: Placement,
    /// Only groups that end at or before this cluster (32-bit block maps); `None`: all.
    pub end: Option<ClusterNr>,
}

impl Request {
    /// `len` clusters or fewer of data, with no wish where.
    pub fn new(len: u32) -> Self {
        Self {
            goal: Goal::Anywhere,
            len,
            min_len: 1,
            kind: Kind::Data,
            placement: Placement::Local,
            end: None,
        }
    }
    /// The same request with another goal.
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = goal;
        self
    }
    /// The same request for `kind`.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }
    /// The same request with another placement.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }
    /// The same request for at least `min_len` clusters.
    pub fn min_len(mut self, min_len: u32) -> Self {
        self.min_len = min_len;
        self
    }
}

/// Why there are no clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No group has `min_len` free clusters in a row (or not at the only goal). Pending frees
    /// may still become free: commit, then ask again.
    #[error("no free clusters")]
    NoSpace,
    /// As `NoSpace`, but the bitmap of at least this group could not be used.
    #[error("no free clusters, and the bitmap of group {0} cannot be used")]
    Unreadable(GroupNr),
}
