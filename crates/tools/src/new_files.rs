//! New files of the host for content of damaged images, whose names are not trusted.
//!
//! Invariants: everything is below one directory. No symbolic link is followed, `..` is no
//! component, and an existing file is never written: a name that is taken gets a number.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Numbers behind a name that are tried, from the last one that was given on.
const TRIES: u32 = 1000;
/// Longest name, in bytes, with space for a number.
const NAME_MAX: usize = 250;
/// Most components of a path.
const DEPTH_MAX: usize = 512;

/// The directory.
pub(crate) struct NewFiles {
    dir: OwnedFd,
    /// The next number of each path that was taken.
    next: RefCell<HashMap<PathBuf, u32>>,
}

impl NewFiles {
    /// Opens the directory, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        match rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let next = RefCell::default();
        Ok(Self { dir, next })
    }

    /// Makes a file for a path of an image. Returns its path below the directory.
    pub(crate) fn create(&self, path: &[u8]) -> Result<(File, PathBuf), Errno> {
        let (dir, mut made, name) = self.parent(path)?;
        let dir = dir.as_ref().map_or(self.dir.as_fd(), OwnedFd::as_fd);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let (file, name) = self.numbered(&made, &name, |name| open(dir, name, flags))?;
        made.push(name);
        Ok((File::from(file), made))
    }

    /// Makes a directory for a path of an image.
    pub(crate) fn make_directory(&self, path: &[u8]) -> Result<(), Errno> {
        let path = [path, b"/x"].concat();
        self.parent(&path).map(drop)
    }

    /// Makes a symbolic link for a path of an image. Returns its path below the directory.
    pub(crate) fn link(&self, path: &[u8], target: &[u8]) -> Result<PathBuf, Errno> {
        let (dir, mut made, name) = self.parent(path)?;
        let dir = dir.as_ref().map_or(self.dir.as_fd(), OwnedFd::as_fd);
        let ((), name) = self.numbered(&made, &name, |name: &Path| {
            rustix::fs::symlinkat(target, dir, name)
        })?;
        made.push(name);
        Ok(made)
    }

    /// Gives a file that was made another name, below the directory.
    pub(crate) fn link_again(&self, made: &Path, path: &[u8]) -> Result<PathBuf, Errno> {
        let (dir, mut next, name) = self.parent(path)?;
        let dir = dir.as_ref().map_or(self.dir.as_fd(), OwnedFd::as_fd);
        let ((), name) = self.numbered(&next, &name, |name| {
            rustix::fs::linkat(self.dir.as_fd(), made, dir, name, AtFlags::empty())
        })?;
        next.push(name);
        Ok(next)
    }

    /// As [`with_numbers`], from the number on that the path has next.
    fn numbered<T>(
        &self,
        dir: &Path,
        name: &Path,
        make: impl Fn(&Path) -> Result<T, Errno>,
    ) -> Result<(T, PathBuf), Errno> {
        let path = dir.join(name);
        let first = self.next.borrow().get(&path).copied().unwrap_or(0);
        let (made, name, number) = with_numbers(name, first, make)?;
        if number > 0 {
            let next = number.saturating_add(1);
            self.next.borrow_mut().insert(path, next);
        }
        Ok((made, name))
    }

    /// The directory of a path, made where it is missing, its path, and the last name.
    fn parent(&self, path: &[u8]) -> Result<(Option<OwnedFd>, PathBuf, PathBuf), Errno> {
        let mut names: Vec<PathBuf> = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .take(DEPTH_MAX)
            .map(component)
            .collect();
        let last = names.pop().unwrap_or_else(|| PathBuf::from("_"));
        let (mut at, mut made) = (None::<OwnedFd>, PathBuf::new());
        for name in names {
            let from = at.as_ref().map_or(self.dir.as_fd(), OwnedFd::as_fd);
            let (next, name, _) = with_numbers(&name, 0, |name| directory(from, name))?;
            at = Some(next);
            made.push(name);
        }
        Ok((at, made, last))
    }
}

/// Opens a directory, or makes it. `EXIST` if the name has something else.
fn directory(dir: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    match open(dir, name, OFlags::DIRECTORY | OFlags::RDONLY) {
        Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => Err(Errno::EXIST),
        opened => opened,
    }
}

fn open(dir: BorrowedFd<'_>, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))
}

/// Calls `make` with a name, and with numbers behind it while it is taken. Number 0 is the name
/// itself. Returns the name and the number too.
fn with_numbers<T>(
    name: &Path,
    first: u32,
    make: impl Fn(&Path) -> Result<T, Errno>,
) -> Result<(T, PathBuf, u32), Errno> {
    for number in first..first.saturating_add(TRIES) {
        let mut text = name.as_os_str().to_owned();
        if number > 0 {
            text.push(format!("~{number}"));
        }
        let next = PathBuf::from(text);
        match make(&next) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (made, next, number)),
        }
    }
    Err(Errno::EXIST)
}

/// A name of an image as a component of a path of the host.
fn component(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let short = name.get(..NAME_MAX).unwrap_or(name);
    let name: Vec<u8> = match short {
        b"." | b".." => vec![b'_'; short.len()],
        other => other
            .iter()
            .map(|byte| if *byte == 0 { b'_' } else { *byte })
            .collect(),
    };
    PathBuf::from(std::ffi::OsStr::from_bytes(&name))
}

/// Gives a new file its permissions and its time. Special bits are dropped: the owner is another
/// one.
pub(crate) fn set_attributes(file: &File, mode: u16, mtime: uext4::Timestamp) -> Result<(), Errno> {
    rustix::fs::fchmod(file, Mode::from_raw_mode(u32::from(mode) & 0o777))?;
    let time = rustix::fs::Timespec {
        tv_sec: mtime.seconds,
        tv_nsec: mtime.nanoseconds.min(999_999_999).into(),
    };
    let times = rustix::fs::Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::futimens(file, &times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_stay_below_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let inside = dir.path().join("in");
        let files = NewFiles::open(&inside).expect("it is made");
        std::os::unix::fs::symlink(dir.path(), inside.join("out")).expect("a link");
        let path = |name: &[u8]| files.create(name).expect("it is made").1;
        assert_eq!(path(b"../../up"), Path::new("__/__/up"));
        assert_eq!(path(b"/a//b"), Path::new("a/b"));
        assert_eq!(path(b"out/x"), Path::new("out~1/x"));
        assert_eq!(path(b"a"), Path::new("a~1"));
        let (mut file, name) = files.create(b"a/b").expect("it is made");
        assert_eq!(name, Path::new("a/b~1"));
        file.write_all(b"new").expect("there is space");
        assert_eq!(std::fs::read(inside.join("a/b")).expect("it is there"), b"");
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("it is there").count(),
            1
        );
        files.link(b"a/l", b"/etc/passwd").expect("it is made");
        assert_eq!(path(b"a/l/x"), Path::new("a/l~1/x"));
        assert_eq!(path(b"a/l/y"), Path::new("a/l~1/y"));
    }

    #[test]
    fn many_files_of_one_path_get_numbers() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = NewFiles::open(dir.path()).expect("it is there");
        for _ in 0..=TRIES {
            files.create(b"a").expect("it is made");
        }
        let (_, last) = files.create(b"a").expect("it is made");
        assert_eq!(last, PathBuf::from(format!("a~{}", TRIES + 1)));
    }
}
