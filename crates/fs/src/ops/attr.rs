//! Attributes of an inode for callers.

use crate::state::engine::Fs;
use crate::state::inode::{Inode, flags};
use crate::types::attr::Attr;
use uext4_format::{FileType, Inode as DiskInode, InodeFlags};

/// The inode's attributes at present. Takes the inode's lock shared.
pub(super) fn attr_of(fs: &Fs, inode: &Inode) -> Attr {
    let state = inode.read();
    let disk = &state.disk;
    let kind = disk.file_type().unwrap_or(FileType::Regular);
    let device = match kind {
        FileType::CharDevice | FileType::BlockDevice => disk.device_number(),
        _ => uext4_format::DeviceNumber { major: 0, minor: 0 },
    };
    Attr {
        ino: inode.nr(),
        generation: disk.generation,
        kind,
        mode: disk.mode & 0o7777,
        links: u32::from(disk.links),
        uid: disk.uid,
        gid: disk.gid,
        project: disk.projid,
        rdev: (device.major, device.minor),
        size_bytes: disk.size,
        sectors: disk.sectors(&fs.base.geometry)
            + inline_sectors(disk, kind)
            + delayed_sectors(fs, inode),
        block_size: fs.base.geometry.block_size(),
        atime: disk.atime,
        mtime: disk.mtime,
        ctime: disk.ctime,
        crtime: disk.crtime,
        flags: flags::visible(disk.flags, kind),
    }
}

/// Sectors of data with delayed allocation; users see them as allocated.
fn delayed_sectors(fs: &Fs, inode: &Inode) -> u64 {
    inode.delayed_clusters() << (fs.base.geometry.cluster_bits + fs.base.geometry.block_bits - 9)
}

/// Sectors that inline data would fill. Reported for files, as the kernel does, because archivers
/// take a file without sectors for a hole.
fn inline_sectors(disk: &DiskInode, kind: FileType) -> u64 {
    let is_inline = disk.flags.0 & InodeFlags::INLINE_DATA.0 != 0;
    if is_inline && kind == FileType::Regular {
        disk.size.div_ceil(512)
    } else {
        0
    }
}
