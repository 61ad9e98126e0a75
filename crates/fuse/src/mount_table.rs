//! Mounts of uext4 in the mount table, found through a descriptor of the parent directory.
//!
//! A path can be replaced between two system calls by the owner of one of its directories. So a
//! mount is identified by its number, taken through the opened parent directory, and the table
//! (`/proc/self/mountinfo`) describes the mount of that number. No request is sent to its server.
//!
//! Invariant: [`Spot::detach`] and [`Spot::abort`] act only on the mount that [`Spot::find`] found.

use crate::error::{Error, Result};
use crate::mount_point::{Lazy, abort, detach, is_ours};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const TABLE: &str = "/proc/self/mountinfo";
/// `STATX_MNT_ID_UNIQUE` (Linux 6.8): never used again, unlike the number in the table.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The kernel keeps the number of a device as 12 bits of major and 20 bits of minor number.
const MINOR_BITS: u32 = 20;

/// Attempts to find a mount while directories of its path are renamed.
const LOOKS_MAX: usize = 3;

/// A descriptor that names a file without opening it. Links are not followed.
const NAMES: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Identity of a mount in this mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountId {
    number: u64,
    /// None before Linux 6.8, and on a mount that admits only its owner.
    unique: Option<u64>,
    /// What the kernel calls the FUSE connection: the number of its device.
    pub(crate) connection: u64,
}

/// A mount of uext4 in the mount table.
pub(crate) struct Mount {
    pub(crate) id: MountId,
    /// Number of the mount below.
    pub(crate) parent: u64,
    pub(crate) source: PathBuf,
    /// The user that mounted it.
    pub(crate) uid: u32,
}

/// State of a mount in this mount namespace.
pub(crate) enum MountState {
    /// The topmost one at its path.
    Topmost(Spot),
    /// Something else is mounted on it, or on a directory of its path.
    Covered,
    /// In no table: detached, with users or without.
    Detached,
}

impl MountState {
    /// Looks for a mount by its numbers, at whichever path its directory is by now.
    ///
    /// # Errors
    /// As [`Spot::find`].
    pub(crate) fn of(id: &MountId) -> Result<Self> {
        for _ in 0..LOOKS_MAX {
            let Some(path) = path_of(id)? else {
                return Ok(Self::Detached);
            };
            match Spot::find(&path)?.filter(|spot| spot.mount.id == *id) {
                Some(spot) => return Ok(Self::Topmost(spot)),
                // A directory of the path may have been renamed in between.
                None if path_of(id)?.as_ref() == Some(&path) => return Ok(Self::Covered),
                None => {}
            }
        }
        Ok(Self::Covered)
    }
}

/// The path of a mount in the table.
fn path_of(id: &MountId) -> Result<Option<PathBuf>> {
    let line = find_line(|line| line.number == id.number && line.connection == id.connection)?;
    Ok(line.filter(|line| line.ours).map(|line| line.path))
}

/// A mount of uext4 at a path, with its parent directory.
pub(crate) struct Spot {
    path: PathBuf,
    dir: OwnedFd,
    name: OsString,
    pub(crate) mount: Mount,
}

impl Spot {
    /// Finds the topmost mount at an absolute path; `None` if it is not of uext4.
    ///
    /// # Errors
    /// A directory of the path cannot be searched, or `/proc` cannot be read.
    pub(crate) fn find(path: &Path) -> Result<Option<Self>> {
        let above = path.parent().unwrap_or(path);
        let name = path.file_name().unwrap_or(OsStr::new("."));
        let found = open_dir(above).and_then(|dir| {
            let top = openat(&dir, name, NAMES, Mode::empty())?;
            Ok((dir, top))
        });
        let (dir, top) = match found {
            Err(error) if is_absent(&error) => return Ok(None),
            found => found.map_err(Error::system("find the mount on", path))?,
        };
        let mount = described(top.as_fd(), path)?;
        Ok(mount.map(|mount| Self {
            path: path.into(),
            dir,
            name: name.into(),
            mount,
        }))
    }

    /// Takes the mount off.
    ///
    /// # Errors
    /// [`Error::NotMounted`] if another mount, or none, is there by now; [`Error::Busy`] if it is
    /// in use and `lazy` is [`Lazy::No`].
    pub(crate) fn detach(&self, lazy: Lazy) -> Result<()> {
        if self.is_there()? {
            detach(&self.through_parent(), &self.path, lazy)
        } else {
            Err(Error::NotMounted {
                path: self.path.clone(),
            })
        }
    }

    /// Aborts the connection of the mount.
    pub(crate) fn abort(&self) {
        if self.is_there().unwrap_or(false) {
            abort(&self.through_parent());
        }
    }

    /// As [`Self::abort`]; the mount stays.
    pub(crate) fn abort_and_keep(&self) {
        // A mount with an open file is not taken off.
        if let Ok(Some(_open)) = self.top() {
            abort(&self.through_parent());
        }
    }

    fn is_there(&self) -> Result<bool> {
        Ok(self.top()?.is_some())
    }

    /// The root of the mount, if it is still there.
    fn top(&self) -> Result<Option<OwnedFd>> {
        match openat(&self.dir, &self.name, NAMES, Mode::empty()) {
            Ok(top) => {
                let found = described(top.as_fd(), &self.path)?;
                let is_same = found.is_some_and(|mount| mount.id == self.mount.id);
                Ok(is_same.then_some(top))
            }
            Err(error) if is_absent(&error.into()) => Ok(None),
            Err(error) => Err(Error::system("find the mount on", &self.path)(error.into())),
        }
    }

    /// A path of the mount that does not depend on the directories above its parent.
    fn through_parent(&self) -> PathBuf {
        through(self.dir.as_fd()).join(&self.name)
    }
}

/// The path of a descriptor in `/proc`.
pub(crate) fn through(fd: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

/// Number of the mount that a descriptor is on.
pub(crate) fn number_of(fd: BorrowedFd<'_>) -> Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    let text = std::fs::read_to_string(&path).map_err(Error::system("read", &path))?;
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| Error::system("find mnt_id in", &path)(io::ErrorKind::InvalidData.into()))
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The mount whose root `top` is, if it is of uext4 and the table has it at `path`.
fn described(top: BorrowedFd<'_>, path: &Path) -> Result<Option<Mount>> {
    let number = number_of(top)?;
    let line = find_line(|line| line.number == number)?;
    let ours = line.filter(|line| line.ours && line.path == path);
    Ok(ours.map(|line| Mount {
        id: MountId {
            number,
            unique: unique_number(top),
            connection: line.connection,
        },
        parent: line.parent,
        source: line.source,
        uid: line.uid,
    }))
}

/// The first line of the table that fits.
fn find_line(fits: impl Fn(&Line) -> bool) -> Result<Option<Line>> {
    let text = std::fs::read(TABLE).map_err(Error::system("read", TABLE))?;
    let lines = text.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(parse_line).find(fits))
}

/// With what is cached of the root: its server is not asked.
fn unique_number(top: BorrowedFd<'_>) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(top, "", flags, UNIQUE).ok()?;
    let has = StatxFlags::from_bits_retain(found.stx_mask).contains(UNIQUE);
    has.then_some(found.stx_mnt_id)
}

/// Whether a mount table has a mount of uext4 with this connection.
pub(crate) fn has_connection(table: &[u8], connection: u64) -> bool {
    let lines = table.split(|&byte| byte == b'\n').filter_map(parse_line);
    let mut ours = lines.filter(|line| line.ours);
    ours.any(|line| line.connection == connection)
}

/// A line of the mount table.
struct Line {
    number: u64,
    parent: u64,
    path: PathBuf,
    source: PathBuf,
    ours: bool,
    uid: u32,
    connection: u64,
}

/// One line of `/proc/self/mountinfo`: id, parent, device, root, path, options, optional fields,
/// `-`, type, source, super options.
fn parse_line(line: &[u8]) -> Option<Line> {
    let mut fields = line.split(|&byte| byte == b' ');
    let number = number(fields.next()?)?;
    let parent = self::number(fields.next()?)?;
    let connection = connection_of(fields.next()?)?;
    let path = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let ours = is_ours(rest.next()?);
    let source = OsString::from_vec(unescape(rest.next()?)).into();
    let options = String::from_utf8_lossy(rest.next()?).into_owned();
    let uid = options
        .split(',')
        .find_map(|word| word.strip_prefix("user_id=")?.parse().ok());
    Some(Line {
        number,
        parent,
        path,
        source,
        ours,
        uid: uid.unwrap_or(0),
        connection,
    })
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Major and minor number of the device of a connection.
pub(crate) fn numbers_of(connection: u64) -> (u64, u64) {
    (
        connection >> MINOR_BITS,
        connection & ((1 << MINOR_BITS) - 1),
    )
}

/// Number of the connection, from `MAJOR:MINOR` of the mount.
fn connection_of(device: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(device).ok()?.split_once(':')?;
    Some(major.parse::<u64>().ok()? << MINOR_BITS | minor.parse::<u64>().ok()?)
}

/// The same of the number that `stat(2)` has for the device.
pub(crate) fn connection_of_device(device: u64) -> u64 {
    let major = u64::from(rustix::fs::major(device));
    major << MINOR_BITS | u64::from(rustix::fs::minor(device))
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| byte == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                out.push(escaped);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_line_of_mountinfo() {
        let line = b"36 35 0:98 / /mnt/a\\040b rw,noatime shared:1 - fuse.uext4 /x.img \
            rw,user_id=1000,group_id=0,default_permissions";
        let mount = parse_line(line).expect("it is complete");
        assert_eq!(mount.path.as_os_str().as_bytes(), b"/mnt/a b");
        assert!(mount.ours && mount.uid == 1000 && mount.connection == 98);
        assert_eq!((mount.number, mount.parent), (36, 35));
        assert_eq!(numbers_of(mount.connection), (0, 98));
        let block = parse_line(b"1 2 7:0 / /mnt rw - fuseblk.uext4 /dev/loop0 rw,user_id=0");
        let block = block.expect("it is complete");
        assert!(block.ours && numbers_of(block.connection) == (7, 0));
        let other = parse_line(b"1 2 0:1 / / rw - ext4 /dev/sda1 rw").expect("it is complete");
        assert!(!other.ours);
        assert!(parse_line(b"").is_none());
    }

    #[test]
    fn other_mounts_and_absent_paths_are_not_found() {
        for path in [
            "/",
            "/proc",
            "/proc/self",
            "/no/such/path",
            "/proc/version/x",
        ] {
            let found = Spot::find(Path::new(path)).expect("/proc is there");
            assert!(found.is_none(), "{path}");
        }
    }
}
