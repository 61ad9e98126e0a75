//! What [`Filesystem::tune`](crate::Filesystem::tune) is to change.

use crate::types::options::OnError;
use uext4_format::Feature;
use uext4_format::hash::HashVersion;
use uext4_offline::Presence;

/// Parameters to change; `None` leaves one unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// The label, up to 16 bytes.
    pub label: Option<Vec<u8>>,
    /// The UUID, as 16 bytes in the order of its text.
    pub uuid: Option<[u8; 16]>,
    /// Blocks reserved for the superuser, in percent of all.
    pub reserved_percent: Option<u8>,
    /// Blocks reserved for the superuser; wins over the percentage.
    pub reserved_blocks: Option<u64>,
    /// User that may use reserved blocks.
    pub reserved_uid: Option<u32>,
    /// Group that may use reserved blocks.
    pub reserved_gid: Option<u32>,
    /// Reaction to damage when the mount option `errors=` is not given.
    pub on_error: Option<OnError>,
    /// When a check is due.
    pub check_times: CheckTimes,
    /// Mount options that hold unless the mount names others.
    pub mount_defaults: MountDefaults,
    /// RAID geometry below the file system.
    pub raid: Raid,
    /// Hash of directories that get an index from now on.
    pub hash: Option<HashVersion>,
    /// Seed of directory hashes; only while no directory has an index.
    pub hash_seed: Option<[u8; 16]>,
    /// Seconds between checks of the MMP block, at most 300; 0: the default.
    pub mmp_update_seconds: Option<u16>,
    /// The next boot has e2fsck check everything, which also ends recorded errors. Until then
    /// changes of structure are refused.
    pub force_check: bool,
    /// Whether it is marked as used for tests.
    pub is_test: Option<bool>,
    /// Blocks of an orphan file that is turned on; `None`: as many as mke2fs makes.
    pub orphan_file_blocks: Option<u32>,
    /// Features to turn on or off, in this order. [`crate::set_journal`] does it for `has_journal`.
    pub features: Vec<(Feature, Presence)>,
}

/// When a check is due, and what was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckTimes {
    /// Mounts before a check is due; 0: never.
    pub mounts_max: Option<u16>,
    /// Mounts since the last check.
    pub mounts: Option<u16>,
    /// Seconds between checks; 0: never.
    pub interval_seconds: Option<u32>,
    /// Time of the last check, in seconds since 1970, below 2^40.
    pub last_seconds: Option<u64>,
}

/// What mounts do unless told otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountDefaults {
    /// Options to turn on: bits of [`uext4_format::superblock::default_mount_option`].
    pub set: u32,
    /// Options to turn off.
    pub clear: u32,
    /// The string of further options, up to 63 bytes.
    pub string: Option<Vec<u8>>,
    /// The directory that the next mount reports as the last one, up to 63 bytes.
    pub last_mounted: Option<Vec<u8>>,
}

/// The geometry of a RAID below the file system, in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raid {
    /// Blocks on one disk before the next disk follows.
    pub stride: Option<u16>,
    /// Blocks on all disks that hold data.
    pub stripe_width: Option<u32>,
}
