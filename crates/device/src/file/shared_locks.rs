//! Byte locks of QEMU, so that it and this library see each other on one image.
//!
//! QEMU holds an open-file-description lock for reading on byte 100 + N for each right N that it
//! uses, and on byte 200 + N for each right that it does not share. A second user asks whether the
//! bytes of the other kind are free. A device that is open for writing here does the same, with the
//! rights of a program that writes and changes the length, and shares neither.
//!
//! Locking: these locks belong to the open file, as those of `flock`, and end with it.
//! References: `fcntl_locking(2)` (`F_OFD_GETLK`), QEMU's documentation on image locking.

use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// First byte of the rights in use.
const USED: i64 = 100;
/// First byte of the rights that are not shared.
const NOT_SHARED: i64 = 200;
/// Consistent reads, writes, changes of the length.
const RIGHTS: [i64; 3] = [0, 1, 3];
/// Writes and changes of the length.
const ALONE: [i64; 2] = [1, 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// No other program uses the rights, or the file system has no such locks.
    Free,
    /// Another program uses the rights.
    Used,
}

/// Takes the locks of a writer.
pub(super) fn take(file: &File) -> io::Result<Answer> {
    let taken = lock_all(file, libc::F_RDLCK).and_then(|()| is_free(file));
    let answer = match taken {
        Ok(true) => Ok(Answer::Free),
        Ok(false) => Ok(Answer::Used),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::AGAIN | Errno::ACCESS) => Ok(Answer::Used),
            // Some file systems have no locks, and old kernels none of open files.
            Some(Errno::NOLCK | Errno::NOTSUP | Errno::INVAL | Errno::NOSYS) => Ok(Answer::Free),
            _ => Err(error),
        },
    };
    if !matches!(answer, Ok(Answer::Free)) {
        release(file);
    }
    answer
}

/// Gives the locks back, also where another process has a copy of the descriptor.
pub(super) fn release(file: &File) {
    let _without_locks = lock_all(file, libc::F_UNLCK);
}

fn lock_all(file: &File, kind: i32) -> io::Result<()> {
    let used = RIGHTS.iter().map(|right| USED + right);
    let alone = ALONE.iter().map(|right| NOT_SHARED + right);
    for byte in used.chain(alone) {
        call(file, libc::F_OFD_SETLK, kind, byte)?;
    }
    Ok(())
}

/// Whether no other open file has a lock against what this one took.
fn is_free(file: &File) -> io::Result<bool> {
    let refused = RIGHTS.iter().map(|right| NOT_SHARED + right);
    let used = ALONE.iter().map(|right| USED + right);
    for byte in refused.chain(used) {
        if call(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte)? != libc::F_UNLCK {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Asks for one byte; returns the kind of a lock that is in the way.
fn call(file: &File, command: i32, kind: i32, byte: i64) -> io::Result<i32> {
    // SAFETY: `flock` is a plain C structure, for which all zeroes are a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (c_short(kind), c_short(libc::SEEK_SET));
    (lock.l_start, lock.l_len) = (byte, 1);
    // SAFETY: the descriptor is open while `file` is borrowed, and the kernel reads and writes only
    // the structure behind the pointer, which lives until the call returns.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock.l_type.into()),
    }
}

fn c_short(number: i32) -> libc::c_short {
    libc::c_short::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_sees_the_rights_of_another_program() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let path = dir.path().join("image");
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.open(path).unwrap()
        };
        // A program that writes; one that reads, and shares no writing; one that shares all.
        let cases = [
            (vec![100, 101], Answer::Used),
            (vec![100, 201], Answer::Used),
            (vec![100], Answer::Free),
        ];
        for (bytes, answer) in cases {
            let other = open();
            for byte in bytes {
                call(&other, libc::F_OFD_SETLK, libc::F_RDLCK, byte).unwrap();
            }
            let ours = open();
            assert_eq!(take(&ours).unwrap(), answer);
            release(&ours);
        }
    }

    #[test]
    fn another_program_sees_the_writer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let ours = file.reopen().unwrap();
        assert_eq!(take(&ours).unwrap(), Answer::Free);
        let other = file.reopen().unwrap();
        for byte in [101, 103, 201, 203] {
            let found = call(&other, libc::F_OFD_GETLK, libc::F_WRLCK, byte).unwrap();
            assert_eq!(found, libc::F_RDLCK, "byte {byte}");
        }
        release(&ours);
        let found = call(&other, libc::F_OFD_GETLK, libc::F_WRLCK, 101).unwrap();
        assert_eq!(found, libc::F_UNLCK);
    }
}
