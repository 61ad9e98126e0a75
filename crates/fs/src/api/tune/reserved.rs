//! Files in reserved inodes of a file system without other users: the journal, quota files.
//!
//! Such an inode is in use in its bitmap from the start, and has no name. Its first bytes are
//! written between two mounts, because a mount that finds it empty refuses to load it.

use crate::mount::recovered_volume;
use crate::ops::filesystem::Filesystem;
use crate::parts::file;
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::state::superblock::read_superblock;
use crate::types::error::{Error, Result};
use crate::types::options::MountOptions;
use uext4_device::BlockDevice;
use uext4_format::extent::ExtentNode;
use uext4_format::superblock::SUPERBLOCK_OFFSET;
use uext4_format::{
    Feature, FileType, Inode, InodeFlags, InodeNr, KNOWN_EXTRA_BYTES, Superblock, Timestamp,
};
use uext4_sync::Arc;
use uext4_volume::inode_byte;

/// Works on the device of a file system that is not mounted, under its claim. `options` name the
/// journal that it has before.
pub(super) fn at_rest<T>(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    work: impl FnOnce(&Arc<dyn BlockDevice>) -> Result<T>,
) -> Result<T> {
    let volume = recovered_volume(device, options)?;
    let done = work(volume.device());
    let released = volume.release();
    done.and_then(|done| Ok(released.map(|()| done)?))
}

/// Changes the superblock of a file system that is not mounted.
pub(super) fn change(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    change: impl FnOnce(&mut Superblock),
) -> Result<()> {
    at_rest(device, options, |device| write_superblock(device, change))
}

/// As [`change`], for a caller with the claim.
pub(super) fn write_superblock(
    device: &Arc<dyn BlockDevice>,
    change: impl FnOnce(&mut Superblock),
) -> Result<()> {
    let mut disk = read_superblock(&**device, None)?;
    change(&mut disk);
    device.write_at(SUPERBLOCK_OFFSET, &disk.to_bytes())?;
    Ok(device.flush()?)
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

/// An empty regular file with mode `0o600` and one link.
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
    let at = inode_byte(&**device, &checksums, &geometry, nr)?;
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

/// Makes inodes unused again, whose blocks are free.
pub(super) fn clear_inodes(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    numbers: &[InodeNr],
) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    write_inodes(device, options, numbers, &Inode::new(&disk.geometry()?, 0))
}

/// Writes inodes of a file system that is not mounted, each as `inode`.
pub(super) fn write_inodes(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    numbers: &[InodeNr],
    inode: &Inode,
) -> Result<()> {
    if numbers.is_empty() {
        return Ok(());
    }
    at_rest(device, options, |device| {
        numbers
            .iter()
            .try_for_each(|nr| write_inode(device, *nr, inode))
    })
}

fn write_inode(device: &Arc<dyn BlockDevice>, nr: InodeNr, inode: &Inode) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let (geometry, checksums) = (disk.geometry()?, disk.checksums());
    let at = inode_byte(&**device, &checksums, &geometry, nr)?;
    let at = at.ok_or(Error::Invalid("a file system without reserved inodes"))?;
    let mut bytes = vec![0; usize::from(geometry.inode_size)];
    inode.write_to(&mut bytes, nr, &geometry, &checksums);
    device.write_at(at, &bytes)?;
    Ok(device.flush()?)
}
