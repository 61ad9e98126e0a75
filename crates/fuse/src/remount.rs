//! Client side of freeze, thaw, shutdown and remount of a running mount.
//!
//! The kernel does not forward `MS_REMOUNT` to a FUSE server, so the kernel and the server are both
//! asked. The kernel knows the files open for writing and holds the dirty pages. It goes first on
//! the way to read-only, the server on the way to read-write.
//!
//! Invariant: no connection to the server is held over a sync. A sync lasts as long as the device
//! needs, and the server closes idle connections after a time.

use crate::control::{Ask, Client};
use crate::error::{Error, Result};
use crate::umount;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::fs::File;
use std::path::Path;
use uext4::Flush;

/// Flushes the file system under `dir` to the image and freezes it: changes block until [`thaw`],
/// reads continue.
///
/// # Errors
/// [`Error::Refused`] with the reason; [`Error::NotMounted`].
pub fn freeze(dir: &Path) -> Result<()> {
    // On a frozen mount the sync would wait for the thaw.
    check_not_frozen(dir)?;
    sync(dir)?;
    ask(dir, &Ask::Freeze {}).map(drop)
}

/// Thaws a frozen mount, even one detached by `umount2(2)`: it is in no mount table any more, but
/// its users still wait for the thaw.
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

/// Shuts a mount down: all operations fail with an I/O error until the unmount. With
/// [`Flush::Everything`] all written data reach the image first.
///
/// # Errors
/// As [`freeze`].
pub fn shutdown(dir: &Path, flush: Flush) -> Result<()> {
    if flush == Flush::Everything {
        if is_frozen(dir)? {
            // Writeback needs a thawed mount. An error means that it is thawed already.
            let _ = ask(dir, &Ask::Thaw {});
        }
        sync(dir)?;
    }
    ask(dir, &Ask::Shutdown { flush }).map(drop)
}

/// Changes the options of a mount, as `mount -o remount,LIST` does.
///
/// # Errors
/// As [`freeze`]; [`Error::Busy`] on the way to read-only with files open for writing.
pub fn remount(dir: &Path, list: &str) -> Result<()> {
    if access(list) == Some(Access::ReadWrite) {
        refuse_beside_mount(dir)?;
    }
    let options = list.to_owned();
    let ask = || ask(dir, &Ask::Remount { options }).map(drop);
    match access(list) {
        Some(Access::ReadOnly) => {
            check_not_frozen(dir)?;
            sync(dir)?;
            let before = flags_now(dir)?;
            let told = set_kernel_flags(dir, before, list)?;
            ask().inspect_err(|_| {
                if told == Told::Yes {
                    // Restores the old flags. The caller needs the first error.
                    let _ = set_kernel_flags(dir, before, "");
                }
            })
        }
        _ => {
            ask()?;
            set_kernel_flags(dir, flags_now(dir)?, list).map(drop)
        }
    }
}

/// Refuses read-write while the image is mounted under another name. A sandboxed server cannot look
/// for loop devices itself, but it does see locks and claims.
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

/// The last access option of the list.
fn access(list: &str) -> Option<Access> {
    list.split(',').rev().find_map(|word| match word {
        "ro" => Some(Access::ReadOnly),
        "rw" => Some(Access::ReadWrite),
        _ => None,
    })
}

/// Writes the kernel's dirty pages back to the server.
fn sync(dir: &Path) -> Result<()> {
    let file = File::open(dir).map_err(Error::system("open", dir))?;
    let synced = rustix::fs::syncfs(&file).map_err(std::io::Error::from);
    synced.map_err(Error::system("sync", dir))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Yes,
    /// Only the superuser may remount.
    No,
}

/// Asks the server of the mount over a new connection.
fn ask(dir: &Path, ask: &Ask) -> Result<serde_json::Value> {
    Client::connect(dir)?.ask(ask)
}

fn is_frozen(dir: &Path) -> Result<bool> {
    Ok(ask(dir, &Ask::Server {})?["frozen"] == true)
}

fn check_not_frozen(dir: &Path) -> Result<()> {
    if is_frozen(dir)? {
        Err(Error::Frozen { path: dir.into() })
    } else {
        Ok(())
    }
}

/// Current flags of the mount.
fn flags_now(dir: &Path) -> Result<MountFlags> {
    let now = rustix::fs::statvfs(dir).map_err(std::io::Error::from);
    Ok(flags_of(now.map_err(Error::system("look at", dir))?.f_flag))
}

/// Sets the flags of the mount: `before`, changed by the list.
fn set_kernel_flags(dir: &Path, before: MountFlags, list: &str) -> Result<Told> {
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

/// A remount without an access-time flag keeps those of the mount, so a word that clears `noatime`
/// sets the flag that replaces it.
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
