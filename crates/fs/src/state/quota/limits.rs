//! Quota limits: a hard limit always holds, a soft limit after its grace time.
//!
//! An operation reserves quota before it takes space or an inode, and holds the [`Claim`] until the
//! charge, so concurrent threads cannot exceed a limit together. Only owners with limits have
//! claims. Blocks of directories and maps are counted before the operation that needs them, those
//! of attributes when they are known. Delayed data have claims; their map blocks are charged and
//! may exceed a limit, as in the kernel.

use super::owner::Owner;
use super::{Owners, Quota, Usage};
use crate::state::base::Base;
use crate::state::space::Reserve;
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_num::nonnegative;
use uext4_sync::Arc;

/// Grace times of the soft limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraceTimes {
    /// For space, in seconds; begins when usage exceeds the soft limit.
    pub space_seconds: u32,
    /// For inodes, in seconds; begins when usage exceeds the soft limit.
    pub inodes_seconds: u32,
}

/// Reserved quota of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

/// An owner with enforced limits, and their grace times.
type Bound = (Arc<Owner>, GraceTimes);

/// Owners that keep their entries in the quota files while this lives.
#[derive(Default)]
#[must_use]
pub(crate) struct Kept(pub(super) Vec<Arc<Owner>>);

/// Reserved quota; released on drop.
#[derive(Default)]
#[must_use]
pub(crate) struct Claim {
    parts: Vec<(Arc<Owner>, Amount)>,
    /// Owners that will be charged, without a reservation.
    kept: Vec<Arc<Owner>>,
}

impl Claim {
    pub(crate) const NONE: Self = Self {
        parts: Vec::new(),
        kept: Vec::new(),
    };

    /// As this, and these owners keep their entries.
    pub(crate) fn with(mut self, kept: Kept) -> Self {
        self.kept.extend(kept.0);
        self
    }

    /// True if no owner with limits is involved.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Takes over the reservations of `other`.
    pub(crate) fn absorb(&mut self, mut other: Claim) {
        self.kept.append(&mut other.kept);
        for (owner, amount) in other.parts.drain(..) {
            match self
                .parts
                .iter_mut()
                .find(|known| Arc::ptr_eq(&known.0, &owner))
            {
                Some((_, sum)) => {
                    sum.bytes += amount.bytes;
                    sum.inodes += amount.inodes;
                }
                None => self.parts.push((owner, amount)),
            }
        }
    }

    /// Releases up to this much space of each owner's reservation.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        for (owner, amount) in &mut self.parts {
            let less = Amount {
                bytes: bytes.min(amount.bytes),
                inodes: 0,
            };
            amount.bytes -= less.bytes;
            owner.unclaim(less);
        }
        self.parts
            .retain(|(_, amount)| *amount != Amount::default());
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        for (owner, amount) in self.parts.drain(..) {
            owner.unclaim(amount);
        }
    }
}

/// Whether this space usage exceeds the owner's soft limit.
pub(super) fn is_over_space(entry: &QuotaEntry, bytes: u64) -> bool {
    let soft = entry.space_soft_kib.saturating_mul(1024);
    soft != 0 && bytes > soft
}

/// Starts or ends grace times by the owner's usage. `space_since` is the time since when space
/// including reservations has exceeded its limit.
pub(super) fn watch(entry: &mut QuotaEntry, grace: GraceTimes, space_since: u64, now: u64) {
    let next = |over: bool, end: u64, since: u64, seconds: u32| match (over, end) {
        (false, _) => 0,
        (true, 0) => since + u64::from(seconds),
        (true, end) => end,
    };
    let over = is_over_space(entry, entry.space_bytes);
    let end = entry.space_grace_end;
    entry.space_grace_end = next(over, end, space_since, grace.space_seconds);
    let over = entry.inodes_soft != 0 && entry.inodes > entry.inodes_soft;
    let end = entry.inodes_grace_end;
    entry.inodes_grace_end = next(over, end, now, grace.inodes_seconds);
}

/// Remaining quota after usage, below a hard and a soft limit; 0 is no limit.
fn remaining(used: u64, hard: u64, soft: u64, grace_end: u64, now: u64) -> u64 {
    let below = |limit: u64| match limit {
        0 => u64::MAX,
        limit => limit.saturating_sub(used),
    };
    let is_late = grace_end != 0 && now >= grace_end;
    below(hard).min(if is_late { below(soft) } else { u64::MAX })
}

/// Remaining quota after usage and reservations.
pub(super) fn remaining_of(entry: &QuotaEntry, claimed: Amount, now: u64) -> Amount {
    let kib = |kib: u64| kib.saturating_mul(1024);
    let space = entry.space_bytes.saturating_add(claimed.bytes);
    let (hard, soft) = (kib(entry.space_hard_kib), kib(entry.space_soft_kib));
    let inodes = entry.inodes.saturating_add(claimed.inodes);
    let inodes_end = entry.inodes_grace_end;
    Amount {
        bytes: remaining(space, hard, soft, entry.space_grace_end, now),
        inodes: remaining(
            inodes,
            entry.inodes_hard,
            entry.inodes_soft,
            inodes_end,
            now,
        ),
    }
}

impl Quota {
    /// Reserves up to `want_bytes` of space for an inode of these owners, in multiples of
    /// `unit_bytes`; returns how much. The superuser gets all of it.
    ///
    /// # Errors
    /// [`Error::Quota`] if none is left.
    pub(crate) fn claim_space(
        &self,
        base: &Base,
        owners: Owners,
        (want_bytes, unit_bytes): (u64, u64),
        reserve: Reserve,
    ) -> Result<(u64, Claim)> {
        let mut claim = Claim::default();
        let mut granted = want_bytes;
        for (owner, grace) in self.bound(base, owners, reserve) {
            let want = Amount {
                bytes: granted,
                inodes: 0,
            };
            granted = owner
                .claim(want, unit_bytes, grace, now(base))
                .ok_or(Error::Quota)?;
            let amount = Amount {
                bytes: granted,
                inodes: 0,
            };
            claim.parts.push((owner, amount));
        }
        Ok((granted, claim))
    }

    /// Reserves `amount` for these owners.
    ///
    /// # Errors
    /// [`Error::Quota`] if one of them has less left.
    fn claim_all(
        &self,
        base: &Base,
        owners: Owners,
        amount: Amount,
        reserve: Reserve,
    ) -> Result<Claim> {
        let mut claim = Claim::default();
        for (owner, grace) in self.bound(base, owners, reserve) {
            let granted = owner.claim(amount, amount.bytes.max(1), grace, now(base));
            if granted != Some(amount.bytes) {
                return Err(Error::Quota);
            }
            claim.parts.push((owner, amount));
        }
        Ok(claim)
    }

    /// Reserves a new inode and its initial space.
    pub(crate) fn claim_inode(
        &self,
        base: &Base,
        owners: Owners,
        bytes: u64,
        reserve: Reserve,
    ) -> Result<Claim> {
        self.claim_all(base, owners, Amount { bytes, inodes: 1 }, reserve)
    }

    /// Reserves blocks of directories, maps and attributes, all or none, if limits apply to the
    /// caller.
    ///
    /// # Errors
    /// [`Error::Quota`], and those of `owners_and_blocks`.
    pub(crate) fn claim_blocks(
        &self,
        base: &Base,
        reserve: Reserve,
        owners_and_blocks: impl FnOnce() -> Result<(Owners, u64)>,
    ) -> Result<Claim> {
        if !self.is_on() || !reserve.is_limited() {
            return Ok(Claim::default());
        }
        let (owners, blocks) = owners_and_blocks()?;
        if blocks == 0 {
            return Ok(Claim::default());
        }
        let bytes = blocks * base.geometry.cluster_size();
        self.claim_all(base, owners, Amount { bytes, inodes: 0 }, reserve)
    }

    /// Reserves the increases in `more`, if limits apply to the caller.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub(crate) fn claim_use(
        &self,
        base: &Base,
        reserve: Reserve,
        owners: Owners,
        more: Usage,
    ) -> Result<Claim> {
        let amount = Amount {
            bytes: nonnegative(more.bytes),
            inodes: nonnegative(more.inodes),
        };
        if !self.is_on() || !reserve.is_limited() || amount == Amount::default() {
            return Ok(Claim::default());
        }
        self.claim_all(base, owners, amount, reserve)
    }

    /// Reserves an inode's usage for the new owners that differ from the old ones.
    pub(crate) fn claim_transfer(
        &self,
        base: &Base,
        (from, to): (Owners, Owners),
        bytes: u64,
        reserve: Reserve,
    ) -> Result<Claim> {
        let mut all = Claim::default();
        let amount = Amount { bytes, inodes: 1 };
        for kind in QuotaKind::ALL {
            if from.id(kind) == to.id(kind) {
                continue;
            }
            let Some((owner, grace)) = self.bound_of(base, kind, to.id(kind), reserve) else {
                continue;
            };
            let granted = owner.claim(amount, bytes.max(1), grace, now(base));
            if granted != Some(bytes) {
                return Err(Error::Quota);
            }
            all.parts.push((owner, amount));
        }
        Ok(all)
    }

    /// Usage and limits of a project, if it has enforced limits.
    pub(crate) fn project_limits(&self, base: &Base, id: u32) -> Option<QuotaEntry> {
        let (owner, grace) = self.bound_of(base, QuotaKind::Project, id, Reserve::Keep)?;
        Some(owner.report(grace))
    }

    /// The owners among these with enforced limits.
    fn bound(&self, base: &Base, owners: Owners, reserve: Reserve) -> Vec<Bound> {
        let kinds = QuotaKind::ALL.into_iter();
        kinds
            .filter_map(|kind| self.bound_of(base, kind, owners.id(kind), reserve))
            .collect()
    }

    fn bound_of(&self, base: &Base, kind: QuotaKind, id: u32, reserve: Reserve) -> Option<Bound> {
        let switch = match kind {
            QuotaKind::User => Switch::UserLimits,
            QuotaKind::Group => Switch::GroupLimits,
            QuotaKind::Project => Switch::ProjectLimits,
        };
        if !reserve.is_limited() || !base.settings.has(switch) {
            return None;
        }
        let accounts = self.accounts_of(kind)?;
        Some((accounts.limited(id)?, accounts.grace()))
    }
}

fn now(base: &Base) -> u64 {
    nonnegative(base.now().seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: GraceTimes = GraceTimes {
        space_seconds: 100,
        inodes_seconds: 10,
    };

    fn entry(space_bytes: u64, inodes: u64) -> QuotaEntry {
        QuotaEntry {
            space_bytes,
            inodes,
            space_hard_kib: 8,
            space_soft_kib: 4,
            inodes_hard: 5,
            inodes_soft: 3,
            ..QuotaEntry::default()
        }
    }

    #[test]
    fn grace_begins_above_the_soft_limit_and_ends_below() {
        let mut owner = entry(4097, 3);
        watch(&mut owner, GRACE, 1000, 1000);
        assert_eq!((owner.space_grace_end, owner.inodes_grace_end), (1100, 0));
        watch(&mut owner, GRACE, 1050, 1050);
        assert_eq!(owner.space_grace_end, 1100);
        (owner.space_bytes, owner.inodes) = (4096, 4);
        watch(&mut owner, GRACE, 1060, 1060);
        assert_eq!((owner.space_grace_end, owner.inodes_grace_end), (0, 1070));
    }

    #[test]
    fn soft_limits_bind_when_grace_is_over() {
        let none = Amount::default();
        let mut owner = entry(5000, 4);
        watch(&mut owner, GRACE, 1000, 1000);
        let amount = |bytes, inodes| Amount { bytes, inodes };
        assert_eq!(remaining_of(&owner, none, 1000), amount(8192 - 5000, 1));
        assert_eq!(remaining_of(&owner, amount(3000, 1), 1000), amount(192, 0));
        assert_eq!(remaining_of(&owner, none, 1010), amount(8192 - 5000, 0));
        assert_eq!(remaining_of(&owner, none, 1100), amount(0, 0));
        let free = remaining_of(&QuotaEntry::default(), none, 5);
        assert_eq!(free, amount(u64::MAX, u64::MAX));
    }
}
