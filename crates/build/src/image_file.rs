//! The file of an image while it is built: beside its final place, under another name.
//!
//! It grows as it is written, since its size may be known at the end only. Dropped before
//! [`ImageFile::keep`] it is removed, so no partial image has the final name.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use uext4_device::{BlockDevice, Error};
use uext4_num::u64_of;

/// Names that are tried for the file.
const TRIES: u32 = 1000;

/// See the module.
pub(crate) struct ImageFile {
    file: File,
    path: PathBuf,
    final_path: PathBuf,
    limit_bytes: u64,
}

impl ImageFile {
    /// An empty file beside `path`, which grows up to `limit_bytes`.
    pub(crate) fn create(path: &Path, limit_bytes: u64) -> io::Result<ImageFile> {
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
                    return Ok(ImageFile {
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

    /// Gives the file its size and its final name.
    pub(crate) fn keep(&self, size_bytes: u64) -> io::Result<()> {
        self.file.set_len(size_bytes)?;
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.final_path)
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), Error> {
        let end = offset.checked_add(u64_of(len));
        if end.is_some_and(|end| end <= self.limit_bytes) {
            return Ok(());
        }
        Err(Error::OutOfRange {
            offset,
            len: u64_of(len),
            size_bytes: self.limit_bytes,
        })
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        // After a rename there is nothing under this name.
        let _already_renamed = std::fs::remove_file(&self.path);
    }
}

impl BlockDevice for ImageFile {
    fn size_bytes(&self) -> u64 {
        self.limit_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check(offset, buf.len())?;
        let len = u64_of(buf.len());
        let failed = |error| Error::io("read", offset, len, error);
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
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.check(offset, buf.len())?;
        let written = self.file.write_all_at(buf, offset);
        written.map_err(|error| Error::io("write", offset, u64_of(buf.len()), error))
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
