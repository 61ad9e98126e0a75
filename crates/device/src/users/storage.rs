//! Identity of a file or a block device, independent of its name.

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, major, minor};
use std::fs::File;
use std::path::Path;

/// Number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNr {
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl DeviceNr {
    /// Reads `MAJOR:MINOR` in decimal.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    pub(super) fn of(number: u64) -> Self {
        Self {
            major: major(number),
            minor: minor(number),
        }
    }
}

/// A file or a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// A file, on the file system with this device number.
    File {
        device: DeviceNr,
        inode: u64,
    },
    Block(DeviceNr),
}

impl Storage {
    pub(super) fn of(file: &File) -> Result<Self, rustix::io::Errno> {
        let stat = rustix::fs::fstat(file)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => Self::Block(DeviceNr::of(stat.st_rdev)),
            _ => Self::File {
                device: DeviceNr::of(stat.st_dev),
                inode: stat.st_ino,
            },
        })
    }

    /// The storage at a path, by cached attributes: the server behind a mount is not queried.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let stat = stat(path)?;
        Some(match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::BlockDevice => Self::Block(DeviceNr {
                major: stat.stx_rdev_major,
                minor: stat.stx_rdev_minor,
            }),
            _ => file(&stat),
        })
    }

    /// The file that the path names, even if it is the node of a block device.
    pub(super) fn node_at(path: &Path) -> Option<Self> {
        Some(file(&stat(path)?))
    }

    /// True when this is `file`.
    pub(super) fn is(&self, file: &File) -> bool {
        Self::of(file).is_ok_and(|found| found == *self)
    }
}

fn file(stat: &rustix::fs::Statx) -> Storage {
    Storage::File {
        device: DeviceNr {
            major: stat.stx_dev_major,
            minor: stat.stx_dev_minor,
        },
        inode: stat.stx_ino,
    }
}

fn stat(path: &Path) -> Option<rustix::fs::Statx> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS).ok()
}
