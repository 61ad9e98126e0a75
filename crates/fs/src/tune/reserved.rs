//! Files in reserved inodes of a file system without other users: the journal, quota files.
//!
//! Such an inode is in use in its bitmap from the start, and has no name. Its first bytes are
//! written between two mounts, because a mount that finds it empty refuses to load it.

use crate::inode::InodeRef;
use crate::superblock::{SUPERBLOCK_OFFSET, read_superblock};
use crate::{Error, Filesystem, Fs, MountOptions, Result, file, space};
use uext4_device::BlockDevice;
use uext4_format::extent::ExtentNode;
use uext4_format::{
    Feature, FileType, Inode, InodeFlags, InodeNr, KNOWN_EXTRA_BYTES, Superblock, Timestamp,
};
use uext4_sync::Arc;

/// Changes the superblock of a file system that is not mounted; answers it as it was.
pub(super) fn change(
    device: &Arc<dyn BlockDevice>,
    change: impl FnOnce(&mut Superblock),
) -> Result<Superblock> {
    let before = read_superblock(&**device, None)?;
    let mut disk = before.clone();
    change(&mut disk);
    device.write_at(SUPERBLOCK_OFFSET, &disk.to_bytes())?;
    device.flush()?;
    Ok(before)
}

/// Works on a mount of its own.
pub(super) fn on_mount<T>(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    work: impl FnOnce(&Fs) -> Result<T>,
) -> Result<T> {
    let fs = Filesystem::mount(device.clone(), options.clone())?;
    let done = fs.change(work);
    fs.unmount()?;
    done
}

/// A reserved inode that [`write_inode`] has written.
pub(super) fn load(fs: &Fs, nr: InodeNr) -> Result<InodeRef> {
    Ok(InodeRef::new(fs.load_inode(nr)?))
}

/// An empty regular file.
pub(super) fn new_inode(disk: &Superblock, options: &MountOptions) -> Result<Inode> {
    let geometry = disk.geometry()?;
    let mut inode = Inode::new(&geometry, KNOWN_EXTRA_BYTES);
    inode.mode = FileType::Regular.mode_bits() | 0o600;
    inode.links = 1;
    let now = options.clock.wall();
    let now = Timestamp::new(now.seconds, now.nanoseconds);
    let now = now.as_stored(inode.times_have_extra());
    (inode.atime, inode.mtime, inode.ctime) = (now, now, now);
    if geometry.features.has(Feature::EXTENTS) {
        inode.flags.insert(InodeFlags::EXTENTS);
        ExtentNode::init_root(&mut inode.i_block[..], 0);
    }
    Ok(inode)
}

/// Reads an inode of a file system that is not mounted; `None` if it is unused.
pub(super) fn read_inode(device: &Arc<dyn BlockDevice>, nr: InodeNr) -> Result<Option<Inode>> {
    let disk = read_superblock(&**device, None)?;
    let (geometry, checksums) = (disk.geometry()?, disk.checksums());
    let at = space::inode_byte(&**device, &checksums, &geometry, nr)?;
    let at = at.ok_or(Error::Invalid("a file system without reserved inodes"))?;
    let mut bytes = vec![0; usize::from(geometry.inode_size)];
    device.read_at(at, &mut bytes)?;
    // Zeroes have no checksum.
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let inode = Inode::parse(&bytes, nr, &geometry, &checksums)?;
    Ok(Some(inode).filter(|inode| inode.mode != 0 && inode.links != 0))
}

/// Frees what an interrupted change has left in the inode: no file system refers to it.
pub(super) fn empty_inode(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    nr: InodeNr,
) -> Result<()> {
    match read_inode(device, nr)? {
        Some(_) => on_mount(device, options, |fs| {
            file::truncate(fs, load(fs, nr)?.arc(), 0)
        }),
        None => Ok(()),
    }
}

/// Makes the inode unused again, whose blocks are free.
pub(super) fn clear_inode(device: &Arc<dyn BlockDevice>, nr: InodeNr) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    write_inode(device, nr, &Inode::new(&disk.geometry()?, 0))
}

/// Writes an inode of a file system that is not mounted.
pub(super) fn write_inode(device: &Arc<dyn BlockDevice>, nr: InodeNr, inode: &Inode) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let (geometry, checksums) = (disk.geometry()?, disk.checksums());
    let at = space::inode_byte(&**device, &checksums, &geometry, nr)?;
    let at = at.ok_or(Error::Invalid("a file system without reserved inodes"))?;
    let mut bytes = vec![0; usize::from(geometry.inode_size)];
    inode.write_to(&mut bytes, nr, &geometry, &checksums);
    device.write_at(at, &bytes)?;
    Ok(device.flush()?)
}
