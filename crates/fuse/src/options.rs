//! Mount options.

use crate::owners::Owners;
use std::path::PathBuf;

/// Caching of written data in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCache {
    /// The page cache delays writes and sends them in large requests, as for kernel file systems.
    WriteBack,
    /// Each write is sent to the server at once.
    WriteThrough,
}

/// Process that the server runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// In the calling process, which the call occupies until the unmount.
    Foreground,
    /// In a process of its own; the call returns when the mount is ready.
    Daemon,
}

/// Users besides the mounting one that may use the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All users, subject to file permissions (`allow_other`).
    All,
    /// No other user, not even the superuser.
    Owner,
    /// All users if the superuser mounts, otherwise no other user.
    Default,
}

/// Whether the server reports its transport on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// The server reports its transport.
    Yes,
    /// It does not; the control socket answers on request.
    No,
}

/// Whether the server confines itself (Landlock, seccomp, no privileges), so that an image that
/// compromises it reaches nothing else. For [`crate::mount`] only: it confines the whole process
/// for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// The server keeps all rights of its user.
    Off,
    /// As far as the kernel supports it.
    Best,
    /// With Landlock and seccomp; without them the mount fails.
    Must,
}

/// Transport of requests from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// io_uring if the kernel offers it, otherwise `/dev/fuse`.
    Best,
    /// io_uring; without it the mount fails. Linux 6.14 offers it after the superuser has written
    /// `Y` to `/sys/module/fuse/parameters/enable_uring`.
    IoUring,
    /// The device `/dev/fuse`, whatever the kernel offers.
    DevFuse,
}

/// Storage of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Storage of any type, which only the server knows.
    File,
    /// The block device in [`MountOptions::source`]. If the superuser mounts it writable, the
    /// kernel knows it (`fuseblk`): it excludes other openers, `sync` reaches the server, and
    /// `umount` waits until the device is clean.
    BlockDevice,
    /// A part of that device (`offset=`, `partition=`). As [`Backing::BlockDevice`], but the kernel
    /// gets no block numbers (`FIBMAP`, swap files).
    PartOfBlockDevice,
}

/// Mount options. Those of the file system itself are in [`uext4::MountOptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Number of serving threads; 0 means one per core. With io_uring at most one per core.
    pub n_threads: usize,
    /// The transport of requests: `/dev/fuse` or io_uring.
    pub channel: Channel,
    /// Source in `/proc/mounts`: the image or device.
    pub source: String,
    /// Storage of the file system.
    pub backing: Backing,
    /// `ro`: the kernel refuses changes.
    pub read_only: bool,
    /// `nosuid`: setuid and setgid have no effect.
    pub no_suid: bool,
    /// `nodev`: device files cannot be opened.
    pub no_dev: bool,
    /// `noexec`: no file can be executed.
    pub no_exec: bool,
    /// `noatime`; the file system's own option controls updates of access times.
    pub no_atime: bool,
    /// `sync`: the kernel makes written data durable before a write returns. The file system's own
    /// option does the same for all other changes.
    pub sync: bool,
    /// `dirsync`, shown in `/proc/mounts`; the file system's own option implements it.
    pub dirsync: bool,
    /// Whether file handles stay valid after the kernel forgot the file, as NFS servers need; not
    /// together with overlayfs.
    pub nfs_export: bool,
    /// Whether idmapped mounts can be made of the mount. The kernel (Linux 6.12) names no callers
    /// then; the server takes their rights from `/proc`. Not together with `owners`.
    pub idmap: bool,
    /// Other users of the mount.
    pub sharing: Sharing,
    /// Caching of written data in the kernel.
    pub data_cache: DataCache,
    /// Whether the server confines itself.
    pub sandbox: Sandbox,
    /// Maximum address space of a sandboxed server, in bytes. A server that needs more ends.
    pub memory_bytes_max: Option<u64>,
    /// Files that the server opens: the image, an external journal. A sandboxed server opens no
    /// others.
    pub files: Vec<PathBuf>,
    /// The mapping of owners between the image and the mount.
    pub owners: Owners,
    /// The option list as given: a remount may repeat fixed options.
    pub list: String,
    /// Whether the server runs in the calling process.
    pub run: Run,
    /// Whether the server reports its transport on standard error.
    pub announce: Announce,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            n_threads: 0,
            channel: Channel::Best,
            source: "uext4".into(),
            backing: Backing::File,
            read_only: false,
            no_suid: false,
            no_dev: false,
            no_exec: false,
            no_atime: false,
            sync: false,
            dirsync: false,
            nfs_export: false,
            idmap: false,
            sharing: Sharing::Default,
            data_cache: DataCache::WriteBack,
            sandbox: Sandbox::Off,
            memory_bytes_max: None,
            files: Vec::new(),
            owners: Owners::default(),
            list: String::new(),
            run: Run::Foreground,
            announce: Announce::No,
        }
    }
}

impl MountOptions {
    /// Number of threads to start; at least two, since one request may depend on another.
    pub(crate) fn threads(&self) -> usize {
        let asked = if self.n_threads == 0 {
            uext4_sync::cores()
        } else {
            self.n_threads
        };
        asked.max(2)
    }

    /// Whether the kernel admits other users.
    pub(crate) fn allows_others(&self) -> bool {
        match self.sharing {
            Sharing::All => true,
            Sharing::Owner => false,
            Sharing::Default => rustix::process::geteuid().is_root(),
        }
    }
}
