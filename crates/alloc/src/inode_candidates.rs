//! Candidate groups for a new inode, lazily, best first.
//!
//! Finding a bit and setting it is one step, in the fs crate; a group that turns out full is
//! skipped.
//!
//! Invariant: the last stage visits every group, whatever its count, if the file system has a free
//! inode.

use crate::{Affinity, Engine, InodeKind, InodePolicy, Parent};
use uext4_format::GroupNr;
use uext4_num::clamp_u32;
use uext4_sync::shard_index;

/// A range of groups, walked from an offset, with wrap-around.
#[derive(Clone, Copy, Default)]
struct Window {
    first: u32,
    count: u32,
    offset: u32,
    /// Fewest free inodes for a group to be tried.
    least: u32,
    at: u32,
}

/// Source of the next window.
#[derive(Clone, Copy)]
enum Stage {
    Parent,
    LastFlex,
    Spread,
    AboveAverage,
    Any,
    Told,
    All,
    Done,
}

/// Groups to try, lazily. A group may be repeated in a later stage.
pub struct Candidates<'a> {
    policy: &'a InodePolicy,
    parent: Parent,
    space: &'a dyn Engine,
    free_clusters: &'a dyn Fn() -> u64,
    stage: Stage,
    window: Window,
}

impl InodePolicy {
    /// Groups to try for a new inode; `free_clusters` returns those of the file system.
    pub fn candidates<'a>(
        &'a self,
        parent: Parent,
        kind: InodeKind,
        space: &'a dyn Engine,
        free_clusters: &'a dyn Fn() -> u64,
    ) -> Candidates<'a> {
        let stage = match kind {
            InodeKind::Directory => Stage::Spread,
            InodeKind::Other => Stage::Parent,
        };
        Candidates {
            policy: self,
            parent,
            space,
            free_clusters,
            stage,
            window: Window::default(),
        }
    }

    fn flex(&self, index: u32) -> Window {
        let groups = self.groups_of(index);
        let count = clamp_u32(groups.len());
        let offset = match self.affinity {
            Affinity::PerThread => clamp_u32(shard_index()) % count,
            Affinity::None => 0,
        };
        Window {
            first: groups.start,
            count,
            offset,
            least: 1,
            at: 0,
        }
    }

    fn everywhere(&self, from: GroupNr, least: u32) -> Window {
        let count = self.volume.groups;
        Window {
            first: 0,
            count,
            offset: from.0 % count,
            least,
            at: 0,
        }
    }
}

impl Candidates<'_> {
    /// Opens the window of the current stage; false when there are no more.
    fn open_next(&mut self) -> bool {
        let policy = self.policy;
        let (window, next) = match self.stage {
            Stage::Parent => (
                Some(policy.flex(policy.flex_of(self.parent.group))),
                Stage::LastFlex,
            ),
            Stage::LastFlex => {
                let last = self
                    .parent
                    .last_flex
                    .map(|group| policy.flex(policy.flex_of(group)));
                (last, Stage::Spread)
            }
            Stage::Spread => {
                let flex = policy.spread(self.parent, self.space, (self.free_clusters)());
                (flex.map(|flex| policy.flex(flex)), Stage::AboveAverage)
            }
            Stage::AboveAverage => (
                Some(policy.everywhere(self.parent.group, policy.average_free())),
                Stage::Any,
            ),
            Stage::Any => (Some(policy.everywhere(self.parent.group, 1)), Stage::Told),
            Stage::Told => {
                policy.counts().apply_pending(|_| true);
                (Some(policy.everywhere(self.parent.group, 1)), Stage::All)
            }
            Stage::All => {
                let some = policy.counts().free_inodes() > 0;
                let all = some.then(|| policy.everywhere(self.parent.group, 0));
                (all, Stage::Done)
            }
            Stage::Done => return false,
        };
        self.stage = next;
        self.window = window.unwrap_or_default();
        true
    }
}

impl Iterator for Candidates<'_> {
    type Item = GroupNr;

    fn next(&mut self) -> Option<GroupNr> {
        loop {
            while self.window.at < self.window.count {
                let Window {
                    first,
                    count,
                    offset,
                    least,
                    at,
                } = self.window;
                self.window.at += 1;
                let group = GroupNr(
                    first + clamp_u32((u64::from(offset) + u64::from(at)) % u64::from(count)),
                );
                if self.policy.counts().summary(group).free_inodes >= least {
                    return Some(group);
                }
            }
            if !self.open_next() {
                return None;
            }
        }
    }
}
