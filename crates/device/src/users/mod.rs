//! Detects and excludes other users of the storage of a device that is opened for writing.
//!
//! The same bytes have several names: an image file and the loop devices over it, a disk and its
//! partitions, a block device and the device-mapper targets on it. `stack` lists the other names of
//! a file; [`Claims`] takes what Linux offers against other writers:
//! - each loop device over the storage is opened with `O_EXCL`: Linux refuses this while the
//!   device, or a partition of it, is mounted or claimed, and refuses mounts of it later;
//! - the file below a loop device gets a shared `flock`, which conflicts with the exclusive one of
//!   a writer of that file, but not with the servers of two partitions of the loop device.
//!
//! Files are compared by device and inode number, which covers other names, mount namespaces and
//! deleted files. Without permission to open a loop device, the path in `/sys` is compared and
//! mounts are looked up instead of claims.
//!
//! Not here: users on other hosts (MMP), programs that write a file and take no lock.
//! References: open(2) of `O_EXCL` on block devices, flock(2), proc(5), loop(4).

mod answers;
mod loops;
mod mounts;
mod processes;
mod stack;
mod storage;
mod sysfs;
#[cfg(test)]
mod tests;

use crate::Error;
pub(crate) use loops::LoopInfo;
use processes::Lock;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use stack::{Alias, Relation};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use storage::Storage;

/// A user of the storage of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A process that has it, or `device` over or below it, open.
    Process {
        /// The process id, as `/proc` shows it here.
        pid: u32,
        /// The name of its program.
        program: String,
        /// The block device, unless it is the storage itself.
        device: Option<PathBuf>,
    },
    /// A file system on it is mounted, here or in another mount namespace.
    Mount {
        /// The block device that is mounted.
        device: PathBuf,
        /// Where, as its mount namespace calls it.
        point: PathBuf,
        /// A process of that mount namespace, if it is not ours.
        namespace: Option<u32>,
    },
    /// Swap space of this host.
    Swap {
        /// The block device used as swap.
        device: PathBuf,
    },
    /// Another block device is made of it: device mapper, RAID.
    Holder {
        /// The block device that is part of the other one.
        device: PathBuf,
        /// The name of the other one.
        holder: String,
    },
    /// A mount on another host, which the MMP block names.
    Host {
        /// Name of the host (`mmp_nodename`).
        node: String,
        /// The name of the device there.
        device: String,
    },
    /// A checker on another host, as the MMP block says.
    Checker {
        /// Name of the host (`mmp_nodename`).
        node: String,
    },
    /// A program that `/proc` does not show has claimed or locked it.
    Unknown {
        /// The block device, unless it is the storage itself.
        device: Option<PathBuf>,
    },
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process {
                pid,
                program,
                device: None,
            } => write!(f, "process {pid} ({program}) has it open for writing"),
            Self::Process {
                pid,
                program,
                device: Some(device),
            } => {
                let device = device.display();
                write!(f, "process {pid} ({program}) uses it through {device}")
            }
            Self::Mount {
                device,
                point,
                namespace,
            } => {
                write!(f, "{} is mounted on {}", device.display(), point.display())?;
                match namespace {
                    Some(pid) => write!(f, " in the mount namespace of process {pid}"),
                    None => Ok(()),
                }
            }
            Self::Swap { device } => write!(f, "{} is swap space", device.display()),
            Self::Holder { device, holder } => {
                write!(f, "{} is part of {holder}", device.display())
            }
            Self::Host { node, device } => {
                write!(f, "host {node:?} has it mounted as {device:?} (MMP)")
            }
            Self::Checker { node } => write!(f, "e2fsck checks it on host {node:?} (MMP)"),
            Self::Unknown { device: None } => {
                write!(
                    f,
                    "a program that /proc does not show has it open for writing"
                )
            }
            Self::Unknown {
                device: Some(device),
            } => {
                let device = device.display();
                write!(f, "a program that /proc does not show has claimed {device}")
            }
        }
    }
}

/// The claims that exclude other users of a device's storage while it is written.
#[derive(Default)]
pub(crate) struct Claims {
    /// Loop devices, opened with `O_EXCL`.
    exclusive: Vec<File>,
    /// The storage below, with a shared lock.
    shared: Vec<File>,
}

impl Claims {
    /// Claims the other names of `file`, which the caller has locked and claimed.
    ///
    /// # Errors
    /// [`Error::Busy`] with the user that was found.
    pub(crate) fn take(file: &File, path: &Path) -> Result<Self, Error> {
        let mut claims = Self::default();
        let Ok(start) = Storage::of(file) else {
            return Ok(claims);
        };
        for place in stack::around(start) {
            let user = match place.relation {
                Relation::Above => claims.claim(&place),
                Relation::Below => claims.share(&place),
                Relation::Part => None,
            };
            if let Some(user) = user {
                let path = path.to_owned();
                return Err(Error::Busy { path, user });
            }
        }
        Ok(claims)
    }

    /// Claims a loop device; returns its user if that fails.
    fn claim(&mut self, place: &Alias) -> Option<User> {
        match open(&place.path, OFlags::EXCL) {
            Ok(file) if place.storage.is(&file) => {
                self.exclusive.push(file);
                None
            }
            Err(Errno::BUSY) => Some(describe(&place.storage, &place.path, Names::Device)),
            // No permission, or not in this /dev: known users are looked up instead.
            _ => known_user(&place.storage, &place.path),
        }
    }

    /// Locks the storage below a loop device; returns its user if that fails.
    fn share(&mut self, place: &Alias) -> Option<User> {
        let opened = open(&place.path, OFlags::empty());
        let Some(file) = opened.ok().filter(|file| place.storage.is(file)) else {
            return processes::lock_holder(&place.storage, &place.path, Lock::Exclusive)
                .or_else(|| known_user(&place.storage, &place.path));
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => {
                return Some(describe(&place.storage, &place.path, Names::Device));
            }
            _ => self.shared.push(file),
        }
        match place.storage {
            Storage::Block(_) => known_user(&place.storage, &place.path),
            Storage::File { .. } => None,
        }
    }
}

/// Explicit unlock: the lock ends with the last descriptor, and a process that another thread is
/// starting may hold a copy for a moment.
impl Drop for Claims {
    fn drop(&mut self) {
        for file in &self.shared {
            let _without_locks = rustix::fs::flock(file, FlockOperation::Unlock);
        }
    }
}

/// Whether a message names the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Device,
    /// It leaves the device out.
    Nothing,
}

/// The user of a file or block device that Linux refused to claim or lock.
pub(crate) fn describe(storage: &Storage, path: &Path, names: Names) -> User {
    let device = (names == Names::Device).then(|| path.to_owned());
    known_user(storage, path)
        .or_else(|| processes::lock_holder(storage, path, Lock::Any))
        .or_else(|| processes::opener(storage))
        .map(|user| through(user, &device))
        .unwrap_or(User::Unknown { device })
}

/// The same for a file that is open.
pub(crate) fn describe_file(file: &File, path: &Path) -> User {
    match Storage::of(file) {
        Ok(storage) => describe(&storage, path, Names::Nothing),
        Err(_) => User::Unknown { device: None },
    }
}

/// The user of a block device that cannot be opened.
pub(crate) fn describe_path(path: &Path) -> User {
    match Storage::at(path) {
        Some(storage) => describe(&storage, path, Names::Nothing),
        None => User::Unknown { device: None },
    }
}

/// A mount, swap space or another block device on it, or on a loop device over it.
fn known_user(storage: &Storage, path: &Path) -> Option<User> {
    let start = Alias {
        storage: *storage,
        path: path.to_owned(),
        relation: Relation::Above,
    };
    let over = stack::around(*storage);
    std::iter::once(start)
        .chain(over)
        .filter(|place| place.relation == Relation::Above)
        .find_map(|place| match place.storage {
            Storage::Block(device) => {
                mounts::user_of(device, &place.path, mounts::WantedUsers::Any)
            }
            Storage::File { .. } => None,
        })
}

/// A writer of the storage behind a file or block device, if `/proc` shows one. For readers, whose
/// data may change: it takes no lock and no claim, so it never makes a writer fail. A process that
/// has claimed a device and neither mounted nor locked it is not found.
pub fn writer_of(path: &Path) -> Option<User> {
    let start = Storage::at(path)?;
    let itself = Alias {
        storage: start,
        path: path.to_owned(),
        relation: Relation::Part,
    };
    let places: Vec<Alias> = std::iter::once(itself)
        .chain(stack::around(start))
        .collect();
    let mounted = places.iter().find_map(|place| match place.storage {
        Storage::Block(device) => mounts::user_of(device, &place.path, mounts::WantedUsers::Writer),
        Storage::File { .. } => None,
    });
    mounted.or_else(|| {
        places.iter().find_map(|place| {
            let device = (place.storage != start).then(|| place.path.clone());
            let holder = processes::lock_holder(&place.storage, &place.path, Lock::Exclusive);
            holder.map(|user| through(user, &device))
        })
    })
}

fn through(user: User, through: &Option<PathBuf>) -> User {
    match user {
        User::Process { pid, program, .. } => User::Process {
            pid,
            program,
            device: through.clone(),
        },
        other => other,
    }
}

/// Opens for reading, without waiting for the other end of a pipe.
fn open(path: &Path, more: OFlags) -> Result<File, Errno> {
    let flags = OFlags::NONBLOCK | more;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let opened = options.open(path);
    opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
