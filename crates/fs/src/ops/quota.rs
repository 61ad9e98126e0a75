//! What owners use and may use.

use crate::{Filesystem, GraceTimes, Result};
use uext4_format::quota::{QuotaEntry, QuotaKind};

impl Filesystem {
    /// What everybody uses and may use, ascending by number; `None` when the file system does not
    /// count it (features `quota` and `project`).
    pub fn quota(&self, kind: QuotaKind) -> Option<Vec<QuotaEntry>> {
        self.fs.quota.report(kind)
    }

    /// How long soft limits may be exceeded.
    pub fn quota_grace(&self, kind: QuotaKind) -> Option<GraceTimes> {
        self.fs.quota.grace(kind)
    }

    /// Gives an owner the limits of `wanted`, whose other fields do not matter. Limits hold on
    /// mounts that ask for it ([`crate::MountOptions::quota_limits`]).
    ///
    /// # Errors
    /// [`crate::Error::NotSupported`] when the file system does not count for this kind.
    pub fn set_quota(&self, kind: QuotaKind, wanted: &QuotaEntry) -> Result<()> {
        self.change(|fs| {
            fs.writable()?;
            fs.quota.set_limits(fs, kind, wanted)
        })
    }

    /// Sets how long soft limits may be exceeded, from now on.
    ///
    /// # Errors
    /// As [`Self::set_quota`].
    pub fn set_quota_grace(&self, kind: QuotaKind, grace: GraceTimes) -> Result<()> {
        self.change(|fs| {
            fs.writable()?;
            fs.quota.set_grace(fs, kind, grace)
        })
    }
}
