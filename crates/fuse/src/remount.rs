//! Freezing, thawing, shutting down and remounting a running mount from outside its server.
//!
//! The kernel tells a FUSE server nothing of `MS_REMOUNT`, so both are asked: the kernel, which
//! knows who has files open for writing and holds data that are not written yet, and the server.
//! To read-only the kernel goes first, to read-write the server does.

use crate::control::{Ask, Client};
use crate::error::{Error, Result};
use crate::umount;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::fs::File;
use std::path::Path;
use uext4::Flush;

/// Brings everything that was written under `dir` to the image and keeps the image still: changes
/// wait until [`thaw`], reads go on.
///
/// # Errors
/// [`Error::Refused`] says why not; [`Error::NotMounted`].
pub fn freeze(dir: &Path) -> Result<()> {
    let client = Client::connect(dir)?;
    // Frozen, it would wait for the thaw.
    check_not_frozen(&client, dir)?;
    sync(dir)?;
    client.ask(&Ask::Freeze {}).map(drop)
}

/// Lets changes go on, also those of a mount that was detached by `umount2(2)`: who uses it waits
/// for them, and it is in no table any more.
///
/// # Errors
/// As [`freeze`].
pub fn thaw(dir: &Path) -> Result<()> {
    let client = match Client::connect(dir) {
        Err(Error::NotMounted { path }) => Client::connect_detached(path),
        connected => connected,
    };
    client?.ask(&Ask::Thaw {}).map(drop)
}

/// Shuts a mount down: whoever uses it hears an I/O error, until it is unmounted. With
/// [`Flush::Everything`] everything that was written is in the image first.
///
/// # Errors
/// As [`freeze`].
pub fn shutdown(dir: &Path, flush: Flush) -> Result<()> {
    let client = Client::connect(dir)?;
    if flush == Flush::Everything {
        if is_frozen(&client)? {
            // What the kernel holds is to be written, too. It may be thawed by now.
            let _ = client.ask(&Ask::Thaw {});
        }
        sync(dir)?;
    }
    client.ask(&Ask::Shutdown { flush }).map(drop)
}

/// Changes the options of a mount, as `mount -o remount,LIST` does.
///
/// # Errors
/// As [`freeze`]; [`Error::Busy`] when it is to be read-only and files are open for writing.
pub fn remount(dir: &Path, list: &str) -> Result<()> {
    let client = Client::connect(dir)?;
    if access(list) == Some(Access::ReadWrite) {
        refuse_beside_mount(dir)?;
    }
    let options = list.to_owned();
    let ask = || client.ask(&Ask::Remount { options }).map(drop);
    match access(list) {
        Some(Access::ReadOnly) => {
            check_not_frozen(&client, dir)?;
            sync(dir)?;
            let before = flags_now(dir)?;
            let told = tell_kernel(dir, before, list)?;
            ask().inspect_err(|_| {
                if told == Told::Yes {
                    // As it was; the reason is what the caller wants to know.
                    let _ = tell_kernel(dir, before, "");
                }
            })
        }
        _ => {
            ask()?;
            tell_kernel(dir, flags_now(dir)?, list).map(drop)
        }
    }
}

/// Refuses to make a mount writable while the image is mounted by another name. A server that is
/// locked in cannot look for loop devices itself; locks and claims it meets.
fn refuse_beside_mount(dir: &Path) -> Result<()> {
    let now = rustix::fs::statvfs(dir).map_err(|errno| Error::system("look at", dir)(errno.into()));
    if !now?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let source = umount::source(dir)?;
    match source.and_then(|path| Some((uext4::device::writer_of(&path)?, path))) {
        Some((user @ uext4::device::User::Mount { .. }, path)) => {
            let busy = uext4::device::Error::Busy { path, user };
            Err(Error::FileSystem(busy.into()))
        }
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadOnly,
    ReadWrite,
}

/// What the list says last.
fn access(list: &str) -> Option<Access> {
    list.split(',').rev().find_map(|word| match word {
        "ro" => Some(Access::ReadOnly),
        "rw" => Some(Access::ReadWrite),
        _ => None,
    })
}

/// The kernel's cache goes to the server.
fn sync(dir: &Path) -> Result<()> {
    let file = File::open(dir).map_err(Error::system("open", dir))?;
    let synced = rustix::fs::syncfs(&file).map_err(std::io::Error::from);
    synced.map_err(Error::system("sync", dir))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Yes,
    /// Only the superuser can.
    No,
}

fn is_frozen(client: &Client) -> Result<bool> {
    Ok(client.ask(&Ask::Server {})?["frozen"] == true)
}

fn check_not_frozen(client: &Client, dir: &Path) -> Result<()> {
    match is_frozen(client)? {
        true => Err(Error::Frozen { path: dir.into() }),
        false => Ok(()),
    }
}

/// The flags of the mount.
fn flags_now(dir: &Path) -> Result<MountFlags> {
    let now = rustix::fs::statvfs(dir).map_err(std::io::Error::from);
    Ok(flags_of(now.map_err(Error::system("look at", dir))?.f_flag))
}

/// Sets the flags of the mount: what it had, and what the list changes.
fn tell_kernel(dir: &Path, before: MountFlags, list: &str) -> Result<Told> {
    let flags = list.split(',').fold(before, change_flag);
    match mount_remount(dir, flags, c"") {
        Ok(()) => Ok(Told::Yes),
        Err(Errno::PERM) => Ok(Told::No),
        Err(Errno::BUSY) => Err(Error::Busy { path: dir.into() }),
        Err(errno) => Err(Error::system("remount", dir)(errno.into())),
    }
}

/// `ST_NOSYMFOLLOW` of `statfs(2)`.
const NO_SYMLINKS: StatVfsMountFlags = StatVfsMountFlags::from_bits_retain(0x2000);

fn flags_of(now: StatVfsMountFlags) -> MountFlags {
    let known = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
        (NO_SYMLINKS, MountFlags::NOSYMFOLLOW),
        (StatVfsMountFlags::SYNCHRONOUS, MountFlags::SYNCHRONOUS),
    ];
    let set = known.iter().filter(|(has, _)| now.contains(*has));
    set.fold(MountFlags::empty(), |flags, (_, flag)| flags | *flag)
}

/// A remount that names no flag of access times keeps those that the mount has, so one that clears
/// `noatime` names what holds instead.
fn change_flag(flags: MountFlags, word: &str) -> MountFlags {
    let atime = MountFlags::NOATIME | MountFlags::RELATIME | MountFlags::STRICTATIME;
    let (flag, on) = match word {
        "ro" => (MountFlags::RDONLY, true),
        "rw" => (MountFlags::RDONLY, false),
        "nosuid" => (MountFlags::NOSUID, true),
        "suid" => (MountFlags::NOSUID, false),
        "nodev" => (MountFlags::NODEV, true),
        "dev" => (MountFlags::NODEV, false),
        "noexec" => (MountFlags::NOEXEC, true),
        "exec" => (MountFlags::NOEXEC, false),
        "noatime" => return (flags - atime) | MountFlags::NOATIME,
        "atime" | "relatime" => return (flags - atime) | MountFlags::RELATIME,
        "strictatime" => return (flags - atime) | MountFlags::STRICTATIME,
        "nodiratime" => (MountFlags::NODIRATIME, true),
        "diratime" => (MountFlags::NODIRATIME, false),
        "sync" => (MountFlags::SYNCHRONOUS, true),
        "async" => (MountFlags::SYNCHRONOUS, false),
        _ => return flags,
    };
    if on { flags | flag } else { flags - flag }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_says_how_it_is_used() {
        assert_eq!(access("commit=5"), None);
        assert_eq!(access("ro,noatime"), Some(Access::ReadOnly));
        assert_eq!(access("ro,rw"), Some(Access::ReadWrite));
    }

    #[test]
    fn flags_change_by_their_words() {
        let had = MountFlags::NOSUID | MountFlags::RDONLY | MountFlags::NOATIME;
        let now = "rw,noexec,commit=5,relatime"
            .split(',')
            .fold(had, change_flag);
        let wanted = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RELATIME;
        assert_eq!(now, wanted);
    }
}
