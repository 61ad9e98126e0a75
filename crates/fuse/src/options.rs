//! How to mount.

use crate::owners::Owners;
use std::path::PathBuf;

/// What the kernel does with written data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataCache {
    /// It keeps them and writes them to us later, in large pieces (as its own file systems do).
    WriteBack,
    /// Every write comes to us at once.
    WriteThrough,
}

/// Where the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// In the calling process.
    Foreground,
    /// In a process of its own; the caller goes on when the mount is ready.
    Daemon,
}

/// Who may use the mount besides the one who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Everybody, as the permissions of the files say (`allow_other`).
    Everybody,
    /// Nobody else.
    Owner,
    /// Everybody when the superuser mounts, nobody else otherwise.
    Default,
}

/// Whether standard error says how the mount is served, once it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// It does.
    Yes,
    /// It does not; the control socket tells who asks.
    No,
}

/// Whether a server locks itself in (Landlock, seccomp, no privileges), so that an image that takes
/// it over reaches nothing else. That is for [`crate::mount`]: all of the process is locked in, for
/// good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Not at all.
    Off,
    /// As far as the kernel can.
    Best,
    /// With Landlock and seccomp; no mount without.
    Must,
}

/// How requests come from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Over io_uring where the kernel offers it, through `/dev/fuse` elsewhere.
    Best,
    /// Over io_uring; no mount without it. Linux 6.14 offers it when the superuser has written `Y`
    /// to `/sys/module/fuse/parameters/enable_uring`.
    IoUring,
    /// Through `/dev/fuse`.
    DevFuse,
}

/// What holds the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Anything.
    File,
    /// The block device that [`MountOptions::source`] names. When the superuser mounts it to be
    /// written the kernel knows it (`fuseblk`): it keeps others from it, `sync` asks the server,
    /// and `umount` waits until the device is clean.
    BlockDevice,
    /// A part of that device (`offset=`, `partition=`): the same, but for the numbers of blocks,
    /// which the kernel does not hear (`FIBMAP`, swap files).
    PartOfBlockDevice,
}

/// How to mount. What the file system itself needs to know is in [`uext4::MountOptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Threads that serve requests; 0 means one per core. Over io_uring never more than cores.
    pub n_threads: usize,
    /// How requests come.
    pub channel: Channel,
    /// What `/proc/mounts` names as the source: the image or device.
    pub source: String,
    /// What holds the file system.
    pub backing: Backing,
    /// `ro`.
    pub read_only: bool,
    /// `nosuid`.
    pub no_suid: bool,
    /// `nodev`.
    pub no_dev: bool,
    /// `noexec`.
    pub no_exec: bool,
    /// `noatime`; the file system's own option decides whether access times are written.
    pub no_atime: bool,
    /// `sync`: the kernel has written data made durable before a write returns. The file system's
    /// own option does the same for everything else.
    pub sync: bool,
    /// `dirsync`, for `/proc/mounts`; the file system's own option acts on it.
    pub dirsync: bool,
    /// Who may use the mount.
    pub sharing: Sharing,
    /// What the kernel does with written data.
    pub data_cache: DataCache,
    /// Whether the server locks itself in.
    pub sandbox: Sandbox,
    /// Address space that a server that locks itself in may have at most. One that needs more ends.
    pub memory_bytes_max: Option<u64>,
    /// Files that the server opens: the image, an external journal. Locked in it reaches no others.
    pub files: Vec<PathBuf>,
    /// How owners are shown.
    pub owners: Owners,
    /// The list of options, as it was given: a remount may repeat what it cannot change.
    pub list: String,
    /// Where the server runs.
    pub run: Run,
    /// Whether standard error says how the mount is served.
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
    /// Threads to start. At least two, since the kernel may ask for one thing before another.
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let asked = if self.n_threads == 0 {
            cores()
        } else {
            self.n_threads
        };
        asked.max(2)
    }

    /// True when the kernel lets other users in.
    pub(crate) fn allows_others(&self) -> bool {
        match self.sharing {
            Sharing::Everybody => true,
            Sharing::Owner => false,
            Sharing::Default => rustix::process::geteuid().is_root(),
        }
    }
}
