//! Fields of an inode that holds a value (`ea_inode`), stored in place of its times.

use crate::{Inode, Seed, Timestamp, WithExtra};
use uext4_num::{high_u32, low_u32};

/// Fields that describe the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EaInodeFields {
    /// Entries that refer to the value. High half in the seconds of `i_ctime`, low half in the low
    /// half of the version.
    pub refcount: u64,
    /// [`value_hash`] of the value, in the seconds of `i_atime`.
    pub hash: u32,
}

impl EaInodeFields {
    /// Of an inode: the low 32 bits of its times are raw in either range of times.
    pub fn of(inode: &Inode) -> Self {
        Self::from_raw(
            low_seconds(inode.atime),
            low_seconds(inode.ctime),
            low_u32(inode.version),
        )
    }

    /// From the raw fields of the inode.
    pub fn from_raw(atime: u32, ctime: u32, version_low: u32) -> Self {
        Self {
            refcount: u64::from(ctime) << 32 | u64::from(version_low),
            hash: atime,
        }
    }

    /// Writes the fields to the inode.
    pub fn store(&self, inode: &mut Inode) {
        // Preserves the raw 32 bits for either range of times.
        let time = |raw: u32| Timestamp {
            seconds: match inode.times_have_extra() {
                WithExtra::Yes => i64::from(raw),
                WithExtra::No => i64::from(raw.cast_signed()),
            },
            nanoseconds: 0,
        };
        (inode.atime, inode.ctime) = (time(self.atime()), time(self.ctime()));
        inode.version = (inode.version & !u64::from(u32::MAX)) | u64::from(self.version_low());
    }

    /// The value of `i_atime`: the hash of the value.
    pub fn atime(&self) -> u32 {
        self.hash
    }

    /// The value of `i_ctime`: the upper half of the reference count.
    pub fn ctime(&self) -> u32 {
        high_u32(self.refcount)
    }

    /// For the low half of the version (`i_version` in the operating system dependent part).
    pub fn version_low(&self) -> u32 {
        low_u32(self.refcount)
    }
}

fn low_seconds(time: Timestamp) -> u32 {
    low_u32(time.seconds.cast_unsigned())
}

/// The hash of a value that is kept in an inode; `seed` is the file system's.
pub fn value_hash(seed: Seed, value: &[u8]) -> u32 {
    seed.update(value).value()
}
