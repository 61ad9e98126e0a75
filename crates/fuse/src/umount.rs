//! Unmounting from outside the server: take the mount off, wait until the image is closed.

use crate::claim::{Ending, Waiter};
use crate::error::{Error, Result};
use crate::mount_point::{Lazy, detach, is_ours};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that the server may take to close the image after the kernel let go.
const CLOSE_LIMIT: Duration = Duration::from_secs(300);

/// What became of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The server closed it; it is clean.
    Clean,
    /// The server had been killed: the next mount recovers the image from its journal.
    NeedsRecovery,
    /// The mount was detached while in use: the server closes the image after its last user.
    InUse,
}

/// Takes the mount off `dir` and waits until its server has closed the image.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::Busy`] without [`Lazy::Yes`], [`Error::StillOpen`] when the
/// server takes more than five minutes to close the image, [`Error::Server`] when it could not.
pub fn umount(dir: &Path, lazy: Lazy) -> Result<Image> {
    let path = absolute(dir)?;
    let uid = match mounted(&path)? {
        Some(uid) => uid,
        None => return Err(Error::NotMounted { path }),
    };
    let waiter = Waiter::find(&path, uid);
    // Frozen, it could not take what the kernel still holds. Most are not, which is no error.
    let _most_are_not_frozen = crate::thaw(&path);
    detach(&path, lazy)?;
    // Without a claim the server is gone already, or too old to have made one.
    let Some(mut waiter) = waiter else {
        return Ok(Image::NeedsRecovery);
    };
    let limit = if lazy == Lazy::Yes {
        Duration::ZERO
    } else {
        CLOSE_LIMIT
    };
    match waiter
        .wait(limit)
        .map_err(Error::system("wait for the server of", &path))?
    {
        Some(Ending::Closed) => Ok(Image::Clean),
        Some(Ending::Killed) => Ok(Image::NeedsRecovery),
        Some(Ending::Failed(said)) => Err(Error::Server { said, status: 1 }),
        None if lazy == Lazy::Yes => Ok(Image::InUse),
        None => Err(Error::StillOpen {
            pid: waiter.pid(),
            path,
        }),
    }
}

/// The absolute path, also of a mount point whose server is dead.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf> {
    if let Ok(path) = dir.canonicalize() {
        return Ok(path);
    }
    let absolute = std::path::absolute(dir).map_err(Error::system("find", dir))?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent
            .canonicalize()
            .map_err(Error::system("find", dir))?
            .join(name)),
        _ => Ok(absolute),
    }
}

/// User id of whoever mounted ours on `path`, if the topmost mount there is ours.
pub(crate) fn mounted(path: &Path) -> Result<Option<u32>> {
    let table = "/proc/self/mountinfo";
    let text = std::fs::read(table).map_err(Error::system("read", table))?;
    let lines = text.split(|&byte| byte == b'\n');
    let last = lines
        .filter_map(parse_line)
        .rfind(|mount| mount.path == path);
    Ok(last.filter(|mount| mount.ours).map(|mount| mount.uid))
}

struct Mount {
    path: PathBuf,
    ours: bool,
    uid: u32,
}

/// One line of `/proc/self/mountinfo`: id, parent, device, root, path, options, optional fields,
/// `-`, type, source, super options.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let path = PathBuf::from(OsString::from_vec(unescape(fields.nth(4)?)));
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let ours = is_ours(rest.next()?);
    let options = String::from_utf8_lossy(rest.nth(1)?).into_owned();
    let uid = options
        .split(',')
        .find_map(|word| word.strip_prefix("user_id=")?.parse().ok());
    Some(Mount {
        path,
        ours,
        uid: uid.unwrap_or(0),
    })
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
        assert!(mount.ours && mount.uid == 1000);
        let block = parse_line(b"1 2 7:0 / /mnt rw - fuseblk.uext4 /dev/loop0 rw,user_id=0");
        assert!(block.expect("it is complete").ours);
        let other = parse_line(b"1 2 0:1 / / rw - ext4 /dev/sda1 rw").expect("it is complete");
        assert!(!other.ours);
        assert!(parse_line(b"").is_none());
    }

    #[test]
    fn what_is_not_mounted_is_not_unmounted() {
        let error = umount(Path::new("/proc"), Lazy::No).expect_err("it is not ours");
        assert!(matches!(error, Error::NotMounted { .. }), "{error}");
    }
}
