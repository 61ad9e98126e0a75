//! A file while it is made: beside its final place, under another name.
//!
//! It grows as it is written, since its size may be known at the end only. Dropped before
//! [`NewFile::keep`] it is removed, so no partial file has the final name.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use uext4_num::u64_of;

use crate::{BlockDevice, Error, range};

/// Names that are tried for the file.
const TRIES: u32 = 1000;

/// See the module.
pub struct NewFile {
    file: File,
    path: PathBuf,
    final_path: PathBuf,
    limit_bytes: u64,
}

impl NewFile {
    /// An empty file beside `path`, which grows up to `limit_bytes`.
    ///
    /// # Errors
    /// Of the system, or a path without a name.
    pub fn create(path: &Path, limit_bytes: u64) -> io::Result<NewFile> {
        for attempt in 0..TRIES {
            let mut name = std::ffi::OsString::from(".");
            name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
            name.push(format!(".{}-{attempt}.part", std::process::id()));
            let beside = path.with_file_name(name);
            match OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&beside)
            {
                Ok(file) => {
                    return Ok(NewFile {
                        file,
                        path: beside,
                        final_path: path.to_path_buf(),
                        limit_bytes,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Gives the file its size in bytes and its final name, durably.
    ///
    /// # Errors
    /// Of the system.
    pub fn keep(&self, size_bytes: u64) -> io::Result<()> {
        self.file.set_len(size_bytes)?;
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.final_path)
    }

    /// The next bytes from `offset` on that are no hole; `None` behind the last of them. Where the
    /// system does not tell, all bytes up to the end of the file.
    ///
    /// # Errors
    /// Of the system.
    pub fn data_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let start = match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL) => {
                let end = self.file.metadata()?.len();
                return Ok((offset < end).then_some(offset..end));
            }
            Err(error) => return Err(error.into()),
        };
        let end = seek(&self.file, SeekFrom::Hole(start))?;
        Ok(Some(start..end))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After a rename there is nothing under this name.
        let _already_renamed = std::fs::remove_file(&self.path);
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

    #[test]
    fn it_has_its_name_when_it_is_kept_and_is_gone_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        std::fs::write(&path, "old").unwrap();
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        let dropped = NewFile::create(&path, 100).unwrap();
        dropped.write_at(0, b"new").unwrap();
        assert_eq!(names(), 2);
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
    }
}
