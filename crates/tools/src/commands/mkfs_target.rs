//! Target of mkfs: a new file, an existing file, a block device, or none in a dry run.

use crate::failure::{At, Exit, Failure, Result};
use crate::location::Location;
use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use uext4::device::{self, BlockDevice, FileDevice};
use uext4::mkfs::{DeviceContents, MkfsOptions, Usage};
use uext4_num::u64_of;
use uext4_sync::Arc;

/// Path and size of the new file system.
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    pub(super) place: &'a Location,
    pub(super) size_bytes: Option<u64>,
    pub(super) force: bool,
}

impl Target<'_> {
    /// Opens or creates the target. Without `--force` it refuses a target that holds data, before
    /// it writes anything.
    pub(super) fn device(&self, options: &mut MkfsOptions) -> Result<Arc<dyn BlockDevice>> {
        let path = self.path;
        let name = path.display().to_string();
        let Ok(there) = std::fs::metadata(path) else {
            let size = self.size_bytes.ok_or_else(|| no_size(path))?;
            if self.place.is_part() {
                return Err(Failure::new(Exit::Failed, format!("{name}: no such file")));
            }
            options.contents = DeviceContents::Zeroed;
            return Ok(Arc::new(FileDevice::create(path, size).at(&name)?));
        };
        let is_device = there.file_type().is_block_device();
        if is_device || self.place.is_part() {
            device::refuse_planted(path).at(&name)?;
            let device = self.reopen(&there)?;
            self.check_unused(&*device)?;
            uext4::refuse_other_hosts(&device).at(&name)?;
            options.contents = DeviceContents::Unknown;
            self.limit(options);
            return Ok(device);
        }
        let reader = self.place.open(path, device::Access::ReadOnly).at(&name)?;
        self.check_unused(&*reader)?;
        uext4::refuse_other_hosts(&reader).at(&name)?;
        let size = self.size_bytes.unwrap_or(there.len());
        if size == 0 {
            return Err(no_size(path));
        }
        options.contents = DeviceContents::Zeroed;
        // What cannot be made is refused before the old content goes.
        uext4::mkfs::format(&Imagined { size_bytes: size }, options).at(&name)?;
        match FileDevice::create(path, size) {
            // Files of nbdfuse, which exports remote devices, have a fixed size.
            Err(error) if size == there.len() && has_fixed_size(&error) => {
                options.contents = DeviceContents::Unknown;
                self.reopen(&there)
            }
            created => Ok(Arc::new(created.at(&name)?)),
        }
    }

    /// Opens what `there` was found at the path, to write, if it is still there.
    fn reopen(&self, there: &Metadata) -> Result<Arc<dyn BlockDevice>> {
        let name = self.path.display();
        let opened = self.place.open(self.path, device::Access::ReadWrite);
        let opened = opened.at(&name)?;
        device::refuse_swapped(self.path, there, &*opened).at(&name)?;
        Ok(opened)
    }

    /// A device of the target's size for a dry run. A note reports existing content.
    pub(super) fn imagined(&self, options: &mut MkfsOptions) -> Result<Imagined> {
        options.contents = DeviceContents::Zeroed;
        let name = self.path.display().to_string();
        let there = match std::fs::metadata(self.path) {
            Ok(there) => there,
            Err(_) if self.place.is_part() => {
                return Err(Failure::new(Exit::Failed, format!("{name}: no such file")));
            }
            Err(_) => {
                let size_bytes = self.size_bytes.ok_or_else(|| no_size(self.path))?;
                return Ok(Imagined { size_bytes });
            }
        };
        let reader = self.place.open(self.path, device::Access::ReadOnly);
        let reader = reader.at(&name)?;
        if let Some(what) = find_signature(&*reader).at(&name)?.filter(|_| !self.force) {
            crate::failure::info(format_args!(
                "{name}: holds {what} already; --force would overwrite it"
            ));
        }
        let keeps_size = there.file_type().is_block_device() || self.place.is_part();
        let size_bytes = match (keeps_size, self.size_bytes) {
            (false, Some(size_bytes)) => size_bytes,
            _ => reader.size_bytes(),
        };
        if size_bytes == 0 {
            return Err(no_size(self.path));
        }
        if keeps_size {
            self.limit(options);
        }
        Ok(Imagined { size_bytes })
    }

    /// Limits the file system to the given size. The number of blocks depends on the block size,
    /// so that is settled as well.
    fn limit(&self, options: &mut MkfsOptions) {
        let Some(size) = self.size_bytes else {
            return;
        };
        let usual = match Usage::of_size(size) {
            Usage::Floppy | Usage::Small => 1024,
            _ => 4096,
        };
        let block_size = *options.block_size.get_or_insert(usual);
        options.blocks_count = Some(size / u64::from(block_size.max(1)));
    }

    fn check_unused(&self, device: &dyn BlockDevice) -> Result<()> {
        check_unused(device, self.force)
    }
}

/// Refuses a path that holds a file system or a partition table, without `force`. A path that does
/// not exist is free.
pub(super) fn check_free(path: &Path, force: bool) -> Result<()> {
    if std::fs::metadata(path).is_err() {
        return Ok(());
    }
    let device = FileDevice::open(path, device::Access::ReadOnly).at(path.display())?;
    check_unused(&device, force)
}

/// Refuses a device that holds something, without `--force`.
pub(super) fn check_unused(device: &dyn BlockDevice, force: bool) -> Result<()> {
    let name = device.describe();
    match find_signature(device).at(&name)? {
        Some(what) if !force => {
            let text = format!("{name}: holds {what} already, and nothing was written");
            Err(Failure::new(Exit::Failed, text).hint("--force overwrites it"))
        }
        _ => Ok(()),
    }
}

/// A device for dry runs: reads return zeroes, and writes are discarded.
pub(super) struct Imagined {
    size_bytes: u64,
}

impl BlockDevice for Imagined {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, _offset: u64, buf: &mut [u8]) -> std::result::Result<(), device::Error> {
        buf.fill(0);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _buf: &[u8]) -> std::result::Result<(), device::Error> {
        Ok(())
    }

    fn flush(&self) -> std::result::Result<(), device::Error> {
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "a dry run".into()
    }
}

fn no_size(path: &Path) -> Failure {
    Failure::usage(format!(
        "{}: how large? Add --size, for example --size 2G",
        path.display()
    ))
}

/// Signatures of content to protect: byte offset, bytes, description.
const SIGNATURES: &[(u64, &[u8], &str)] = &[
    (1080, b"\x53\xEF", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (65600, b"_BHRfS_M", "a Btrfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (0, b"hsqs", "a squashfs"),
    (1024, b"\xE2\xE1\xF5\xE0", "an EROFS"),
    (1024, b"\x10\x20\xF5\xF2", "an F2FS"),
    (32769, b"CD001", "an ISO 9660 file system"),
    (0, b"LUKS\xBA\xBE", "an encrypted volume"),
    (0, b"QFI\xFB", "a qcow2 image"),
    (0, b"\x3A\xFF\x26\xED", "an Android sparse image"),
    (0, b"verity\0\0", "a hash tree of dm-verity"),
    (512, b"EFI PART", "a partition table"),
    (536, b"LVM2 001", "an LVM volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (510, b"\x55\xAA", "a partition table or boot sector"),
];

fn find_signature(
    device: &dyn BlockDevice,
) -> std::result::Result<Option<&'static str>, device::Error> {
    for (offset, mark, what) in SIGNATURES {
        let mut bytes = vec![0; mark.len()];
        if offset + u64_of(mark.len()) > device.size_bytes() {
            continue;
        }
        device.read_at(*offset, &mut bytes)?;
        if bytes == *mark {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// True if the host's file system cannot change the size of the file.
fn has_fixed_size(error: &device::Error) -> bool {
    let device::Error::Io { source, .. } = error else {
        return false;
    };
    source.kind() == std::io::ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_the_checked_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("image"), dir.path().join("other"));
        std::fs::write(&path, [1; 4096]).unwrap();
        std::fs::write(&other, [2; 4096]).unwrap();
        let there = path.metadata().unwrap();
        let target = Target {
            path: &path,
            place: &Location::default(),
            size_bytes: None,
            force: true,
        };
        assert!(target.reopen(&there).is_ok());
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(target.reopen(&there).is_err());
    }
}
