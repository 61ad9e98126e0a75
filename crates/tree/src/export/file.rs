//! Exports one file: data, symbolic links and nodes.

use super::run::{Run, Spot};
use super::{Devices, Original};
use crate::beneath;
use crate::error::{Damage, InImage, OnHost};
use crate::{Event, PIECE_BYTES, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use uext4::{FileType, Seek};
use uext4_num::{clamp_usize, u64_of};

impl Run<'_, '_> {
    pub(super) fn file(&mut self, spot: &Spot<'_>, from: &Original) -> Result<OwnedFd> {
        let host = self.host(spot);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(spot.dir, spot.name, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(fd.on_host(|| host.clone())?);
        let copied = self.data(&file, from, &host);
        let set = self.export.restore.open(file.as_fd(), from, &host);
        copied?;
        set?;
        Ok(file.into())
    }

    /// Copies the data and preserves holes. A read error truncates the copy at that offset.
    fn data(&mut self, file: &File, from: &Original, host: &Path) -> Result<()> {
        let (mut end, mut length) = (0, 0);
        while end < from.attr.size_bytes {
            let start = match from.fs.seek(&from.inode, end, Seek::Data) {
                Err(uext4::Error::NoOffset) => break,
                other => other.in_image(|| from.path.clone())?,
            };
            let hole = from.fs.seek(&from.inode, start, Seek::Hole);
            end = hole.in_image(|| from.path.clone())?;
            self.range(file, from, start..end, host)?;
            length = end;
        }
        if length < from.attr.size_bytes {
            file.set_len(from.attr.size_bytes).on_host(|| host.into())?;
        }
        Ok(())
    }

    fn range(
        &mut self,
        file: &File,
        from: &Original,
        range: Range<u64>,
        host: &Path,
    ) -> Result<()> {
        let mut offset = range.start;
        while offset < range.end {
            let want = clamp_usize(range.end - offset).min(PIECE_BYTES);
            let piece = self.export.buffer.split_at_mut(want).0;
            let read = match from.fs.read(&from.inode, offset, piece) {
                Ok(read) if read > 0 => read,
                failed => {
                    // The copy ends here; the unreadable range is not filled with zeroes.
                    file.set_len(offset).on_host(|| host.into())?;
                    failed.in_image(|| from.path.clone())?;
                    return Err(from.damaged(Damage::ShortData));
                }
            };
            let written = file.write_all_at(piece.split_at(read).0, offset);
            written.on_host(|| host.into())?;
            offset += u64_of(read);
            self.export.monitor.add_bytes(u64_of(read));
        }
        Ok(())
    }

    /// Creates a symbolic link, device node, pipe or socket; `None` if it is left out.
    pub(super) fn special(&mut self, spot: &Spot<'_>, from: &Original) -> Result<Option<OwnedFd>> {
        use rustix::fs::FileType as Host;
        let (major, minor) = from.attr.rdev;
        let (kind, device) = match from.attr.kind {
            FileType::CharDevice => (Host::CharacterDevice, rustix::fs::makedev(major, minor)),
            FileType::BlockDevice => (Host::BlockDevice, rustix::fs::makedev(major, minor)),
            FileType::Socket => (Host::Socket, 0),
            FileType::Fifo => (Host::Fifo, 0),
            _ => (Host::Symlink, 0),
        };
        let is_device = matches!(kind, Host::CharacterDevice | Host::BlockDevice);
        if is_device && self.export.devices == Devices::Leave {
            self.export.monitor.summary.left_out += 1;
            return Ok(None);
        }
        let made = if kind == Host::Symlink {
            let target = from.fs.read_link(&from.inode);
            let target = target.in_image(|| from.path.clone())?;
            rustix::fs::symlinkat(OsStr::from_bytes(&target), spot.dir, spot.name)
        } else {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(spot.dir, spot.name, kind, mode, device)
        };
        if made.is_err_and(|error| self.export.restore.lacks_privilege(error)) {
            let event = Event::NotPrivileged(&from.path, from.attr.kind);
            self.export.monitor.report(event);
            return Ok(None);
        }
        let host = self.host(spot);
        let fd = made.and_then(|()| beneath::open_made(spot.dir, spot.name, kind, device));
        let fd = fd.on_host(|| host.clone())?;
        self.export.restore.by_handle(fd.as_fd(), from, &host)?;
        Ok(Some(fd))
    }
}
