//! Mount options that operations read and a remount may change.
//!
//! Invariants: a remount stores the values one by one while no change is in progress; a reader may
//! see some old and some new. Reads are plain loads; only remounts write.
//! Not here: options fixed at mount, and those that live with their users (commit interval: the
//! journal; `discard`: space; `max_dir_size_kb`: directories; barriers: the device).

use crate::types::options::{MountOptions, OnError};
use uext4_num::clamp_u8;
use uext4_sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Switch {
    Acl = 1,
    UserXattr = 2,
    NoAtime = 4,
    NoDirAtime = 8,
    Relatime = 16,
    /// `grpid`
    GroupFromParent = 32,
    MinixDf = 64,
    /// `nombcache` clears it.
    ShareXattrBlocks = 128,
    Sync = 256,
    Dirsync = 512,
    Lazytime = 1024,
    /// `usrquota`
    UserLimits = 2048,
    /// `grpquota`
    GroupLimits = 4096,
    /// `prjquota`
    ProjectLimits = 8192,
    Delalloc = 16384,
    AutoDaAlloc = 32768,
}

impl Switch {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    fn bit(self) -> u32 {
        self as u32
    }
}

/// No user or group: the largest id plus one.
const NO_ID: u64 = 1 << 32;

#[derive(Default)]
pub(crate) struct Settings {
    switches: AtomicU32,
    on_error: AtomicU8,
    reserved_uid: AtomicU64,
    reserved_gid: AtomicU64,
}

impl Settings {
    pub(crate) fn new(options: &MountOptions) -> Self {
        let settings = Self::default();
        settings.set(options);
        settings
    }

    /// Stores the values of `options`.
    pub(crate) fn set(&self, options: &MountOptions) {
        let all = [
            (Switch::Acl, options.acl),
            (Switch::UserXattr, options.user_xattr),
            (Switch::NoAtime, options.no_atime),
            (Switch::NoDirAtime, options.no_dir_atime),
            (Switch::Relatime, options.relatime),
            (Switch::GroupFromParent, options.group_from_parent),
            (Switch::MinixDf, options.minix_df),
            (Switch::ShareXattrBlocks, options.share_xattr_blocks),
            (Switch::Sync, options.sync),
            (Switch::Dirsync, options.dirsync),
            (Switch::Lazytime, options.lazytime),
            (Switch::UserLimits, options.quota_limits.user),
            (Switch::GroupLimits, options.quota_limits.group),
            (Switch::ProjectLimits, options.quota_limits.project),
            (Switch::Delalloc, options.delays()),
            (Switch::AutoDaAlloc, options.auto_da_alloc),
        ];
        let on = all.iter().filter(|(_, on)| *on);
        let switches = on.fold(0, |word, (switch, _)| word | switch.bit());
        self.switches.store(switches, Relaxed);
        self.on_error.store(code(options.on_error), Relaxed);
        let id = |id: Option<u32>| id.map_or(NO_ID, u64::from);
        self.reserved_uid.store(id(options.reserved_uid), Relaxed);
        self.reserved_gid.store(id(options.reserved_gid), Relaxed);
    }

    pub(crate) fn has(&self, switch: Switch) -> bool {
        self.switches.load(Relaxed) & switch.bit() != 0
    }

    /// Reaction to damage (`errors=`).
    pub(crate) fn on_error(&self) -> OnError {
        let code = self.on_error.load(Relaxed);
        *ON_ERROR.get(usize::from(code)).unwrap_or(&ON_ERROR[0])
    }

    /// `resuid=`: this user may use reserved blocks.
    pub(crate) fn reserved_uid(&self) -> Option<u32> {
        u32::try_from(self.reserved_uid.load(Relaxed)).ok()
    }

    /// `resgid=`: this group may use reserved blocks.
    pub(crate) fn reserved_gid(&self) -> Option<u32> {
        u32::try_from(self.reserved_gid.load(Relaxed)).ok()
    }
}

const ON_ERROR: [OnError; 4] = [
    OnError::Superblock,
    OnError::Continue,
    OnError::RemountReadOnly,
    OnError::Panic,
];

fn code(on_error: OnError) -> u8 {
    ON_ERROR
        .iter()
        .position(|known| *known == on_error)
        .map_or(0, clamp_u8)
}
