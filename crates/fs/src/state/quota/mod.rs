//! Quota: usage and limits of users, groups and projects (features `quota` and `project`).
//!
//! Layout: [`accounts`] has the owners of one kind, [`owner`] the usage of one of them,
//! [`pending`] its latest charges, [`file`] the tree of the hidden file that stores it.
//!
//! Invariants: an inode and its space (`i_blocks`) are charged to its user, group and project in
//! the handle that changes it, so the files agree with the inodes after every crash.
//!
//! Locking: a charge adds to counters, of the thread's shard if the owner is busy; rendering an
//! owner sums them, once per transaction.
//!
//! Not here: loading and growth of the files ([`crate::parts::quota_files`]); internal inodes and
//! value inodes, which are not charged themselves; the owner of an
//! attribute is charged for its value.

mod accounts;
mod file;
mod limits;
mod owner;
mod pending;

pub(crate) use accounts::Accounts;
pub(crate) use file::QuotaFile;
pub use limits::GraceTimes;
pub(crate) use limits::{Claim, Kept};

use crate::state::base::Base;
use crate::state::space::Reserve;
use crate::types::attr::Caller;
use crate::types::error::Result;
use crate::types::options::QuotaLimits;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{Inode as DiskInode, InodeFlags, InodeNr};
use uext4_journal::Handle;
use uext4_num::{clamp_i64, clamp_u32, nonnegative};
use uext4_sync::{Arc, Clock};

/// The owners that an inode is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owners {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) project: u32,
}

impl Owners {
    pub(crate) fn of(disk: &DiskInode) -> Self {
        Self {
            user: disk.uid,
            group: disk.gid,
            project: disk.projid,
        }
    }

    /// The owner of this kind.
    pub(crate) fn id(&self, kind: QuotaKind) -> u32 {
        match kind {
            QuotaKind::User => self.user,
            QuotaKind::Group => self.group,
            QuotaKind::Project => self.project,
        }
    }
}

/// Request class for quota: limits do not apply to the superuser.
pub(crate) fn rights_of(caller: &Caller) -> Reserve {
    if caller.is_superuser() {
        Reserve::MayUse
    } else {
        Reserve::Keep
    }
}

/// A change of an owner's usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) bytes: i64,
    pub(crate) inodes: i64,
}

impl Usage {
    /// One inode, without space.
    pub(crate) const INODE: Usage = Usage {
        bytes: 0,
        inodes: 1,
    };

    /// Space in sectors of 512 bytes; a damaged `i_blocks` may have more than fits.
    pub(crate) fn sectors(sectors: u64) -> Self {
        Self {
            bytes: clamp_i64(sectors.saturating_mul(512)),
            inodes: 0,
        }
    }

    /// The change with the opposite sign.
    pub(crate) fn less(self) -> Self {
        Self {
            bytes: -self.bytes,
            inodes: -self.inodes,
        }
    }
}

/// The quota of a mounted file system.
#[derive(Default)]
pub(crate) struct Quota {
    accounts: Vec<Accounts>,
    /// Inodes from this number on are files, except those of `own`.
    first_inode: u32,
    /// Numbers of internal inodes, which no owner is charged for.
    own: Vec<u32>,
    is_unusable: bool,
    clock: Option<Arc<dyn Clock>>,
}

impl Quota {
    /// The quota with these accounts; `own` are internal inodes, which are not charged.
    pub(crate) fn new(accounts: Vec<Accounts>, own: Vec<u32>, base: &Base) -> Self {
        Self {
            accounts,
            first_inode: base.geometry.first_inode,
            own,
            is_unusable: false,
            clock: Some(Arc::clone(&base.clock)),
        }
    }

    /// Of a read-only mount with damaged files.
    pub(crate) fn unusable() -> Self {
        Self {
            is_unusable: true,
            ..Self::default()
        }
    }

    /// The accounts of all kinds.
    pub(crate) fn accounts(&self) -> &[Accounts] {
        &self.accounts
    }

    fn now(&self) -> u64 {
        let clock = self.clock.as_ref();
        clock.map_or(0, |clock| nonnegative(clock.wall().seconds))
    }

    /// Whether usage is charged.
    pub(crate) fn is_on(&self) -> bool {
        !self.accounts.is_empty()
    }

    /// Whether the files are damaged, so that changes are refused.
    pub(crate) fn is_unusable(&self) -> bool {
        self.is_unusable
    }

    /// Additional credits of a handle for quota: the old and the new owners of an inode.
    pub(crate) fn credits(&self) -> u32 {
        2 * clamp_u32(self.accounts.len())
    }

    fn accounts_of(&self, kind: QuotaKind) -> Option<&Accounts> {
        let mut all = self.accounts.iter();
        all.find(|accounts| accounts.kind() == kind)
    }

    /// Checks that requested limits have a quota file.
    pub(crate) fn check(&self, limits: QuotaLimits) -> Result<()> {
        let asked = [
            (limits.user, QuotaKind::User, "usrquota"),
            (limits.group, QuotaKind::Group, "grpquota"),
            (limits.project, QuotaKind::Project, "prjquota"),
        ];
        for (_, kind, word) in asked.into_iter().filter(|(asked, _, _)| *asked) {
            if self.accounts_of(kind).is_none() && !self.is_unusable {
                let kind = kind.name();
                let problem = format!("{word}: the file system keeps no {kind} quota");
                return Err(crate::types::error::Error::Mount(problem));
            }
        }
        Ok(())
    }

    /// All owners of a kind, ascending; `None` if the kind is not counted.
    pub(crate) fn report(&self, kind: QuotaKind) -> Option<Vec<QuotaEntry>> {
        self.accounts_of(kind).map(Accounts::report)
    }

    /// The grace times of a kind.
    pub(crate) fn grace(&self, kind: QuotaKind) -> Option<GraceTimes> {
        self.accounts_of(kind).map(Accounts::grace)
    }

    /// The accounts of a kind.
    ///
    /// # Errors
    /// [`crate::Error::NotSupported`] if the kind is not counted.
    pub(crate) fn kept(&self, kind: QuotaKind) -> Result<&Accounts> {
        let problem = match kind {
            QuotaKind::User => "limits of users: the file system keeps no user quota",
            QuotaKind::Group => "limits of groups: the file system keeps no group quota",
            QuotaKind::Project => "limits of projects: the file system keeps no project quota",
        };
        let accounts = self.accounts_of(kind);
        accounts.ok_or(crate::types::error::Error::NotSupported(problem))
    }

    /// Whether an inode is charged.
    fn counts(&self, nr: InodeNr, disk: &DiskInode) -> bool {
        let file = nr == InodeNr::ROOT || nr.0 >= self.first_inode;
        file && !self.own.contains(&nr.0) && !disk.flags.contains(InodeFlags::EA_INODE)
    }

    /// Charges the owners of an inode in the handle's transaction. The caller has the inode's state
    /// locked.
    pub(crate) fn charge(
        &self,
        handle: &Handle<'_>,
        (nr, disk): (InodeNr, &DiskInode),
        usage: Usage,
    ) {
        if self.is_on() && self.counts(nr, disk) {
            let owners = Owners::of(disk);
            for accounts in &self.accounts {
                accounts.charge(handle, owners.id(accounts.kind()), usage, self.now());
            }
        }
    }

    /// Moves `usage` of an inode to other owners; the caller changes the inode itself.
    pub(crate) fn transfer(
        &self,
        handle: &Handle<'_>,
        (nr, disk): (InodeNr, &DiskInode),
        to: Owners,
        usage: Usage,
    ) {
        if !self.is_on() || !self.counts(nr, disk) {
            return;
        }
        let from = Owners::of(disk);
        for accounts in &self.accounts {
            let (old, new) = (from.id(accounts.kind()), to.id(accounts.kind()));
            if old != new {
                accounts.charge(handle, old, usage.less(), self.now());
                accounts.charge(handle, new, usage, self.now());
            }
        }
    }
}
