//! Constants of the FUSE protocol, version 7.
//!
//! References: `linux/fuse.h` of the kernel's user API; man page `fuse(4)`.

/// Highest version of this server; both sides use the smaller minor version.
pub(crate) const VERSION: (u32, u32) = (7, 39);
/// Oldest minor version that is served (Linux 4.20).
pub(crate) const MINOR_MIN: u32 = 28;
/// Minor version (Linux 6.1) from which the kernel updates the times that it owns when it sends
/// `FALLOCATE`. Some older kernels do so too, but do not announce it.
pub(crate) const MINOR_OWN_FALLOCATE_TIMES: u32 = 37;
/// Minor version (Linux 5.14, partly 5.13) from which the kernel treats `FS_IOC_SETFLAGS` and
/// `FS_IOC_FSSETXATTR` as file attributes and checks the owner. Older kernels pass them on like any
/// ioctl.
pub(crate) const MINOR_CHECKS_FLAG_IOCTLS: u32 = 34;
/// Node id of the root directory.
pub(crate) const ROOT_ID: u64 = 1;
/// Size of the reply header, in bytes.
pub(crate) const REPLY_HEADER_BYTES: usize = 16;
/// Size of the request header, in bytes.
pub(crate) const REQUEST_HEADER_BYTES: usize = 40;

pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const BMAP: u32 = 37;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const SYNCFS: u32 = 50;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const STATX: u32 = 52;

    /// Opcodes that are counted, with their names.
    pub(crate) const NAMES: &[(u32, &str)] = &[
        (LOOKUP, "lookup"),
        (FORGET, "forget"),
        (GETATTR, "getattr"),
        (SETATTR, "setattr"),
        (READLINK, "readlink"),
        (SYMLINK, "symlink"),
        (MKNOD, "mknod"),
        (MKDIR, "mkdir"),
        (UNLINK, "unlink"),
        (RMDIR, "rmdir"),
        (RENAME, "rename"),
        (LINK, "link"),
        (OPEN, "open"),
        (READ, "read"),
        (WRITE, "write"),
        (STATFS, "statfs"),
        (RELEASE, "release"),
        (FSYNC, "fsync"),
        (SETXATTR, "setxattr"),
        (GETXATTR, "getxattr"),
        (LISTXATTR, "listxattr"),
        (REMOVEXATTR, "removexattr"),
        (FLUSH, "flush"),
        (OPENDIR, "opendir"),
        (READDIR, "readdir"),
        (RELEASEDIR, "releasedir"),
        (FSYNCDIR, "fsyncdir"),
        (ACCESS, "access"),
        (CREATE, "create"),
        (BMAP, "bmap"),
        (IOCTL, "ioctl"),
        (BATCH_FORGET, "batch_forget"),
        (FALLOCATE, "fallocate"),
        (READDIRPLUS, "readdirplus"),
        (RENAME2, "rename2"),
        (LSEEK, "lseek"),
        (COPY_FILE_RANGE, "copy_file_range"),
        (SYNCFS, "syncfs"),
        (TMPFILE, "tmpfile"),
        (STATX, "statx"),
    ];
}

/// Capability flags of `FUSE_INIT`.
pub(crate) mod capability {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const HAS_IOCTL_DIR: u64 = 1 << 11;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const ALLOW_IDMAP: u64 = 1 << 40;
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
}

/// Attributes that `SETATTR` sets (`FATTR_*`).
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// Flags in the reply to an open (`FOPEN_*`).
pub(crate) mod fopen {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Extension after a request's arguments: supplementary groups of the caller.
pub(crate) const EXTENSION_GROUPS: u32 = 32;

/// `GETATTR`: the request names the handle of an open file.
pub(crate) const GETATTR_HANDLE: u32 = 1 << 0;
/// `FSYNC`: data only, as `fdatasync(2)`.
pub(crate) const FSYNC_FDATASYNC: u32 = 1 << 0;
/// `WRITE`: the data come from the page cache (writeback).
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// `WRITE`: clear setuid and setgid.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `OPEN` with `O_TRUNC`: clear setuid and setgid.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// `SETXATTR`: clear setgid with the new access ACL.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// Notification: invalidates cached attributes and pages of an inode.
pub(crate) const NOTIFY_INVAL_INODE: i32 = 2;
