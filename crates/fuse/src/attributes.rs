//! Attributes in kernel format, and their lifetime in the kernel's caches.
//!
//! All changes of the image, except the server's own updates of access times, come through the
//! kernel. The kernel updates or invalidates its caches on each: unlink, link, rename, chmod and
//! the like invalidate the inodes involved, changes of a directory its attributes, reads the access
//! time. So attributes and dentries, negative ones included, have a long lifetime.
//!
//! One attribute is inexact in the kernel: the block count of a file with delayed writeback, which
//! it invalidates at close only. Attributes of files open for writing have a short lifetime.
//!
//! With the write-back cache the kernel owns size, mtime and ctime of regular files while it holds
//! the inode, ignores those in replies, and sends them before it evicts the inode.

use crate::reply::Reply;
use std::time::Duration;
use uext4::{Attr, Timestamp};

/// Lifetime of dentries and of attributes that change only through the kernel.
pub(crate) const TTL: Duration = Duration::from_secs(3600);
/// Lifetime of attributes of files that are open for writing or have delayed allocations, which may
/// add map blocks.
pub(crate) const TTL_WRITERS: Duration = Duration::from_secs(1);

/// Whether a file is open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// No open file of the node can write.
    None,
    /// At least one writer, so the page cache may hold dirty data.
    Some,
}

/// Puts `struct fuse_attr`.
pub(crate) fn put_attr(reply: &mut Reply, attr: &Attr) {
    for word in [u64::from(attr.ino.0), attr.size_bytes, attr.sectors] {
        reply.u64(word);
    }
    for time in [attr.atime, attr.mtime, attr.ctime] {
        reply.u64(time.seconds.cast_unsigned());
    }
    for time in [attr.atime, attr.mtime, attr.ctime] {
        reply.u32(time.nanoseconds);
    }
    let rdev = device_word(attr.rdev);
    let mode = mode_of(attr);
    for word in [
        mode,
        attr.links,
        attr.uid,
        attr.gid,
        rdev,
        attr.block_size,
        0,
    ] {
        reply.u32(word);
    }
}

/// Puts `struct fuse_attr_out`.
pub(crate) fn put_attr_out(reply: &mut Reply, attr: &Attr, ttl: Duration) {
    reply.u64(ttl.as_secs());
    reply.u32(ttl.subsec_nanos());
    reply.u32(0);
    put_attr(reply, attr);
}

/// Puts `struct fuse_entry_out`.
pub(crate) fn put_entry(reply: &mut Reply, node: u64, attr: &Attr, attr_ttl: Duration) {
    reply.u64(node);
    reply.u64(u64::from(attr.generation));
    reply.u64(TTL.as_secs());
    reply.u64(attr_ttl.as_secs());
    reply.u32(TTL.subsec_nanos());
    reply.u32(attr_ttl.subsec_nanos());
    put_attr(reply, attr);
}

/// Bytes of `struct fuse_entry_out`.
pub(crate) const ENTRY_BYTES: usize = 128;

/// Puts a negative `struct fuse_entry_out`.
pub(crate) fn put_no_entry(reply: &mut Reply) {
    reply.u64(0);
    reply.u64(0);
    reply.u64(TTL.as_secs());
    reply.zeroes(ENTRY_BYTES - 24);
}

/// Bits of `struct statx` that are filled: the basic ones and the birth time.
const STATX_BASIC: u32 = 0x7ff;
const STATX_BTIME: u32 = 0x800;

/// Attributes of `statx` and the inode flags (`FS_*_FL`) that set them.
const STATX_ATTRIBUTES: &[(u64, u32)] = &[
    (0x4, 0x4),
    (0x10, 0x10),
    (0x20, 0x20),
    (0x40, 0x40),
    (0x800, 0x800),
];

/// Puts `struct fuse_statx_out`.
pub(crate) fn put_statx(reply: &mut Reply, attr: &Attr, ttl: Duration) {
    reply.u64(ttl.as_secs());
    reply.u32(ttl.subsec_nanos());
    reply.zeroes(4 + 16);
    let born = attr.crtime != Timestamp::new(0, 0);
    let mask = if born {
        STATX_BASIC | STATX_BTIME
    } else {
        STATX_BASIC
    };
    reply.u32(mask);
    reply.u32(attr.block_size);
    reply.u64(statx_attributes(attr.flags));
    for word in [attr.links, attr.uid, attr.gid, mode_of(attr)] {
        reply.u32(word);
    }
    for word in [
        u64::from(attr.ino.0),
        attr.size_bytes,
        attr.sectors,
        statx_attributes(u32::MAX),
    ] {
        reply.u64(word);
    }
    for time in [attr.atime, attr.crtime, attr.ctime, attr.mtime] {
        reply.u64(time.seconds.cast_unsigned());
        reply.u32(time.nanoseconds);
        reply.u32(0);
    }
    for word in [attr.rdev.0, attr.rdev.1, 0, 0] {
        reply.u32(word);
    }
    reply.zeroes(14 * 8);
}

/// The `STATX_ATTR_*` bits of inode flags.
fn statx_attributes(flags: u32) -> u64 {
    let set = STATX_ATTRIBUTES
        .iter()
        .filter(move |(_, flag)| flags & flag != 0);
    set.fold(0, |bits, (bit, _)| bits | bit)
}

/// Type and permission bits.
fn mode_of(attr: &Attr) -> u32 {
    u32::from(attr.kind.mode_bits() | attr.mode)
}

/// Device number as the kernel's user interface packs it in 32 bits.
fn device_word((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12)
}

/// Major and minor of a packed device number.
pub(crate) fn device_of(word: u32) -> (u32, u32) {
    ((word >> 8) & 0xfff, (word & 0xff) | ((word >> 12) & !0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_round_trip() {
        for device in [(0, 0), (8, 1), (0xfff, 0xfffff), (259, 0x12345)] {
            assert_eq!(device_of(device_word(device)), device);
        }
        assert_eq!(device_word((8, 1)), 0x801);
    }

    #[test]
    fn structures_have_the_sizes_of_the_protocol() {
        let attr = sample();
        let mut reply = Reply::new(0);
        put_attr_out(&mut reply, &attr, TTL);
        assert_eq!(reply.len(), 104);
        reply.clear();
        put_entry(&mut reply, 9, &attr, TTL);
        assert_eq!(reply.len(), ENTRY_BYTES);
        reply.clear();
        put_no_entry(&mut reply);
        assert_eq!(reply.len(), ENTRY_BYTES);
        reply.clear();
        put_statx(&mut reply, &attr, TTL);
        assert_eq!(reply.len(), 288);
    }

    fn sample() -> Attr {
        let time = Timestamp::new(-2, 800_000_000);
        Attr {
            ino: uext4_format::InodeNr(12),
            generation: 1,
            kind: uext4::FileType::Regular,
            mode: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            project: 0,
            rdev: (0, 0),
            size_bytes: 1,
            sectors: 8,
            block_size: 4096,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            flags: 0,
        }
    }
}
