//! Mounting a FUSE file system on a directory, and unmounting it.
//!
//! The superuser calls `mount(2)` and `umount2(2)`; other users go through `fusermount3`.

use crate::error::{Error, Result};
use crate::options::MountOptions;
use crate::transport::{DevFuse, read_bytes_max};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSliceMut, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// File system types in `/proc/mounts`: of a plain mount, and of one with a block device known to
/// the kernel.
const FS_TYPE: &str = "fuse.uext4";
const BLOCK_FS_TYPE: &str = "fuseblk.uext4";
/// Device number of FUSE: major, minor.
const FUSE_NUMBER: (u32, u32) = (10, 229);
/// FUSE connections in sysfs, by device number.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";
/// Setuid helper of libfuse.
const FUSERMOUNT: &str = "fusermount3";
/// Environment variable with the helper's socket.
const COMM_ENV: &str = "_FUSE_COMMFD";

/// Whether a busy mount is detached, to vanish with its last user (`MNT_DETACH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lazy {
    /// A busy mount is detached at once.
    Yes,
    /// A busy mount stays, and the unmount fails.
    No,
}

/// Whether this is a file system type of uext4.
pub(crate) fn is_ours(fs_type: &[u8]) -> bool {
    fs_type == FS_TYPE.as_bytes() || fs_type == BLOCK_FS_TYPE.as_bytes()
}

/// Mounts on `target`, a path of the opened directory; its absolute path was `path`.
pub(crate) fn attach(target: &Path, path: &Path, options: &MountOptions) -> Result<DevFuse> {
    match mount_as(FS_TYPE, target, options, "") {
        Err(Failed::Open(error) | Failed::Mount(error))
            if error.kind() == io::ErrorKind::PermissionDenied
                && !rustix::process::geteuid().is_root() =>
        {
            attach_by_helper(target, path, options)
        }
        done => done.map_err(|failed| failed.at(path)),
    }
}

/// The step of mounting that failed.
enum Failed {
    Open(io::Error),
    Mount(io::Error),
}

impl Failed {
    fn at(self, path: &Path) -> Error {
        match self {
            Self::Open(source) => Error::NoFuse { source },
            // The kernel does not know the type.
            Self::Mount(source) if source.raw_os_error() == Some(libc::ENODEV) => {
                Error::NoFuse { source }
            }
            Self::Mount(source) => Error::system("mount on", path)(source),
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Mount(error)
    }
}

/// As [`attach`]; the kernel also claims the block device named by the options.
pub(crate) fn attach_block(target: &Path, path: &Path, options: &MountOptions) -> Result<DevFuse> {
    block_size(&options.source)
        .map_err(Failed::Mount)
        .and_then(|bytes| mount_as(BLOCK_FS_TYPE, target, options, &format!(",blksize={bytes}")))
        .map_err(|failed| failed.at(path))
}

fn mount_as(
    fs_type: &str,
    target: &Path,
    options: &MountOptions,
    more: &str,
) -> std::result::Result<DevFuse, Failed> {
    let device = DevFuse::open().map_err(Failed::Open)?;
    check_device(device.as_fd()).map_err(Failed::Open)?;
    let fd = device.as_fd().as_raw_fd();
    let data = CString::new(kernel_options(fd, options) + more).map_err(io::Error::from)?;
    let source = options.source.as_str();
    rustix::mount::mount(source, target, fs_type, mount_flags(options), &*data)
        .map_err(io::Error::from)?;
    Ok(DevFuse::new(device.into()))
}

/// Refuses another file at `/dev/fuse`, of which mount(2) says "Invalid argument" only.
fn check_device(device: BorrowedFd<'_>) -> io::Result<()> {
    let number = rustix::fs::fstat(device)?.st_rdev;
    let number = (rustix::fs::major(number), rustix::fs::minor(number));
    if number == FUSE_NUMBER {
        return Ok(());
    }
    let (major, minor) = FUSE_NUMBER;
    let problem = format!("it is not the FUSE device, which has the number {major}:{minor}");
    Err(io::Error::other(problem))
}

/// The kernel's default block size of a device. Another size would drop the device's cache.
fn block_size(device: &str) -> io::Result<u64> {
    let bytes = File::open(device)?.seek(SeekFrom::End(0))?;
    Ok(1 << bytes.trailing_zeros().clamp(9, 12))
}

fn kernel_options(fd: i32, options: &MountOptions) -> String {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let (user, group) = (user.as_raw(), group.as_raw());
    let others = if options.allows_others() {
        ",allow_other"
    } else {
        ""
    };
    format!(
        "fd={fd},rootmode={:o},user_id={user},group_id={group},default_permissions{others}{}",
        libc::S_IFDIR,
        max_read(options),
    )
}

fn max_read(options: &MountOptions) -> String {
    let bytes = read_bytes_max(options.channel);
    bytes.map_or_else(String::new, |bytes| format!(",max_read={bytes}"))
}

fn mount_flags(options: &MountOptions) -> MountFlags {
    let wanted = [
        (options.read_only, MountFlags::RDONLY),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_dev, MountFlags::NODEV),
        (options.no_exec, MountFlags::NOEXEC),
        (options.no_atime, MountFlags::NOATIME),
        (options.sync, MountFlags::SYNCHRONOUS),
        (options.dirsync, MountFlags::DIRSYNC),
    ];
    let set = wanted.into_iter().filter(|(set, _)| *set);
    set.fold(MountFlags::empty(), |flags, (_, flag)| flags | flag)
}

/// The helper starts in the opened directory: it mounts by name.
fn attach_by_helper(target: &Path, path: &Path, options: &MountOptions) -> Result<DevFuse> {
    let doing = || Error::system("mount with fusermount3 on", path);
    let (ours, theirs) = UnixStream::pair().map_err(doing())?;
    // The helper inherits its end.
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())
        .map_err(io::Error::from)
        .map_err(doing())?;
    let child = Command::new(FUSERMOUNT)
        .arg("-o")
        .arg(helper_options(options))
        .args(["--", "."])
        .current_dir(target)
        .env(COMM_ENV, theirs.as_raw_fd().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_run(error, path, doing()))?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let said = wait(child).map_err(doing())?;
    match received {
        Ok(fd) => Ok(DevFuse::new(fd)),
        Err(_) => Err(Error::Fusermount { said }),
    }
}

/// Error of a helper that did not run.
fn not_run(error: io::Error, path: &Path, other: impl FnOnce(io::Error) -> Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NoFusermount { path: path.into() },
        _ => other(error),
    }
}

fn helper_options(options: &MountOptions) -> OsString {
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut list = format!("fsname={source},subtype=uext4,default_permissions");
    let words = [
        (options.read_only, ",ro"),
        (options.no_exec, ",noexec"),
        (options.no_atime, ",noatime"),
        (options.sync, ",sync"),
        (options.dirsync, ",dirsync"),
        (options.allows_others(), ",allow_other"),
    ];
    words
        .into_iter()
        .filter(|(set, _)| *set)
        .for_each(|(_, word)| list.push_str(word));
    list.push_str(&max_read(options));
    list.into()
}

fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        flags,
    )?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    descriptor.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn wait(child: Child) -> io::Result<String> {
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Unmounts `target`, a path of the mount through its opened parent; its absolute path is `path`.
///
/// # Errors
/// [`Error::Busy`] if the mount is in use and `lazy` is [`Lazy::No`].
pub(crate) fn detach(target: &Path, path: &Path, lazy: Lazy) -> Result<()> {
    let flags = match lazy {
        Lazy::Yes => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        Lazy::No => UnmountFlags::NOFOLLOW,
    };
    match rustix::mount::unmount(target, flags) {
        Err(rustix::io::Errno::BUSY) => Err(Error::Busy { path: path.into() }),
        Err(rustix::io::Errno::PERM) => detach_by_helper(path, lazy),
        done => done
            .map_err(io::Error::from)
            .map_err(Error::system("unmount", path)),
    }
}

/// Aborts the connection of the topmost mount on `target`, as far as this user may. A busy mount
/// stays mounted.
pub(crate) fn abort(target: &Path) {
    let _ = rustix::mount::unmount(target, UnmountFlags::NOFOLLOW | UnmountFlags::FORCE);
}

/// The file of a connection that aborts it. The kernel gives the number of a connection that has
/// ended to another one; an open file stays with the one that it was opened for.
pub(crate) struct Connection(File);

impl Connection {
    /// Opens the file of a connection that is in use; `None` without `fusectl`.
    pub(crate) fn open(number: u64) -> Option<Self> {
        let path = format!("{CONNECTIONS}/{number}/abort");
        File::options().write(true).open(path).ok().map(Self)
    }

    /// Aborts the connection; does nothing after its end. Returns whether the kernel was told.
    pub(crate) fn abort(&self) -> bool {
        (&self.0).write_all(b"1").is_ok()
    }
}

fn detach_by_helper(path: &Path, lazy: Lazy) -> Result<()> {
    let flags: &[&str] = match lazy {
        Lazy::Yes => &["-u", "-z"],
        Lazy::No => &["-u"],
    };
    let output = Command::new(FUSERMOUNT)
        .args(flags)
        .args([OsStr::new("--"), path.as_os_str()])
        .output()
        .map_err(|error| not_run(error, path, Error::system("unmount with fusermount3", path)))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.contains("busy") {
        Err(Error::Busy { path: path.into() })
    } else {
        Err(Error::Fusermount { said })
    }
}
