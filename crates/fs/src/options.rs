//! Mount options, in ext4's own words.
//!
//! References: kernel documentation, `admin-guide/ext4`; man page `ext4(5)`.

use crate::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use uext4_device::BlockDevice;

/// Read-write or read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Changes are allowed.
    ReadWrite,
    /// Nothing is changed; a journal that needs replay is replayed in memory only.
    ReadOnly,
}

/// What to do when damage is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// As the superblock says.
    Superblock,
    /// Go on; the operation fails.
    Continue,
    /// Stop writing.
    RemountReadOnly,
}

/// Whose background work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Commit and checkpoint threads run beside the callers.
    Background,
    /// No threads: callers do the work themselves, so that a run repeats exactly.
    Inline,
}

/// How free space is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// Buddy groups, visited one after the other (`allocator=linear`, `mb_optimize_scan=0`).
    Linear,
    /// Buddy groups, found by their largest and average free run (`allocator=optimized`,
    /// `mb_optimize_scan=1`).
    Optimized,
    /// Trees of free extents per flex group (`allocator=freespace-tree`, `freespace_tree`).
    FreespaceTree,
}

/// How to mount. Build one with [`MountOptions::default`] and the fields, or [`Self::parse`].
#[derive(Clone)]
pub struct MountOptions {
    /// Read-write or read-only.
    pub access: Access,
    /// `errors=`.
    pub on_error: OnError,
    /// `commit=SECONDS`: how long a change may stay out of the journal.
    pub commit_interval: Duration,
    /// `barrier` / `nobarrier`: whether flushes are sent to the device.
    pub barrier: bool,
    /// `noload`/`norecovery`: do not replay (read-only mounts only).
    pub replay: bool,
    /// `grpid`: new files take their group from the parent directory.
    pub group_from_parent: bool,
    /// `minixdf`: statfs counts metadata as space.
    pub minix_df: bool,
    /// `acl` / `noacl`.
    pub acl: bool,
    /// `user_xattr` / `nouser_xattr`.
    pub user_xattr: bool,
    /// `noatime`.
    pub no_atime: bool,
    /// `relatime` (the default of Linux) against `strictatime`.
    pub relatime: bool,
    /// `resuid=`: this user may use reserved blocks.
    pub reserved_uid: Option<u32>,
    /// `resgid=`: this group may use reserved blocks.
    pub reserved_gid: Option<u32>,
    /// `sb=`: where the superblock stands, in units of 1 KiB.
    pub superblock_kib: Option<u64>,
    /// `discard`: freed blocks are discarded after their transaction committed.
    pub discard: bool,
    /// `allocator=`; `None` takes the linear scan below 16 groups and the optimized one from there.
    pub allocator: Option<Allocator>,
    /// `cache_aggression=` (`frsp_cache_aggression=`): how eagerly free-space trees are built, 0 to
    /// 3.
    pub cache_aggression: u8,
    /// `freespace_memory=BYTES`: limit for free-space trees; 0 takes the default of the volume.
    pub freespace_memory_bytes: u64,
    /// `stripe=BLOCKS` of a RAID array; 0 for none.
    pub stripe_blocks: u32,
    /// Device of an external journal (`journal_path=` names one for the tool).
    pub journal_device: Option<Arc<dyn BlockDevice>>,
    /// `journal_path=`.
    pub journal_path: Option<std::path::PathBuf>,
    /// `max_dir_size_kb=`.
    pub max_dir_size_kib: Option<u64>,
    /// Background threads or none.
    pub threads: Threads,
    /// Metadata blocks and inodes kept in memory when nobody uses them.
    pub cache_objects: usize,
    /// Source of time; a manual one for runs that must repeat exactly.
    pub clock: Arc<dyn uext4_sync::Clock>,
    /// Seed of random choices (generations); `None` takes one from the system.
    pub seed: Option<u64>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            access: Access::ReadWrite,
            on_error: OnError::Superblock,
            commit_interval: Duration::from_secs(5),
            barrier: true,
            replay: true,
            group_from_parent: false,
            minix_df: false,
            acl: true,
            user_xattr: true,
            no_atime: false,
            relatime: true,
            reserved_uid: None,
            reserved_gid: None,
            superblock_kib: None,
            discard: false,
            allocator: None,
            cache_aggression: 1,
            freespace_memory_bytes: 0,
            stripe_blocks: 0,
            journal_device: None,
            journal_path: None,
            max_dir_size_kib: None,
            threads: Threads::Background,
            cache_objects: 65536,
            clock: Arc::new(uext4_sync::RealClock::new()),
            seed: None,
        }
    }
}

impl MountOptions {
    /// Options for a read-only mount.
    pub fn read_only() -> Self {
        Self { access: Access::ReadOnly, ..Self::default() }
    }

    /// Reads a comma separated list as `mount -o` takes it, on top of `self`.
    ///
    /// # Errors
    /// [`Error::Option`] names an option that is unknown, has a bad value or is not supported.
    pub fn parse(mut self, list: &str) -> Result<Self> {
        for option in list.split(',').filter(|option| !option.is_empty()) {
            self.apply(option)?;
        }
        Ok(self)
    }

    fn apply(&mut self, option: &str) -> Result<()> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        match value {
            None => self.apply_flag(name),
            Some(value) => self.apply_value(name, value),
        }
    }

    fn apply_flag(&mut self, name: &str) -> Result<()> {
        match name {
            "ro" => self.access = Access::ReadOnly,
            "rw" | "defaults" => self.access = Access::ReadWrite,
            "barrier" => self.barrier = true,
            "nobarrier" => self.barrier = false,
            "noload" | "norecovery" => self.replay = false,
            "grpid" | "bsdgroups" => self.group_from_parent = true,
            "nogrpid" | "sysvgroups" => self.group_from_parent = false,
            "bsddf" => self.minix_df = false,
            "minixdf" => self.minix_df = true,
            "acl" => self.acl = true,
            "noacl" => self.acl = false,
            "user_xattr" => self.user_xattr = true,
            "nouser_xattr" => self.user_xattr = false,
            "noatime" => self.no_atime = true,
            "atime" => self.no_atime = false,
            "relatime" => self.relatime = true,
            "norelatime" | "strictatime" => self.relatime = false,
            "discard" => self.discard = true,
            "nodiscard" => self.discard = false,
            "freespace_tree" => self.allocator = Some(Allocator::FreespaceTree),
            name if IGNORED.contains(&name) => {}
            name => return Err(unknown(name)),
        }
        Ok(())
    }

    fn apply_value(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "errors" => self.on_error = parse_errors(value)?,
            "commit" => self.commit_interval = parse_commit(value)?,
            "barrier" => self.barrier = number(name, value)? != 0,
            "resuid" => self.reserved_uid = Some(number(name, value)? as u32),
            "resgid" => self.reserved_gid = Some(number(name, value)? as u32),
            "sb" => self.superblock_kib = Some(number(name, value)?),
            "max_dir_size_kb" => self.max_dir_size_kib = Some(number(name, value)?),
            "allocator" => self.allocator = Some(parse_allocator(value)?),
            "mb_optimize_scan" => self.allocator = Some(parse_optimize_scan(value)?),
            "cache_aggression" | "frsp_cache_aggression" => {
                self.cache_aggression = bounded(name, value, 3)? as u8;
            }
            "freespace_memory" => self.freespace_memory_bytes = number(name, value)?,
            "stripe" => self.stripe_blocks = bounded(name, value, u32::MAX.into())? as u32,
            "journal_path" => self.journal_path = Some(value.into()),
            "data" if value == "ordered" => {}
            "data" => return Err(unsupported("data", value)),
            "jqfmt" | "usrjquota" | "grpjquota" => return Err(unsupported(name, value)),
            name => return Err(unknown(name)),
        }
        Ok(())
    }
}

/// Options of ext4 and of Linux that change nothing here, or that the layer above acts on.
const IGNORED: &[&str] = &[
    "suid", "nosuid", "dev", "nodev", "exec", "noexec", "auto", "noauto", "user", "nouser",
    "nofail", "_netdev", "lazytime", "nolazytime", "diratime", "nodiratime", "async", "iversion",
    "i_version", "oldalloc", "orlov", "bh", "nobh", "reservation", "noreservation", "check",
    "nocheck", "journal_checksum", "nojournal_checksum", "block_validity", "nombcache",
    "mblk_io_submit", "nomblk_io_submit", "prefetch_block_bitmaps", "auto_da_alloc",
    "init_itable", "noinit_itable", "quota", "noquota", "nouid32", "delalloc", "nodelalloc",
];

fn number(name: &str, value: &str) -> Result<u64> {
    value.parse().map_err(|_| Error::Option(format!("{name}={value}: not a number")))
}

fn bounded(name: &str, value: &str, max: u64) -> Result<u64> {
    let number = number(name, value)?;
    if number > max {
        return Err(Error::Option(format!("{name}={value}: at most {max}")));
    }
    Ok(number)
}

fn parse_allocator(value: &str) -> Result<Allocator> {
    match value {
        "linear" => Ok(Allocator::Linear),
        "optimized" => Ok(Allocator::Optimized),
        "freespace-tree" => Ok(Allocator::FreespaceTree),
        other => Err(unsupported("allocator", other)),
    }
}

fn parse_optimize_scan(value: &str) -> Result<Allocator> {
    match bounded("mb_optimize_scan", value, 1)? {
        0 => Ok(Allocator::Linear),
        _ => Ok(Allocator::Optimized),
    }
}

fn parse_commit(value: &str) -> Result<Duration> {
    let seconds = number("commit", value)?;
    // As the kernel: 0 means the default.
    Ok(Duration::from_secs(if seconds == 0 { 5 } else { seconds.min(900) }))
}

fn parse_errors(value: &str) -> Result<OnError> {
    match value {
        "continue" => Ok(OnError::Continue),
        "remount-ro" => Ok(OnError::RemountReadOnly),
        other => Err(unsupported("errors", other)),
    }
}

fn unknown(name: &str) -> Error {
    Error::Option(format!("{name}: unknown"))
}

fn unsupported(name: &str, value: &str) -> Error {
    Error::Option(format!("{name}={value}: not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext4_words_are_understood() {
        let options = MountOptions::default().parse("ro,errors=remount-ro,commit=30,grpid").unwrap();
        assert_eq!(options.access, Access::ReadOnly);
        assert_eq!(options.on_error, OnError::RemountReadOnly);
        assert_eq!(options.commit_interval, Duration::from_secs(30));
        assert!(options.group_from_parent);
    }

    #[test]
    fn allocators_have_the_names_of_ext4_and_their_own() {
        let allocator = |list| MountOptions::default().parse(list).unwrap().allocator;
        assert_eq!(allocator(""), None);
        assert_eq!(allocator("mb_optimize_scan=0"), Some(Allocator::Linear));
        assert_eq!(allocator("allocator=linear,mb_optimize_scan=1"), Some(Allocator::Optimized));
        assert_eq!(allocator("freespace_tree"), Some(Allocator::FreespaceTree));
        assert_eq!(allocator("allocator=freespace-tree"), Some(Allocator::FreespaceTree));
    }

    #[test]
    fn unknown_and_bad_options_are_named() {
        for (list, word) in [("frobnicate", "frobnicate"), ("commit=x", "commit=x"), ("data=journal", "data"), ("allocator=best", "best"), ("cache_aggression=4", "at most 3")] {
            let error = MountOptions::default().parse(list).err().expect("must be refused");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
