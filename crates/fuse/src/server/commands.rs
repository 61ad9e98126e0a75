//! Ioctl numbers, exact in direction and size.
//!
//! The kernel checks owners and read-only mounts for exact numbers only: `FS_IOC_SETFLAGS` and
//! `FS_IOC_FSSETXATTR` reach the server after these checks. A number with another direction or size
//! arrives unchecked, so it counts as another ioctl.
//!
//! References: `linux/fs.h`, `linux/fscrypt.h`, `linux/fsverity.h` of the kernel's user API.

use rustix::ioctl::Direction::{Read as R, ReadWrite as WR, Write as W};
use rustix::ioctl::opcode::from_components as number;

/// Size of `long`, the declared type of the flag and version ioctls, in bytes.
const LONG: usize = size_of::<libc::c_long>();
/// Size of `int`, in the numbers of 32-bit callers, in bytes.
const INT: usize = 4;

pub(super) const GETFLAGS: u32 = number(R, b'f', 1, LONG);
pub(super) const SETFLAGS: u32 = number(W, b'f', 2, LONG);
pub(super) const FSGETXATTR: u32 = number(R, b'X', 31, 28);
pub(super) const FSSETXATTR: u32 = number(W, b'X', 32, 28);
pub(super) const GETVERSION: u32 = number(R, b'v', 1, LONG);
pub(super) const SETVERSION: u32 = number(W, b'v', 2, LONG);
/// The same under ext4's own numbers.
pub(super) const EXT4_GETVERSION: u32 = number(R, b'f', 3, LONG);
pub(super) const EXT4_SETVERSION: u32 = number(W, b'f', 4, LONG);
pub(super) const FITRIM: u32 = number(WR, b'X', 121, 24);
pub(super) const GETFSLABEL: u32 = number(R, 0x94, 49, 256);
pub(super) const SETFSLABEL: u32 = number(W, 0x94, 50, 256);
pub(super) const SHUTDOWN: u32 = number(R, b'X', 125, 4);

/// Ioctls that change an inode.
pub(super) const OF_INODES: &[u32] = &[SETFLAGS, FSSETXATTR, SETVERSION, EXT4_SETVERSION];

/// Ioctls that ext4 knows and this server refuses: the UUID (the kernel passes only the head of its
/// structure), encryption policies and keys, and fs-verity. A file system with the last two
/// features is never mounted writable.
pub(super) const REFUSED: &[u32] = &[
    number(R, b'f', 44, 8),
    number(W, b'f', 44, 8),
    number(R, b'f', 19, 12),
    number(W, b'f', 20, 16),
    number(W, b'f', 21, 12),
    number(WR, b'f', 22, 9),
    number(WR, b'f', 23, 80),
    number(WR, b'f', 24, 64),
    number(WR, b'f', 25, 64),
    number(WR, b'f', 26, 128),
    number(R, b'f', 27, 16),
    number(W, b'f', 133, 128),
    number(WR, b'f', 134, 4),
    number(WR, b'f', 135, 40),
];

/// `FUSE_IOCTL_COMPAT`: the caller is a 32-bit program.
const COMPAT: u32 = 1 << 0;

/// The 64-bit number of the same ioctl. The kernel translates the flag ioctls, which it checks;
/// version ioctls arrive unchanged.
pub(super) fn native(command: u32, ioctl_flags: u32) -> u32 {
    const NARROW: [(u32, u32); 4] = [
        (number(R, b'v', 1, INT), GETVERSION),
        (number(W, b'v', 2, INT), SETVERSION),
        (number(R, b'f', 3, INT), EXT4_GETVERSION),
        (number(W, b'f', 4, INT), EXT4_SETVERSION),
    ];
    let narrow = NARROW.iter().find(|(narrow, _)| *narrow == command);
    match narrow {
        Some((_, wide)) if ioctl_flags & COMPAT != 0 => *wide,
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!([GETFLAGS, SETFLAGS], [0x8008_6601, 0x4008_6602]);
        assert_eq!([FSGETXATTR, FSSETXATTR], [0x801c_581f, 0x401c_5820]);
        assert_eq!([GETVERSION, SETVERSION], [0x8008_7601, 0x4008_7602]);
        assert_eq!([FITRIM, SHUTDOWN], [0xc018_5879, 0x8004_587d]);
        assert_eq!([GETFSLABEL, SETFSLABEL], [0x8100_9431, 0x4100_9432]);
    }

    #[test]
    fn only_numbers_of_versions_have_a_32_bit_form_here() {
        let narrow = |nr| number(W, b'f', nr, INT);
        assert_eq!(native(narrow(4), COMPAT), EXT4_SETVERSION);
        assert_eq!(native(narrow(2), COMPAT), narrow(2));
        if LONG != INT {
            assert_eq!(native(narrow(4), 0), narrow(4));
        }
    }
}
