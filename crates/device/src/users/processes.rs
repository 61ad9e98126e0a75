//! Processes that have a file or block device locked or open, where `/proc` shows them.
//!
//! References: proc(5), `/proc/locks`, `/proc/PID/fd`, `/proc/PID/fdinfo`.

use super::answers::answers;
use super::storage::{DeviceNr, Storage};
use super::{User, sysfs};
use std::path::Path;

/// Bits of the access mode in the flags of an open file.
const ACCESS_MODE: u32 = 0o3;

pub(super) fn all() -> impl Iterator<Item = u32> {
    let entries = sysfs::entries(Path::new("/proc")).into_iter();
    entries.filter_map(|path| path.file_name()?.to_str()?.parse().ok())
}

/// The locks to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// Exclusive ones, of writers.
    Exclusive,
    Any,
}

/// The process with a `flock` on it. On a block device the lock is on the node `path`.
pub(super) fn lock_holder(storage: &Storage, path: &Path, lock: Lock) -> Option<User> {
    let locked = match storage {
        Storage::File { .. } => *storage,
        Storage::Block(_) => Storage::node_at(path)?,
    };
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    let holder = table.lines().find_map(|line| holder(line, locked, lock))?;
    Some(process(holder))
}

/// A line: number, `FLOCK`, `ADVISORY`, `WRITE` or `READ`, process id, device and inode, range.
/// Lines of waiters have `->` after the number.
fn holder(line: &str, locked: Storage, lock: Lock) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    let kind = [fields.next()?, fields.next()?, fields.next()?];
    if kind[0] != "FLOCK" || (lock == Lock::Exclusive && kind[2] != "WRITE") {
        return None;
    }
    let pid = fields.next()?.parse().ok()?;
    let mut place = fields.next()?.split(':');
    let device = DeviceNr {
        major: u32::from_str_radix(place.next()?, 16).ok()?,
        minor: u32::from_str_radix(place.next()?, 16).ok()?,
    };
    let inode = place.next()?.parse().ok()?;
    (Storage::File { device, inode } == locked).then_some(pid)
}

/// A process that has it open, preferably a writer.
pub(super) fn opener(storage: &Storage) -> Option<User> {
    let (own, wanted) = (std::process::id(), *storage);
    let others = all().filter(|pid| *pid != own).collect();
    let mut reader = None;
    for (pid, access) in answers(others, move |pid| Some((pid, access(pid, &wanted)?))) {
        match access {
            Access::Writes => return Some(process(pid)),
            Access::Reads => reader = reader.or(Some(pid)),
        }
    }
    reader.map(process)
}

/// Access mode of an open descriptor.
enum Access {
    Writes,
    Reads,
}

/// `None` when the process does not have it open.
fn access(pid: u32, storage: &Storage) -> Option<Access> {
    let open = sysfs::entries(Path::new(&format!("/proc/{pid}/fd")));
    let mut found = open.iter().filter(|fd| Storage::at(fd) == Some(*storage));
    let first = found.next()?;
    if std::iter::once(first)
        .chain(found)
        .any(|fd| writes(pid, fd))
    {
        Some(Access::Writes)
    } else {
        Some(Access::Reads)
    }
}

fn writes(pid: u32, fd: &Path) -> bool {
    let name = fd.file_name().unwrap_or_default().to_string_lossy();
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{name}")).unwrap_or_default();
    let flags = info
        .lines()
        .find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS_MODE != 0)
}

fn process(pid: u32) -> User {
    let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    User::Process {
        pid,
        program: program.trim_end().to_owned(),
        device: None,
    }
}
