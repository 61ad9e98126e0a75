//! A file while it is made: without a name where the file system can do that (`O_TMPFILE`), else
//! beside its final place under another name.
//!
//! It grows as it is written, since its size may be known at the end only. Dropped before
//! [`NewFile::keep`] it is gone, so no partial file has the final name. A file that it replaces
//! passes its owner and mode on, except to a private one.
//!
//! Layout: `name_in_dir` finds the directory and what is there.

mod name_in_dir;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode};
use rustix::io::Errno;
use uext4_num::u64_of;

use self::name_in_dir::NameInDir;
pub(crate) use self::name_in_dir::open_or_make;
pub use self::name_in_dir::{open_to_write, refuse_planted, refuse_swapped};
use crate::{BlockDevice, Error, range};

/// Names that are tried for a file beside the final one.
const TRIES: u32 = 100;

/// A file that gets its final name only when it is complete.
pub struct NewFile {
    file: File,
    place: NameInDir,
    /// The name while it is made; `None`: it has none.
    beside: Option<OsString>,
    final_path: PathBuf,
    limit_bytes: u64,
    rights: Rights,
}

/// The users that may read a new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// Those of the file that it replaces. Otherwise the mask of the process decides.
    #[default]
    PassedOn,
    /// That of the process alone.
    Private,
}

/// The path of an open file in `/proc`.
fn magic(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Whether `/proc` leads to the file, which gets its name by that. In a chroot it may not be there.
fn has_link(file: &File) -> bool {
    let through = std::fs::metadata(magic(file));
    matches!((through, file.metadata()), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

impl NewFile {
    /// An empty file for the place of `path`, which grows up to `limit_bytes`. A symbolic link at
    /// the end of `path` stays, and the file to which it leads is replaced.
    ///
    /// # Errors
    /// Of the system; a path without a name, or with something that is no regular file; a link or
    /// a file that another user put into a directory where all may write.
    pub fn create(path: &Path, limit_bytes: u64) -> io::Result<NewFile> {
        let place = NameInDir::of(path)?;
        NewFile::create_in(place, path, limit_bytes, Rights::PassedOn)
    }

    /// The same for a file that only the user of the process may read. It replaces no file but the
    /// one that has the name now.
    ///
    /// # Errors
    /// As [`Self::create`]; a file of another user.
    pub fn create_private(path: &Path, limit_bytes: u64) -> io::Result<NewFile> {
        let place = NameInDir::of(path)?;
        let new = NewFile::create_in(place, path, limit_bytes, Rights::Private)?;
        // Some file systems give all files to one owner.
        new.place.refuse_foreign(new.file.metadata()?.uid())?;
        Ok(new)
    }

    fn create_in(
        place: NameInDir,
        path: &Path,
        limit_bytes: u64,
        rights: Rights,
    ) -> io::Result<NewFile> {
        let mode = match (rights, &place.replaced) {
            (Rights::Private, _) => 0o600,
            (Rights::PassedOn, Some(there)) => there.mode & 0o666,
            (Rights::PassedOn, None) => 0o666,
        };
        let (file, beside) = match place.unnamed(Mode::from_raw_mode(mode)) {
            Ok(file) if has_link(&file) => (file, None),
            Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                named(|name| place.new_file(name, Mode::from_raw_mode(mode)))?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(NewFile {
            file,
            place,
            beside,
            final_path: path.to_path_buf(),
            limit_bytes,
            rights,
        })
    }

    /// Device and inode number of the file.
    ///
    /// # Errors
    /// Of the system.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let found = self.file.metadata()?;
        Ok((found.dev(), found.ino()))
    }

    /// Gives the file, which is empty, the content of another one, if the file system can share
    /// it. False if it cannot, and nothing was written.
    pub fn share_content_of(&self, other: &File) -> bool {
        rustix::fs::ioctl_ficlone(&self.file, other).is_ok()
    }

    /// Gives the file its size in bytes, the owner and mode of the file that it replaces unless it
    /// is private, and its final name, durably.
    ///
    /// # Errors
    /// Of the system; `AlreadyExists` if it is private, and another file has got the name
    /// meanwhile.
    pub fn keep(&self, size_bytes: u64) -> io::Result<()> {
        self.file.set_len(size_bytes)?;
        match (self.rights, &self.place.replaced) {
            (Rights::PassedOn, Some(there)) => there.pass_on(&self.file)?,
            (Rights::PassedOn, None) | (Rights::Private, _) => {}
        }
        self.file.sync_all()?;
        match &self.beside {
            Some(beside) => self.rename(beside)?,
            None => self.link()?,
        }
        self.place.sync()
    }

    /// Gives the file of another name its final one.
    fn rename(&self, from: &OsStr) -> io::Result<()> {
        match (self.rights, &self.place.replaced) {
            (Rights::PassedOn, _) => self.place.rename(from),
            (Rights::Private, None) => self.place.rename_to_free(from),
            (Rights::Private, Some(_)) => {
                self.place.refuse_other()?;
                self.place.rename(from)
            }
        }
    }

    /// Gives the file without a name its final one.
    fn link(&self) -> io::Result<()> {
        let magic = magic(&self.file);
        let link = |name: &OsStr| {
            let directory = &self.place.directory;
            rustix::fs::linkat(CWD, &magic[..], directory, name, AtFlags::SYMLINK_FOLLOW)
        };
        match link(&self.place.name) {
            Err(Errno::EXIST) => {}
            linked => return Ok(linked?),
        }
        if self.rights == Rights::Private {
            self.place.refuse_other()?;
        }
        let ((), beside) = named(link)?;
        let beside = beside.unwrap_or_default();
        self.rename(&beside).inspect_err(|_| {
            // The first error is told.
            let _ = self.place.remove(&beside);
        })
    }

    /// As [`data_from`] of this file.
    ///
    /// # Errors
    /// Of the system.
    pub fn data_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        data_from(&self.file, offset)
    }
}

/// The next bytes of a file from `offset` on that are no hole; `None` behind the last of them.
/// Where the system does not tell, all bytes up to the end of the file.
///
/// # Errors
/// Of the system.
pub fn data_from(file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    let start = match seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => {
            let end = file.metadata()?.len();
            return Ok((offset < end).then_some(offset..end));
        }
        Err(error) => return Err(error.into()),
    };
    let end = seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end))
}

/// Tries short names until one is free. They are random, so that no other user can take them all
/// before.
fn named<T>(make: impl Fn(&OsStr) -> Result<T, Errno>) -> io::Result<(T, Option<OsString>)> {
    for _ in 0..TRIES {
        let name = format!(".uext4-{:016x}.part", random());
        match make(OsStr::new(&name)) {
            Ok(made) => return Ok((made, Some(name.into()))),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A number that no other process knows: the keys of the standard library's hashes are random.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // After a rename there is nothing under this name.
            let _already_renamed = self.place.remove(beside);
        }
    }
}

impl BlockDevice for NewFile {
    fn size_bytes(&self) -> u64 {
        self.limit_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        range::check(self.limit_bytes, offset, len)?;
        let mut done = 0;
        while done < buf.len() {
            let at = offset + u64_of(done);
            match self.file.read_at(&mut buf[done..], at) {
                Ok(0) => {
                    buf[done..].fill(0); // the file has not grown so far yet
                    return Ok(());
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", offset, len, error)),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        range::check(self.limit_bytes, offset, len)?;
        let written = self.file.write_all_at(buf, offset);
        written.map_err(|error| Error::io("write", offset, len, error))
    }

    fn write_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        range::check(self.limit_bytes, offset, len)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) => Ok(()),
            // The file system has no holes, or the range is empty.
            Err(_) => self.write_zeroes(offset, len),
        }
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(()) // the file has no name yet; `keep` syncs it before it gets one
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        self.final_path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_has_its_name_when_it_is_kept_and_is_gone_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        std::fs::write(&path, "old").unwrap();
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        let dropped = NewFile::create(&path, 100).unwrap();
        dropped.write_at(0, b"new").unwrap();
        drop(dropped);
        assert_eq!(
            (names(), std::fs::read(&path).unwrap()),
            (1, b"old".to_vec())
        );
        let kept = NewFile::create(&path, 100).unwrap();
        kept.write_at(2, b"new").unwrap();
        let mut bytes = [7; 8];
        kept.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0new\0\0\0");
        assert!(kept.write_at(98, b"new").is_err());
        kept.keep(6).unwrap();
        drop(kept);
        assert_eq!(
            (names(), std::fs::read(&path).unwrap()),
            (1, b"\0\0new\0".to_vec())
        );
    }

    /// A file without a name and one with a name are made alike.
    #[test]
    fn an_old_file_passes_its_mode_on_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("x".repeat(255)), dir.path().join("link"));
        std::fs::write(&path, b"old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(path.file_name().unwrap(), &link).unwrap();
        for is_named in [false, true] {
            let mut new = NewFile::create(&link, 100).unwrap();
            if is_named {
                let mode = Mode::from_raw_mode(0o644);
                (new.file, new.beside) = named(|name| new.place.new_file(name, mode)).unwrap();
            }
            new.write_at(0, b"new").unwrap();
            new.keep(3).unwrap();
            drop(new);
            assert!(link.is_symlink());
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn a_private_file_inherits_nothing_and_replaces_only_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        let other = dir.path().join("other");
        for is_named in [false, true] {
            let make = || {
                let mut new = NewFile::create_private(&path, 100).unwrap();
                if is_named {
                    let mode = Mode::from_raw_mode(0o600);
                    (new.file, new.beside) = named(|name| new.place.new_file(name, mode)).unwrap();
                }
                new
            };
            std::fs::write(&path, b"old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
            make().keep(3).unwrap();
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);

            let swapped = make();
            std::fs::write(&other, b"other").unwrap();
            std::fs::rename(&other, &path).unwrap();
            let error = swapped.keep(3).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            std::fs::remove_file(&path).unwrap();
            let late = make();
            std::fs::write(&path, b"other").unwrap();
            let error = late.keep(3).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            drop((swapped, late));
            assert_eq!(std::fs::read(&path).unwrap(), b"other");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1000), None).unwrap();
            let error = NewFile::create_private(&path, 100).err().unwrap();
            assert!(error.to_string().contains("another user"), "{error}");
        }
    }

    #[test]
    fn other_kinds_of_files_and_planted_links_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |name: &str, words: &str| {
            let error = NewFile::create(&dir.path().join(name), 1).err().unwrap();
            assert!(error.to_string().contains(words), "{name}: {error}");
        };
        std::fs::create_dir(dir.path().join("directory")).unwrap();
        refused("directory", "neither a regular file");
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        refused("loop", "symbolic links");
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let shared = dir.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        std::fs::write(shared.join("file"), b"").unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, b"whole").unwrap();
        std::os::unix::fs::symlink(&victim, shared.join("planted")).unwrap();
        for mode in [0o1777, 0o1770] {
            std::fs::set_permissions(&shared, Permissions::from_mode(mode)).unwrap();
            for name in ["file", "planted"] {
                let path = shared.join(name);
                std::os::unix::fs::lchown(&path, Some(1000), Some(1000)).unwrap();
                refused(&format!("shared/{name}"), "another user owns it");
                assert!(refuse_planted(&path).is_err(), "{mode:o} {name}");
                assert!(crate::open_to_write(&path).is_err(), "{mode:o} {name}");
                let made = crate::FileDevice::create(&path, 9);
                assert!(made.is_err(), "{mode:o} {name}");
            }
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"whole");
        assert!(refuse_planted(&shared.join("none")).is_ok());
        // An open file is none of those.
        let own = File::create(dir.path().join("own")).unwrap();
        crate::open_to_write(Path::new(&magic(&own))).unwrap();
    }

    #[test]
    fn an_open_file_that_is_not_the_checked_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("image"), dir.path().join("other"));
        std::fs::write(&path, b"image").unwrap();
        std::fs::write(&other, b"other").unwrap();
        let open = || crate::FileDevice::open(&path, crate::Access::ReadOnly).unwrap();
        let (there, device) = (path.metadata().unwrap(), open());
        refuse_swapped(&path, &there, &device).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(refuse_swapped(&path, &there, &device).is_err());
        std::os::unix::fs::symlink(&other, &path).unwrap();
        // Swapped after the open, and before it.
        assert!(refuse_swapped(&path, &there, &device).is_err());
        assert!(refuse_swapped(&path, &there, &open()).is_err());
        refuse_swapped(&path, &path.metadata().unwrap(), &open()).unwrap();
        // An open file has another name in /proc.
        let file = File::open(&other).unwrap();
        let by_number = magic(&file);
        let by_number = Path::new(&by_number);
        refuse_swapped(by_number, &by_number.metadata().unwrap(), &open()).unwrap();
    }

    #[test]
    fn names_beside_the_file_cannot_be_guessed() {
        let taken = named(|name| Ok::<_, Errno>(name.to_owned())).unwrap();
        let next = named(|name| Ok::<_, Errno>(name.to_owned())).unwrap();
        assert_ne!(taken, next);
    }

    #[test]
    fn holes_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = NewFile::create(&dir.path().join("made"), 1 << 40).unwrap();
        file.write_at(1 << 20, &[1; 100]).unwrap();
        file.write_at(1 << 30, &[1; 100]).unwrap();
        let first = file.data_from(0).unwrap().unwrap();
        assert!(
            first.contains(&(1 << 20)) && first.end <= 1 << 30,
            "{first:?}"
        );
        let second = file.data_from(first.end).unwrap().unwrap();
        assert!(second.contains(&(1 << 30)), "{second:?}");
        assert_eq!(file.data_from(second.end).unwrap(), None);
        file.write_hole(1 << 20, 1 << 20).unwrap();
        let left = file.data_from(0).unwrap().unwrap();
        assert!(!left.contains(&(1 << 20)), "{left:?}");
        let mut bytes = [7; 100];
        file.read_at(1 << 20, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 100]);
    }
}
