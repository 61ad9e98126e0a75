//! Quota reports and limits.

use crate::ops::filesystem::Filesystem;
use crate::parts::quota_files;
use crate::state::quota::GraceTimes;
use crate::types::error::Result;
use uext4_format::quota::{QuotaEntry, QuotaKind};

impl Filesystem {
    /// Usage and limits of all owners, ascending by number; `None` if the file system does not
    /// count this kind (features `quota` and `project`).
    pub fn quota(&self, kind: QuotaKind) -> Option<Vec<QuotaEntry>> {
        self.fs.quota.report(kind)
    }

    /// Grace times of the soft limits.
    pub fn quota_grace(&self, kind: QuotaKind) -> Option<GraceTimes> {
        self.fs.quota.grace(kind)
    }

    /// Sets an owner's limits to those of `wanted`; its other fields are ignored. Limits are
    /// enforced on mounts that ask for it ([`crate::MountOptions::quota_limits`]).
    ///
    /// # Errors
    /// [`crate::Error::NotSupported`] if the file system does not count this kind.
    pub fn set_quota(&self, kind: QuotaKind, wanted: &QuotaEntry) -> Result<()> {
        self.change(|fs| {
            fs.writable()?;
            quota_files::set_limits(fs, kind, wanted)
        })
    }

    /// Sets the grace times of the soft limits, from now on.
    ///
    /// # Errors
    /// As [`Self::set_quota`].
    pub fn set_quota_grace(&self, kind: QuotaKind, grace: GraceTimes) -> Result<()> {
        self.change(|fs| {
            fs.writable()?;
            quota_files::set_grace(fs, kind, grace)
        })
    }
}
