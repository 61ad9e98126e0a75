//! Runtime directories of servers: one per mount, with its claim and control socket.
//!
//! Layout: `BASE/NAME/`, where NAME is the escaped path of the mount point. BASE is the first
//! candidate that can be made private: `/run/uext4` for the superuser, then `uext4` in
//! `$XDG_RUNTIME_DIR` or `/run/user/UID`, then `uext4-UID` in the directory for temporary files and
//! in `/dev/shm`. The later ones serve user namespaces, a read-only root and a missing `/run`. UID
//! is the one outside of the user namespace: the superusers of all namespaces are 0 inside.
//!
//! Invariants: a base and its contents belong to one user, and only that user can enter it. A base
//! in a directory where another user could replace it is refused. Clients apply the same test
//! before they open anything, so a directory or FIFO of another user is never used.

use crate::owners::OVERFLOW;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Name of the control socket in the directory of a mount.
pub(crate) const SOCKET_NAME: &str = "control";
/// Permissions of the directories.
const MODE: u32 = 0o700;
/// Maximum length of a directory name, in bytes.
const NAME_BYTES_MAX: usize = 200;
/// Most entries of a base that are looked at: another user makes as many as they like.
const ENTRIES_MAX: usize = 4096;
/// Attempts to make a directory that another process removes.
const MAKE_TRIES: u32 = 100;
/// Beginning of the name of a base in a directory for temporary files.
const TEMPORARY: &str = "uext4-";
/// Mode bit of directories whose entries only their owners replace.
const STICKY: u32 = 0o1000;

/// Makes the directory of a server of this process for `mount_point`, unless it exists.
///
/// # Errors
/// The error of the first candidate, if none can be used.
pub(crate) fn make(mount_point: &Path) -> io::Result<PathBuf> {
    let name = file_name(mount_point, NAME_BYTES_MAX);
    let dirs = bases(own_uid()).into_iter().map(|base| base.join(&name));
    first_usable(dirs, |dir| {
        let base = dir.parent().ok_or(io::ErrorKind::NotFound)?;
        let mut made = Ok(());
        for _ in 0..MAKE_TRIES {
            // A base that was made before may have become read-only.
            made = make_private(base).and_then(|()| make_private(dir));
            match &made {
                // The end of the previous mount removed the base.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        made
    })
}

/// Removes the directory of a mount, and its base in a directory for temporary files, as far as
/// they are empty.
pub(crate) fn remove(dir: &Path) {
    if fs::remove_dir(dir).is_err() {
        return;
    }
    let temporary = dir.parent().filter(|base| {
        let name = base.file_name().unwrap_or_default();
        name.as_bytes().starts_with(TEMPORARY.as_bytes())
    });
    if let Some(base) = temporary {
        let _ = fs::remove_dir(base);
    }
}

fn first_usable(
    candidates: impl IntoIterator<Item = PathBuf>,
    make: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let mut first = None;
    for dir in candidates {
        match make(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Makes the base of this user, unless it exists.
///
/// # Errors
/// The error of the first candidate, if none can be used.
pub(crate) fn make_base() -> io::Result<PathBuf> {
    first_usable(bases(own_uid()), make_private)
}

/// Directory of a current or former server of user `uid` for `mount_point`.
pub(crate) fn find(mount_point: &Path, uid: u32) -> Option<PathBuf> {
    let name = file_name(mount_point, NAME_BYTES_MAX);
    let usable = bases(uid)
        .into_iter()
        .filter(|base| is_private(base, uid).is_ok());
    let mut dirs = usable.map(|base| base.join(&name));
    dirs.find(|dir| is_private(dir, uid).is_ok())
}

/// Directories of all current and former servers of user `uid`.
pub(crate) fn all(uid: u32) -> Vec<PathBuf> {
    let bases = bases(uid).into_iter();
    let usable = bases.filter(|base| is_private(base, uid).is_ok());
    let listed = usable.filter_map(|base| fs::read_dir(base).ok());
    let entries = listed.flat_map(|entries| entries.take(ENTRIES_MAX));
    let dirs = entries.filter_map(|entry| Some(entry.ok()?.path()));
    dirs.filter(|dir| is_private(dir, uid).is_ok()).collect()
}

/// A descriptor of a directory of [`find`] or [`all`], which no other user can replace meanwhile.
pub(crate) fn open(dir: &Path, uid: u32) -> Option<OwnedFd> {
    open_private(dir, uid).ok()
}

/// Opens a directory that only `uid` can enter. A link in its place is refused.
fn open_private(dir: &Path, uid: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(dir, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&opened)?;
    if found.st_uid == uid && found.st_mode & 0o077 == 0 {
        Ok(opened)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Number of a user of this user namespace in the one around it.
fn outer_uid(uid: u32) -> u32 {
    uid_map()
        .lines()
        .find_map(|line| outer_in(line, uid))
        .unwrap_or(uid)
}

/// By one line of a map: first number inside, first number outside, count.
fn outer_in(line: &str, uid: u32) -> Option<u32> {
    let mut numbers = line.split_whitespace().map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    let (inside, outside, count) = (next()?, next()?, next()?);
    let at = uid.checked_sub(inside).filter(|at| *at < count)?;
    outside.checked_add(at)
}

/// Candidate bases of a user, best first.
fn bases(uid: u32) -> Vec<PathBuf> {
    let is_own = own_uid() == uid;
    let outer = outer_uid(uid);
    let set = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let set = set.filter(|dir| is_own && dir.is_absolute());
    let user = PathBuf::from(format!("/run/user/{outer}"));
    let run = (uid == 0).then(|| PathBuf::from("/run"));
    let named = run.into_iter().chain(set).chain([user]);
    let temporary = [std::env::temp_dir(), "/tmp".into(), "/dev/shm".into()];
    let temporary = temporary
        .into_iter()
        .map(|dir| dir.join(format!("{TEMPORARY}{outer}")));
    named
        .map(|dir| dir.join("uext4"))
        .chain(temporary)
        .collect()
}

/// Makes `dir`, or takes the one that is there. The keeper of the previous mount may remove an
/// existing one at any time, so it is made again then.
fn make_private(dir: &Path) -> io::Result<()> {
    for _ in 0..MAKE_TRIES {
        match DirBuilder::new().mode(MODE).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match close_to_others(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Takes the rights of other users on a directory of this user away.
fn close_to_others(dir: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(dir)?;
    if found.is_dir() && found.uid() == own_uid() && found.mode() & 0o077 != 0 {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(dir, flags, Mode::empty())?;
        rustix::fs::fchmod(opened, Mode::from_raw_mode(MODE))?;
    }
    is_private(dir, own_uid())
}

/// Checks that only `uid` can enter `dir` and that no other user can replace it.
fn is_private(dir: &Path, uid: u32) -> io::Result<()> {
    let refused = || io::ErrorKind::PermissionDenied.into();
    // Links are not followed, since their target may change.
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o077 != 0 {
        return Err(refused());
    }
    let above = fs::metadata(dir.parent().ok_or_else(refused)?)?;
    let is_sticky = above.mode() & STICKY != 0;
    let others_replace = above.mode() & 0o022 != 0 && !is_sticky;
    let is_shared = is_sticky && above.uid() == OVERFLOW && !is_initial(&uid_map());
    if others_replace || !(is_trusted(above.uid(), uid) || is_shared) {
        Err(refused())
    } else {
        Ok(())
    }
}

/// Whether directories of `owner` may hold those of `uid`: the owner can rename what is in them,
/// even if they are sticky.
fn is_trusted(owner: u32, uid: u32) -> bool {
    owner == 0 || owner == uid
}

/// Whether all users are mapped to themselves. In another user namespace the superuser around it,
/// the owner of `/tmp`, is shown as [`OVERFLOW`].
fn is_initial(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn uid_map() -> String {
    fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

/// The path as a file name of at most `bytes_max` bytes; long ones end in a hash.
fn file_name(mount_point: &Path, bytes_max: usize) -> String {
    let mut name = String::new();
    for &byte in mount_point.as_os_str().as_bytes() {
        match byte {
            b'/' => name.push('-'),
            b'.' | b'_' => name.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            byte => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.len() > bytes_max {
        let hash = fnv(mount_point.as_os_str().as_bytes());
        name.truncate(bytes_max - 17);
        name.push_str(&format!("-{hash:016x}"));
    }
    name
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn refusal(dir: &Path) -> io::ErrorKind {
        make_private(dir).expect_err("it is refused").kind()
    }

    #[test]
    fn names_are_different_and_short() {
        let long = |end: char| format!("/{}{end}", "x".repeat(300));
        let names = ["/mnt/a b", "/mnt/a-b", "/mnt/a/b", &long('1'), &long('2')];
        let escaped: Vec<String> = names
            .iter()
            .map(|name| file_name(Path::new(name), 60))
            .collect();
        for (i, name) in escaped.iter().enumerate() {
            assert!(name.len() <= 60, "{name}");
            assert!(!escaped[..i].contains(name), "{name}");
        }
    }

    #[test]
    fn users_of_namespaces_have_their_numbers_outside() {
        assert_eq!(outer_in("         0       1000          1", 0), Some(1000));
        assert_eq!(outer_in("0 1000 1", 1), None);
        assert_eq!(outer_in("0 0 4294967295", 7), Some(7));
        assert_eq!(outer_in("", 0), None);
    }

    #[test]
    fn only_the_owner_enters_it() {
        let dir = tempfile::tempdir().expect("there is room");
        let (open, link) = (dir.path().join("open"), dir.path().join("link"));
        fs::create_dir(&open).expect("it is fresh");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("it is ours");
        make_private(&open).expect("it is ours");
        let mode = fs::metadata(&open).expect("it is there").mode();
        assert_eq!(mode & 0o777, MODE);
        open_private(&open, own_uid()).expect("it is ours");
        std::os::unix::fs::symlink(&open, &link).expect("it is fresh");
        assert!(open_private(&link, own_uid()).is_err());
        assert!(open_private(&open, own_uid() + 1).is_err());
        assert_eq!(refusal(&link), io::ErrorKind::PermissionDenied);
        let file = dir.path().join("file");
        fs::write(&file, "").expect("it is fresh");
        assert_eq!(refusal(&file), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_directory_that_another_process_removes_is_made_again() {
        let base = tempfile::tempdir().expect("there is room");
        let dir = base.path().join("mount");
        // A removal for each attempt: the next one starts when the remover has taken the last one.
        let (sender, removals) = std::sync::mpsc::sync_channel::<()>(0);
        std::thread::scope(|scope| {
            let dir = &dir;
            scope.spawn(move || removals.iter().for_each(|()| drop(fs::remove_dir(dir))));
            for _ in 0..10_000 {
                sender.send(()).expect("the remover goes on");
                make_private(dir).expect("it is made again");
            }
            drop(sender);
        });
    }

    #[test]
    fn no_other_user_can_replace_it() {
        let dir = tempfile::tempdir().expect("there is room");
        let set = |mode| fs::set_permissions(dir.path(), Permissions::from_mode(mode));
        let base = dir.path().join("base");
        set(0o777).expect("it is ours");
        assert_eq!(refusal(&base), io::ErrorKind::PermissionDenied);
        set(0o1777).expect("it is ours");
        make_private(&base).expect("entries of a sticky directory stay");
    }

    #[test]
    fn a_base_of_another_user_is_refused() {
        if own_uid() != 0 {
            return;
        }
        let dir = tempfile::tempdir().expect("there is room");
        let base = dir.path().join("base");
        fs::create_dir(&base).expect("it is fresh");
        std::os::unix::fs::chown(&base, Some(65_534), None).expect("we may");
        assert_eq!(refusal(&base), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_owner_of_a_sticky_directory_can_replace_it() {
        if own_uid() != 0 {
            return;
        }
        let dir = tempfile::tempdir().expect("there is room");
        let set = |mode| fs::set_permissions(dir.path(), Permissions::from_mode(mode));
        set(0o1777).expect("it is ours");
        for owner in [1000, OVERFLOW] {
            std::os::unix::fs::chown(dir.path(), Some(owner), None).expect("we may");
            let refused = refusal(&dir.path().join("base"));
            assert_eq!(refused, io::ErrorKind::PermissionDenied, "{owner}");
        }
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
    }
}
