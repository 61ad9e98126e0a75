//! Quota verbs of the control socket: usage and limits of owners.

use super::wire::{Answered, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uext4::format::quota::{QuotaEntry, QuotaKind};
use uext4::{Filesystem, GraceTimes};
use uext4_num::usize_of;

/// Maximum number of owners in one answer.
const ROWS_MAX: u32 = 4096;

/// Usage and limits of an owner; a limit of 0 means none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRow {
    /// Id of the user, group or project.
    pub id: u32,
    /// Space in use by the owner, in bytes.
    pub space_bytes: u64,
    /// Soft limit of space, which may be exceeded for the grace time.
    pub space_soft_bytes: u64,
    /// Hard limit of space.
    pub space_hard_bytes: u64,
    /// End of the grace time of space, in seconds since the epoch; 0 while it does not run.
    pub space_grace_end_seconds: u64,
    /// The number of inodes of the owner.
    pub inodes: u64,
    /// Soft limit of inodes, which may be exceeded for the grace time.
    pub inodes_soft: u64,
    /// Hard limit of inodes.
    pub inodes_hard: u64,
    /// End of the grace time of inodes, in seconds since the epoch; 0 while it does not run.
    pub inodes_grace_end_seconds: u64,
}

impl QuotaRow {
    /// The row of an entry, with limits of space in bytes.
    pub fn of(entry: &QuotaEntry) -> Self {
        Self {
            id: entry.id,
            space_bytes: entry.space_bytes,
            space_soft_bytes: entry.space_soft_kib.saturating_mul(1024),
            space_hard_bytes: entry.space_hard_kib.saturating_mul(1024),
            space_grace_end_seconds: entry.space_grace_end,
            inodes: entry.inodes,
            inodes_soft: entry.inodes_soft,
            inodes_hard: entry.inodes_hard,
            inodes_grace_end_seconds: entry.inodes_grace_end,
        }
    }
}

/// New limits; fields without a value stay unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLimits {
    /// Soft limit of space in bytes, rounded up to KiB; 0: none.
    pub space_soft_bytes: Option<u64>,
    /// Hard limit of space in bytes, rounded up to KiB; 0: none.
    pub space_hard_bytes: Option<u64>,
    /// Soft limit of inodes; 0: none.
    pub inodes_soft: Option<u64>,
    /// Hard limit of inodes; 0: none.
    pub inodes_hard: Option<u64>,
}

impl NewLimits {
    /// Sets the limits of the owner `id`.
    ///
    /// # Errors
    /// As [`Filesystem::set_quota`].
    pub fn set(&self, filesystem: &Filesystem, kind: QuotaKind, id: u32) -> uext4::Result<()> {
        let rows = filesystem.quota(kind).unwrap_or_default();
        let old = rows.into_iter().find(|entry| entry.id == id);
        let none = QuotaEntry {
            id,
            ..QuotaEntry::default()
        };
        filesystem.set_quota(kind, &self.over(old.unwrap_or(none)))
    }

    fn over(&self, old: QuotaEntry) -> QuotaEntry {
        QuotaEntry {
            space_soft_kib: kib_or(self.space_soft_bytes, old.space_soft_kib),
            space_hard_kib: kib_or(self.space_hard_bytes, old.space_hard_kib),
            inodes_soft: self.inodes_soft.unwrap_or(old.inodes_soft),
            inodes_hard: self.inodes_hard.unwrap_or(old.inodes_hard),
            ..old
        }
    }
}

/// A new limit in KiB, rounded up, or the old one.
fn kib_or(bytes: Option<u64>, old: u64) -> u64 {
    bytes.map_or(old, |bytes| bytes.div_ceil(1024))
}

/// New grace times; fields without a value stay unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewGrace {
    /// Grace time of space.
    pub space_seconds: Option<u32>,
    /// Grace time of inodes.
    pub inodes_seconds: Option<u32>,
}

impl NewGrace {
    /// Sets the grace times of a kind.
    ///
    /// # Errors
    /// As [`Filesystem::set_quota_grace`].
    pub fn set(&self, filesystem: &Filesystem, kind: QuotaKind) -> uext4::Result<()> {
        let Some(now) = filesystem.quota_grace(kind) else {
            return Err(uext4::Error::NotSupported(
                "grace times of a kind that the file system does not count",
            ));
        };
        let grace = GraceTimes {
            space_seconds: self.space_seconds.unwrap_or(now.space_seconds),
            inodes_seconds: self.inodes_seconds.unwrap_or(now.inodes_seconds),
        };
        if grace == now {
            Ok(())
        } else {
            filesystem.set_quota_grace(kind, grace)
        }
    }
}

pub(super) fn kind_of(name: &str) -> Result<QuotaKind, Refusal> {
    name.parse()
        .map_err(|why| Refusal::invalid(format!("{name}: {why}")))
}

/// Rows of owners with ids from `from` on.
pub(super) fn rows(filesystem: &Filesystem, kind: &str, from: u32, count: u32) -> Answered {
    let Some(all) = filesystem.quota(kind_of(kind)?) else {
        return Err(Refusal {
            errno: libc::ESRCH,
            text: format!("the file system keeps no {kind} quota"),
        });
    };
    let wanted = all.iter().filter(|entry| entry.id >= from);
    let rows = wanted.take(usize_of(count.min(ROWS_MAX))).map(QuotaRow::of);
    let rows = serde_json::to_value(rows.collect::<Vec<_>>());
    Ok(rows.expect("keys are text and numbers are whole"))
}

pub(super) fn done(done: uext4::Result<()>) -> Answered {
    done.map(|()| Value::Null).map_err(Refusal::from)
}
