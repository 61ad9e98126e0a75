//! Writes of data: by callers, and by caches above that accepted the data earlier.

use super::KillPrivileges;
use crate::ops::filesystem::Filesystem;
use crate::parts::file::{self, Position, Times, WritePolicy, Written};
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::state::space::Reserve;
use crate::types::attr::{Caller, Checks};
use crate::types::error::Result;

/// Writers of the data in a writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Only callers that may not use the blocks reserved for the superuser.
    Users,
    /// Also callers that may use them because `resuid` or `resgid` name them; quota limits all.
    Named,
    /// Also the superuser, which has no quota limits, or unknown.
    Privileged,
}

/// Where changed data come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// From this caller. It may use the blocks reserved for the superuser only if it is the
    /// superuser, or `resuid` or `resgid` name it; quota limits all but the superuser.
    Caller(Caller),
    /// From a cache above that accepted them earlier, after it checked immutable and append-only
    /// files. Whole pages come back, even for appends.
    Writeback(Writers),
}

/// On whose behalf data change, and what the change does beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteContext {
    /// Whose space is used.
    pub source: DataSource,
    /// Whether setuid, setgid and file capabilities are cleared. A cache above clears them itself.
    pub privileges: KillPrivileges,
    /// What happens to the times. A cache above that knows the time of the change keeps them.
    pub times: Times,
}

impl WriteContext {
    /// A change by the superuser, which keeps setuid and setgid.
    pub const ROOT: Self = Self {
        source: DataSource::Caller(Caller::root()),
        privileges: KillPrivileges::No,
        times: Times::Change,
    };

    /// A change by `caller`, which clears privileges unless it is the superuser.
    pub fn by(caller: Caller) -> Self {
        Self {
            privileges: if caller.is_superuser() {
                KillPrivileges::No
            } else {
                KillPrivileges::Yes
            },
            source: DataSource::Caller(caller),
            times: Times::Change,
        }
    }

    pub(super) fn policy(&self, fs: &Fs) -> WritePolicy {
        let (reserve, checks) = match &self.source {
            DataSource::Caller(caller) => (fs.reserve_of(caller), Checks::Library),
            DataSource::Writeback(writers) => (reserve_for(*writers), Checks::Done),
        };
        WritePolicy {
            reserve,
            times: self.times,
            checks,
        }
    }

    /// The caller whose change clears privileges.
    pub(super) fn unprivileged(&self) -> Option<&Caller> {
        match &self.source {
            DataSource::Caller(caller) if self.privileges == KillPrivileges::Yes => Some(caller),
            _ => None,
        }
    }
}

impl Filesystem {
    /// Writes `data` at `position`, a byte offset or [`Position::End`]; returns where they are, and
    /// how many bytes were written: less than all if space, quota or the largest size was reached.
    /// The data are durable after [`Self::fsync`]. Permissions are checked at the open, not here.
    /// Locks the file's data.
    ///
    /// # Errors
    /// Only if nothing was written: [`crate::Error::NotPermitted`] if a flag of the file forbids
    /// the write, [`crate::Error::NoSpace`], [`crate::Error::Quota`], [`crate::Error::TooLarge`],
    /// [`crate::Error::ReadOnly`], and those of the device.
    pub fn write(
        &self,
        inode: &InodeRef,
        position: impl Into<Position>,
        data: &[u8],
        context: &WriteContext,
    ) -> Result<Written> {
        let position = position.into();
        self.change(|fs| {
            let policy = context.policy(fs);
            if let Some(caller) = context.unprivileged() {
                fs.writable()?;
                file::check_position(&inode.read(), position, policy.checks)?;
                fs.kill_privileges(inode, caller)?;
            }
            let written = file::write(fs, inode.arc(), position, data, policy)?;
            if policy.checks == Checks::Library {
                fs.sync_if(inode, written.flags)?;
            }
            Ok(written)
        })
    }

    /// For a cache above that accepts data before it reserves their space: fails when any write to
    /// the file must fail for lack of space.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] in that case.
    pub fn check_room(&self, inode: &InodeRef, writers: Writers) -> Result<()> {
        self.run(|fs| file::check_room(fs, inode.arc(), reserve_for(writers)))
    }

    /// The class of `caller`, by the blocks that it may use.
    pub fn writer(&self, caller: &Caller) -> Writers {
        match self.fs.reserve_of(caller) {
            Reserve::MayUse => Writers::Privileged,
            Reserve::Named => Writers::Named,
            _ => Writers::Users,
        }
    }
}

fn reserve_for(writers: Writers) -> Reserve {
    match writers {
        Writers::Users => Reserve::Keep,
        Writers::Named => Reserve::Named,
        Writers::Privileged => Reserve::MayUse,
    }
}
