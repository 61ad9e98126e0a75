//! `FUSE_INIT`: negotiation of protocol version and capabilities.
//!
//! Requested: POSIX ACLs and raw umask (`POSIX_ACL`, `DONT_MASK`); clearing of setuid and setgid by
//! the server (`HANDLE_KILLPRIV_V2`), which saves a request per write; parallel lookups and
//! listings in a directory; write-back cache; large requests; the caller's groups with a new name
//! (`CREATE_SUPP_GROUP`), which decide whether a new file keeps setgid; cached symbolic links.
//!
//! Not requested: locks, which the kernel implements locally; `ASYNC_DIO`, because the kernel
//! (Linux 6.18) drops cached pages after a direct write only if it waits for the write. Pages that
//! a reader cached meanwhile would stay and overwrite the newer data at writeback. Splicing needs
//! no flag. `EXPORT_SUPPORT` is an option (`nfs_export`): with it the kernel fails to revalidate an
//! entry that it made from a handle, as overlayfs does for each file that it has copied up.
//! `ALLOW_IDMAP` is an option (`idmap`): with it no request names its caller, but those that create
//! an inode name its owner.

use crate::errno::Errno;
use crate::options::{Backing, DataCache, MountOptions};
use crate::protocol::{
    MINOR_CHECKS_FLAG_IOCTLS, MINOR_MIN, MINOR_OWN_FALLOCATE_TIMES, VERSION, capability as cap,
};
use crate::reply::Reply;
use crate::request::Request;
use uext4_num::{high_u32, low_u32};

/// Maximum bytes of a write in one request; a power of two pages.
pub(crate) const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Read-ahead of the kernel, in bytes.
pub(crate) const READ_AHEAD_BYTES: u32 = 1 << 20;
/// Maximum number of background requests (read-ahead, writeback) in flight with `/dev/fuse`.
const BACKGROUND_MAX: u16 = 64;
/// The same with rings: the kernel's default. Each request in flight has its own buffer, and few
/// buffers stay in the CPU caches.
const BACKGROUND_MAX_RINGS: u16 = 12;

/// Capabilities that are used if the kernel offers them.
const WANTED: u64 = cap::ASYNC_READ
    | cap::ATOMIC_O_TRUNC
    | cap::BIG_WRITES
    | cap::DONT_MASK
    | cap::HAS_IOCTL_DIR
    | cap::DO_READDIRPLUS
    | cap::READDIRPLUS_AUTO
    | cap::PARALLEL_DIROPS
    | cap::POSIX_ACL
    | cap::MAX_PAGES
    | cap::CACHE_SYMLINKS
    | cap::EXPLICIT_INVAL_DATA
    | cap::HANDLE_KILLPRIV_V2
    | cap::SETXATTR_EXT
    | cap::INIT_EXT
    | cap::CREATE_SUPP_GROUP
    | cap::DIRECT_IO_ALLOW_MMAP;

/// Required capabilities (Linux 4.9 has all of them).
const NEEDED: u64 = cap::DONT_MASK | cap::POSIX_ACL | cap::BIG_WRITES;

/// Version and capabilities that both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    flags: u64,
    /// Minor version of the kernel.
    minor: u32,
    maps_blocks: bool,
}

/// Capabilities that the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    flags: u64,
    minor: u32,
    read_ahead_bytes: u32,
    /// Unit of the times that the kernel maintains, in nanoseconds.
    granularity_ns: u32,
}

/// Result of the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// The kernel offers capabilities and waits for [`Offer::accept`].
    Offered(Offer),
    /// The kernel has a later major version and asks again with ours. The reply is complete.
    AskAgain,
}

/// Whether requests use rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rings {
    Yes,
    No,
}

impl Agreement {
    /// Whether the kernel uses the write-back cache.
    pub(crate) fn writeback(self) -> bool {
        self.flags & cap::WRITEBACK_CACHE != 0
    }

    /// Whether the kernel owns file times and updates them on `FALLOCATE`.
    pub(crate) fn owns_fallocate_times(self) -> bool {
        self.writeback() && self.minor >= MINOR_OWN_FALLOCATE_TIMES
    }

    /// Whether the kernel checks the owner before it sends the ioctls of flags and project ids.
    pub(crate) fn checks_flag_ioctls(self) -> bool {
        self.minor >= MINOR_CHECKS_FLAG_IOCTLS
    }

    /// Whether direct-I/O files allow shared mappings coherent with the page cache.
    pub(crate) fn can_mmap_direct(self) -> bool {
        self.flags & cap::DIRECT_IO_ALLOW_MMAP != 0
    }

    /// Whether block numbers of the file system are those of the kernel's device.
    pub(crate) fn maps_blocks(self) -> bool {
        self.maps_blocks
    }

    /// Whether requests do not name their callers, since the mount may be idmapped.
    pub(crate) fn hides_callers(self) -> bool {
        self.flags & cap::ALLOW_IDMAP != 0
    }

    /// Whether `SETXATTR` has the long form.
    pub(crate) fn long_setxattr(self) -> bool {
        self.flags & cap::SETXATTR_EXT != 0
    }

    /// Maximum bytes of one reply.
    pub(crate) fn read_bytes_max(self) -> u32 {
        WRITE_BYTES_MAX
    }
}

/// Parses the kernel's `FUSE_INIT`.
///
/// # Errors
/// `EPROTO` if the kernel is too old.
pub(crate) fn greet(request: &Request<'_>, reply: &mut Reply) -> Result<Greeting, Errno> {
    let mut args = request.args();
    let (major, minor) = (args.u32()?, args.u32()?);
    if major > VERSION.0 {
        put_version(reply);
        reply.zeroes(56);
        return Ok(Greeting::AskAgain);
    }
    if major < VERSION.0 || minor < MINOR_MIN {
        return Err(Errno::EPROTO);
    }
    let (read_ahead_bytes, low) = (args.u32()?, args.u32()?);
    let has_more = u64::from(low) & cap::INIT_EXT != 0;
    let high = if has_more { args.u32()? } else { 0 };
    let flags = u64::from(low) | u64::from(high) << 32;
    if flags & NEEDED != NEEDED {
        return Err(Errno::EPROTO);
    }
    Ok(Greeting::Offered(Offer {
        flags,
        minor,
        read_ahead_bytes,
        granularity_ns: 1,
    }))
}

impl Offer {
    /// Whether the kernel offers rings.
    pub(crate) fn has_rings(self) -> bool {
        self.flags & cap::OVER_IO_URING != 0
    }

    /// Whether the kernel offers idmapped mounts.
    pub(crate) fn has_idmap(self) -> bool {
        self.flags & cap::ALLOW_IDMAP != 0
    }

    /// Sets the unit of the kernel's times, in nanoseconds.
    pub(crate) fn with_granularity(self, granularity_ns: u32) -> Self {
        Self {
            granularity_ns,
            ..self
        }
    }

    /// Puts the reply to `FUSE_INIT`.
    pub(crate) fn accept(
        self,
        options: &MountOptions,
        rings: Rings,
        reply: &mut Reply,
    ) -> Agreement {
        let write_back = match options.data_cache {
            DataCache::WriteBack if !options.read_only => cap::WRITEBACK_CACHE,
            _ => 0,
        };
        let (rings, background_max) = match rings {
            Rings::Yes => (cap::OVER_IO_URING, BACKGROUND_MAX_RINGS),
            Rings::No => (0, BACKGROUND_MAX),
        };
        let export = if options.nfs_export {
            cap::EXPORT_SUPPORT
        } else {
            0
        };
        let idmap = if options.idmap { cap::ALLOW_IDMAP } else { 0 };
        let flags = self.flags & (WANTED | export | idmap | write_back | rings);
        self.put_agreement(reply, flags, background_max);
        Agreement {
            flags,
            minor: self.minor,
            maps_blocks: options.backing == Backing::BlockDevice,
        }
    }

    /// Puts `struct fuse_init_out`.
    fn put_agreement(self, reply: &mut Reply, flags: u64, background_max: u16) {
        let pages = WRITE_BYTES_MAX / page_bytes();
        put_version(reply);
        reply.u32(self.read_ahead_bytes.max(READ_AHEAD_BYTES));
        reply.u32(low_u32(flags));
        reply.u32(u32::from(background_max) | u32::from(background_max / 4 * 3) << 16);
        reply.u32(WRITE_BYTES_MAX);
        reply.u32(self.granularity_ns);
        reply.u32(pages.min(0xffff));
        reply.u32(high_u32(flags));
        reply.zeroes(4 + 6 * 4);
    }
}

fn put_version(reply: &mut Reply) {
    reply.u32(VERSION.0);
    reply.u32(VERSION.1);
}

fn page_bytes() -> u32 {
    u32::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::opcode;

    fn init(major: u32, minor: u32, flags: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [104u32, opcode::INIT, 1, 0, 0, 0, 0, 0, 0, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [major, minor, 131072, flags as u32, (flags >> 32) as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize(104, 0);
        bytes
    }

    fn greeting(bytes: &[u8]) -> (Result<Greeting, Errno>, usize) {
        let mut reply = Reply::new(0);
        let request = Request::parse(bytes).expect("it is complete");
        let got = greet(&request, &mut reply);
        (got, reply.len())
    }

    #[test]
    fn only_what_is_offered_is_agreed() {
        let common = NEEDED | cap::WRITEBACK_CACHE | cap::INIT_EXT;
        let offered = common | cap::OVER_IO_URING | 1 << 2 | 1 << 60;
        let (got, len) = greeting(&init(7, 45, offered));
        let Ok(Greeting::Offered(offer)) = got else {
            panic!("{got:?}")
        };
        assert!(offer.has_rings() && len == 0);
        let mut reply = Reply::new(0);
        let accepted =
            |rings, reply: &mut Reply| offer.accept(&MountOptions::default(), rings, reply).flags;
        assert_eq!(accepted(Rings::No, &mut reply), common);
        assert_eq!(reply.len(), 64);
        let with_rings = accepted(Rings::Yes, &mut reply);
        assert_eq!(with_rings, common | cap::OVER_IO_URING);
        let agreement = Agreement {
            flags: with_rings,
            minor: 45,
            maps_blocks: false,
        };
        assert!(agreement.writeback() && !agreement.long_setxattr());
    }

    #[test]
    fn times_of_fallocate_are_the_kernels_since_6_1() {
        let owns = |minor, flags| {
            let (got, _) = greeting(&init(7, minor, flags));
            let Ok(Greeting::Offered(offer)) = got else {
                panic!("{got:?}")
            };
            let options = MountOptions::default();
            let agreement = offer.accept(&options, Rings::No, &mut Reply::new(0));
            agreement.owns_fallocate_times()
        };
        let flags = NEEDED | cap::WRITEBACK_CACHE;
        assert!(owns(45, flags) && owns(37, flags));
        assert!(!owns(36, flags) && !owns(45, NEEDED));
    }

    #[test]
    fn other_versions() {
        assert_eq!(greeting(&init(8, 0, NEEDED)), (Ok(Greeting::AskAgain), 64));
        assert_eq!(greeting(&init(7, 20, NEEDED)).0, Err(Errno::EPROTO));
        assert_eq!(greeting(&init(7, 45, 0)).0, Err(Errno::EPROTO));
    }
}
