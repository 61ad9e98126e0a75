//! Errors of mounting and unmounting.

use crate::control::Refusal;
use std::io;
use std::path::PathBuf;

/// Result of mounting and unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure to mount or unmount.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed; see `source`.
    #[error("{doing} {}: {source}", path.display())]
    System {
        /// The attempted operation, as the start of the message.
        doing: &'static str,
        /// The file or directory that it was about.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file system could not be opened, or not be closed cleanly.
    #[error(transparent)]
    FileSystem(#[from] uext4::Error),
    /// A server runs for this mount point already.
    #[error("{} is mounted already, by process {pid}", path.display())]
    Mounted {
        /// Path of the mount point.
        path: PathBuf,
        /// Process id of the server.
        pid: u32,
    },
    /// No mount of uext4 is there.
    #[error("{} is not a mount point of uext4", path.display())]
    NotMounted {
        /// Path that is no mount point of uext4.
        path: PathBuf,
    },
    /// The mount cannot be reached by its path.
    #[error("{} is covered by another mount, which has to go first", path.display())]
    Covered {
        /// Path of the mount point.
        path: PathBuf,
    },
    /// The directory to mount on was moved, or something was mounted on it, during the mount.
    #[error(
        "{} was moved or mounted on while the image was opened, so it is not mounted; make sure \
         that no other user can rename a directory of this path, and try again",
        path.display()
    )]
    Moved {
        /// Path of the mount point.
        path: PathBuf,
    },
    /// `/proc` is missing, which names the opened directory.
    #[error(
        "{}: a mount needs /proc, which cannot be read here ({source}); \
         mount -t proc proc /proc",
        path.display()
    )]
    NoProc {
        /// Path of the mount point.
        path: PathBuf,
        /// Why `/proc` cannot be read.
        source: io::Error,
    },
    /// Files of the mount are in use.
    #[error("{} is in use; `fuser -vm {}` shows its users", path.display(), path.display())]
    Busy {
        /// Path of the mount point.
        path: PathBuf,
    },
    /// The mount is frozen, and the operation would wait for the thaw.
    #[error("{} is frozen; `uext4 thaw {}` lets changes go on", path.display(), path.display())]
    Frozen {
        /// Path of the mount point.
        path: PathBuf,
    },
    /// The server did not close the image in time.
    #[error("{} is unmounted, but process {pid} is still writing to the image", path.display())]
    StillOpen {
        /// Path of the mount point.
        path: PathBuf,
        /// Process id of the server.
        pid: u32,
    },
    /// The claim of another user's server is not given up, and names no process of that user.
    #[error(
        "{} is unmounted, but the claim of its server is still locked; the claim is user {uid}'s \
         and names no process of that user",
        path.display()
    )]
    StillLocked {
        /// Path of the mount point.
        path: PathBuf,
        /// Id of the user that owns the claim.
        uid: u32,
    },
    /// The mount is taken off here, and another mount namespace has it.
    #[error(
        "{} is unmounted here, but process {pid} ({name}) has the mount in another mount \
         namespace; the image is closed when that ends or unmounts it",
        path.display()
    )]
    Kept {
        /// Path of the mount point.
        path: PathBuf,
        /// A process in the other namespace.
        pid: u32,
        /// Name of that process.
        name: String,
    },
    /// No place for the claim and the control socket can be written.
    #[error(
        "there is no private directory for the mount on {}: {source}; set XDG_RUNTIME_DIR to a \
         directory that only this user may enter and write",
        path.display()
    )]
    NoRuntimeDir {
        /// Path of the mount point.
        path: PathBuf,
        /// Why the first candidate cannot be used.
        source: io::Error,
    },
    /// The server ended after a request was sent to it. Whether the request was served is unknown.
    #[error("{}: the server ended before it answered: it was unmounted or killed", path.display())]
    ServerEnded {
        /// Path of the control socket.
        path: PathBuf,
    },
    /// The server of a running mount refused.
    #[error("{0}")]
    Refused(Refusal),
    /// `/dev/fuse` cannot be opened, or the kernel has no FUSE.
    #[error("{}", no_fuse(source))]
    NoFuse {
        /// Why the device cannot be opened.
        source: io::Error,
    },
    /// This user may not mount, and the setuid helper is missing.
    #[error(
        "{} cannot be mounted or unmounted by this user: that takes the superuser or fusermount3, \
         which is not in PATH; it comes with the package fuse3",
        path.display()
    )]
    NoFusermount {
        /// Path of the mount point.
        path: PathBuf,
    },
    /// `fusermount3` refused to mount or unmount.
    #[error("fusermount3: {}", refusal(said))]
    Fusermount {
        /// What it wrote to standard error.
        said: String,
    },
    /// The server process could not mount or close the image.
    #[error("{said}")]
    Server {
        /// Message of the server process.
        said: String,
        /// [`Explained::status`] of a mount, 1 of an unmount.
        status: u8,
    },
    /// The server process ended before the mount was ready.
    #[error("the server ended before the mount was ready")]
    ServerDied,
    /// io_uring was required, but the kernel does not offer it.
    #[error(
        "the kernel does not offer FUSE over io_uring: it needs Linux 6.14 or newer and Y in \
         /sys/module/fuse/parameters/enable_uring"
    )]
    NoRings,
    /// Idmapped mounts were asked for, but the kernel does not offer them.
    #[error("the kernel does not offer idmapped mounts of FUSE: they need Linux 6.12 or newer")]
    NoIdmap,
    /// `/proc` does not show the callers of an idmapped mount.
    #[error(
        "idmap reads the rights of callers in /proc, which belongs to another pid namespace here: \
         mount a proc there first"
    )]
    ForeignProc,
    /// The server and the kernel would both map owners.
    #[error("idmap does not go together with uid=, gid= and map=: leave one of them out")]
    MappedTwice,
    /// The kernel is too old for this protocol, or speaks another.
    #[error("the kernel's FUSE is too old (Linux 4.20 or newer is needed)")]
    Protocol,
}

/// Message of a server process to its parent when it cannot mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Nonzero number of the kind of failure.
    pub status: u8,
    /// The cause as one sentence, for the user.
    pub text: String,
}

impl From<&Error> for Explained {
    fn from(error: &Error) -> Self {
        Self {
            status: 1,
            text: error.to_string(),
        }
    }
}

/// Message of `fusermount3` without its name, with a remedy.
fn refusal(said: &str) -> String {
    let said = said.strip_prefix("fusermount3: ").unwrap_or(said);
    if said.contains("/dev/fuse: Permission denied") {
        format!("{said}; the superuser lets all users open it: chmod 666 /dev/fuse")
    } else {
        said.to_owned()
    }
}

/// The missing part and a remedy.
fn no_fuse(source: &io::Error) -> String {
    const LOAD: &str = "`modprobe fuse` loads it";
    match source.raw_os_error() {
        Some(libc::ENOENT) => format!(
            "there is no /dev/fuse: if the kernel has no FUSE, {LOAD}; a container must be given \
             the device (--device /dev/fuse)"
        ),
        Some(libc::ENODEV | libc::ENXIO) => format!("the kernel has no FUSE; {LOAD}"),
        _ => format!("/dev/fuse cannot be opened: {source}"),
    }
}

impl Error {
    pub(crate) fn system(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Error::System {
            doing,
            path,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_program_once_and_says_what_helps() {
        let said = "fusermount3: failed to open /dev/fuse: Permission denied".to_owned();
        let text = Error::Fusermount { said }.to_string();
        assert_eq!(text.matches("fusermount3").count(), 1, "{text}");
        assert!(text.contains("chmod"), "{text}");
    }
}
