//! A mounted directory as a [`Source`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rustix::fs as sys;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::entry::{DataRun, Entry, FileKind, Manifest};
use super::walk::{Source, Stat};
use crate::tree::{Device, Time};

/// Longest name list and longest value in Linux (64 KiB).
const XATTR_BYTES: usize = 64 << 10;

/// A directory of this machine.
#[derive(Clone, Debug)]
pub struct HostDir {
    root: PathBuf,
}

impl HostDir {
    /// The tree below the host directory `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() {
            self.root.clone()
        } else {
            self.root.join(OsStr::from_bytes(path))
        }
    }
}

impl Manifest {
    /// Walks a mounted directory.
    ///
    /// # Errors
    /// As [`Manifest::of`].
    pub fn of_dir(root: &Path) -> Result<Self> {
        Self::of(&HostDir::new(root))
    }
}

impl Source for HostDir {
    fn list(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let entries = fs::read_dir(self.at(path))?;
        entries
            .map(|entry| Ok(entry?.file_name().into_vec()))
            .collect()
    }

    fn stat(&self, path: &[u8]) -> Result<Stat> {
        let meta = fs::symlink_metadata(self.at(path))?;
        let mut entry = Entry::new(kind(&meta)?);
        entry.mode = meta.mode() & 0o7777;
        entry.uid = meta.uid();
        entry.gid = meta.gid();
        entry.nlink = meta.nlink();
        entry.size_bytes = meta.size();
        entry.allocated_sectors = meta.blocks();
        entry.atime = time(meta.atime(), meta.atime_nsec());
        entry.mtime = time(meta.mtime(), meta.mtime_nsec());
        entry.ctime = time(meta.ctime(), meta.ctime_nsec());
        if matches!(entry.kind, FileKind::CharDevice | FileKind::BlockDevice) {
            let (major, minor) = (sys::major(meta.rdev()), sys::minor(meta.rdev()));
            entry.device = Some(Device { major, minor });
        }
        Ok(Stat {
            inode: meta.ino(),
            entry,
        })
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        Ok(fs::read_link(self.at(path))?.into_os_string().into_vec())
    }

    fn xattrs(&self, path: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let path = self.at(path);
        let mut names = vec![0; XATTR_BYTES];
        let len = match sys::llistxattr(&path, &mut names) {
            Err(Errno::NOTSUP) => 0,
            other => other?,
        };
        let mut pairs = BTreeMap::new();
        for name in names[..len]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            let mut value = vec![0; XATTR_BYTES];
            let len = sys::lgetxattr(&path, name, &mut value)?;
            // A copy: most values are far smaller than the read buffer.
            pairs.insert(name.to_vec(), value[..len].to_vec());
        }
        Ok(pairs)
    }

    fn read(&self, path: &[u8], piece_bytes: usize, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut file = File::open(self.at(path))?;
        let mut buffer = vec![0; piece_bytes];
        loop {
            let len = file.read(&mut buffer)?;
            if len == 0 {
                return Ok(());
            }
            sink(&buffer[..len]);
        }
    }

    fn data_runs(&self, path: &[u8]) -> Result<Option<Vec<DataRun>>> {
        let file = File::open(self.at(path))?;
        let mut runs = Vec::new();
        let mut at = 0;
        loop {
            let start_bytes = match sys::seek(&file, SeekFrom::Data(at)) {
                Err(Errno::NXIO) => return Ok(Some(runs)),
                Err(Errno::INVAL) => return Ok(None),
                other => other?,
            };
            let end_bytes = sys::seek(&file, SeekFrom::Hole(start_bytes))?;
            if end_bytes <= start_bytes {
                bail!("SEEK_HOLE went back from {start_bytes} to {end_bytes}");
            }
            runs.push(DataRun {
                start_bytes,
                end_bytes,
            });
            at = end_bytes;
        }
    }
}

fn time(seconds: i64, nanos: i64) -> Time {
    // The kernel keeps nanoseconds in 0..10^9.
    Time {
        seconds,
        nanos: nanos as u32,
    }
}

fn kind(meta: &fs::Metadata) -> Result<FileKind> {
    let kind = meta.file_type();
    Ok(match () {
        () if kind.is_file() => FileKind::File,
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_symlink() => FileKind::Symlink,
        () if kind.is_char_device() => FileKind::CharDevice,
        () if kind.is_block_device() => FileKind::BlockDevice,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () => bail!("mode {:o} has no known type", meta.mode()),
    })
}
