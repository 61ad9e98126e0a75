//! Allocation requests and their errors.

use crate::ClusterNr;
use uext4_format::GroupNr;

/// Desired place of the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Anywhere; starts where this thread last allocated.
    Anywhere,
    /// Near this cluster: same group, else the groups after it. Groups with a held lock are
    /// skipped.
    Near(ClusterNr),
    /// At exactly this cluster (adjacent to other data of the file), waiting for the group's lock;
    /// if it is not free, as [`Goal::Near`].
    At(ClusterNr),
    /// At exactly this cluster or not at all.
    Only(ClusterNr),
}

/// What the clusters are for; the choice of groups depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterUse {
    /// Data of a file; avoids the first group of a flexible group if it can.
    Data,
    /// Blocks of a directory: entries or index nodes.
    Directory,
    /// Extent tree, xattr and other metadata blocks.
    Metadata,
}

/// Whether the file is written as a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A small file: near its goal.
    Local,
    /// A large file: packed after other large files, at the stream goal of this thread.
    Stream,
}

/// A request for one run of clusters.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where the run should be, or near what.
    pub goal: Goal,
    /// Clusters wanted; at least 1.
    pub len: u32,
    /// Smallest useful run, in clusters; at least 1, at most `len`.
    pub min_len: u32,
    /// What the clusters are for: data or metadata.
    pub kind: ClusterUse,
    /// Whether the run is part of a stream or a small file.
    pub placement: Placement,
    /// Only groups that end at or before this cluster (32-bit block maps); `None`: all.
    pub end: Option<ClusterNr>,
}

impl Request {
    /// At most `len` clusters of data, anywhere.
    pub fn new(len: u32) -> Self {
        Self {
            goal: Goal::Anywhere,
            len,
            min_len: 1,
            kind: ClusterUse::Data,
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
    pub fn kind(mut self, kind: ClusterUse) -> Self {
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

/// Reason for a failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No group has `min_len` contiguous free clusters (or not at the only goal). Pending frees may
    /// still become free: commit, then retry.
    #[error("no free clusters")]
    NoSpace,
    /// As `NoSpace`, but the bitmap of at least this group could not be used.
    #[error("no free clusters, and the bitmap of group {0} cannot be used")]
    Unreadable(GroupNr),
}
