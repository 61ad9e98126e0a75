//! Flags and device number of an inode.

use crate::bytes::{get_u32, put_u32};
use crate::inode::I_BLOCK_BYTES;

/// Flags of an inode (`i_flags`); unknown bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InodeFlags(pub u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl InodeFlags {
            $($(#[$doc])* pub const $name: InodeFlags = InodeFlags($bit);)*
        }
    };
}

flags! {
    /// No flag set.
    NONE = 0;
    /// Secure deletion; not implemented anywhere.
    SECRM = 0x1;
    /// Undelete; not implemented anywhere.
    UNRM = 0x2;
    /// Compress; not implemented anywhere.
    COMPR = 0x4;
    /// Every write is synchronous.
    SYNC = 0x8;
    /// The file, its names and attributes may not change.
    IMMUTABLE = 0x10;
    /// Data can be written only at the end.
    APPEND = 0x20;
    /// `dump` leaves it out.
    NODUMP = 0x40;
    /// Reads do not update the access time.
    NOATIME = 0x80;
    /// The content, or the names of the directory, is encrypted by fscrypt.
    ENCRYPT = 0x800;
    /// The directory has a hash index (htree).
    INDEX = 0x1000;
    /// A directory of AFS; unused by Linux.
    IMAGIC = 0x2000;
    /// Data go through the journal.
    JOURNAL_DATA = 0x4000;
    /// The tail is not merged; not implemented anywhere.
    NOTAIL = 0x8000;
    /// Changes of the directory are synchronous.
    DIRSYNC = 0x1_0000;
    /// Top of a tree: subdirectories are spread.
    TOPDIR = 0x2_0000;
    /// The block count is in file system blocks.
    HUGE_FILE = 0x4_0000;
    /// `i_block` is the root of an extent tree.
    EXTENTS = 0x8_0000;
    /// fs-verity: read-only, reads are checked against a hash tree.
    VERITY = 0x10_0000;
    /// Holds the value of an extended attribute.
    EA_INODE = 0x20_0000;
    /// Blocks past the size were wanted; obsolete.
    EOFBLOCKS = 0x40_0000;
    /// Direct access to persistent memory is wanted (DAX).
    DAX = 0x200_0000;
    /// The data are in `i_block` and in the attribute `system.data`.
    INLINE_DATA = 0x1000_0000;
    /// New files take the directory's project.
    PROJINHERIT = 0x2000_0000;
    /// Names compare without case.
    CASEFOLD = 0x4000_0000;
    /// Reserved for the ext4 library.
    RESERVED = 0x8000_0000;
}

impl InodeFlags {
    /// True when all of `flags` are set.
    pub const fn contains(self, flags: InodeFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// True when any of `flags` is set.
    pub const fn intersects(self, flags: InodeFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Sets all flags of `flags`.
    pub fn insert(&mut self, flags: InodeFlags) {
        self.0 |= flags.0;
    }

    /// Clears all flags of `flags`.
    pub fn remove(&mut self, flags: InodeFlags) {
        self.0 &= !flags.0;
    }

    /// The flags that are in `self` or `other`.
    pub const fn union(self, other: InodeFlags) -> InodeFlags {
        InodeFlags(self.0 | other.0)
    }
}

/// Number of the device that a device file stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// Major number, 12 bits.
    pub major: u32,
    /// Minor number, 20 bits.
    pub minor: u32,
}

impl DeviceNumber {
    /// From `i_block`: 8 + 8 bits in the first word, or 12 + 20 in the second.
    pub(super) fn decode(i_block: &[u8; I_BLOCK_BYTES]) -> DeviceNumber {
        let old = get_u32(i_block, 0);
        if old != 0 {
            return DeviceNumber {
                major: old >> 8 & 0xFF,
                minor: old & 0xFF,
            };
        }
        Self::of_new(get_u32(i_block, 4))
    }

    /// From the 32-bit form with 12 + 20 bits (`new_encode_dev` of the kernel).
    pub fn of_new(number: u32) -> DeviceNumber {
        DeviceNumber {
            major: number >> 8 & 0xFFF,
            minor: number & 0xFF | number >> 12 & 0xF_FF00,
        }
    }

    /// As an `i_block`, in the old form where it fits.
    pub(super) fn encode(self) -> [u8; I_BLOCK_BYTES] {
        let mut i_block = [0; I_BLOCK_BYTES];
        if self.major < 256 && self.minor < 256 {
            put_u32(&mut i_block, 0, self.major << 8 | self.minor);
        } else {
            put_u32(&mut i_block, 4, self.as_new());
        }
        i_block
    }

    /// The 32-bit form with 12 + 20 bits; the opposite of [`Self::of_new`].
    pub fn as_new(self) -> u32 {
        let minor = self.minor & 0xFF | (self.minor & 0xF_FF00) << 12;
        minor | (self.major & 0xFFF) << 8
    }
}
