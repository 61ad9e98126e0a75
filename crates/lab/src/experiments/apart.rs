//! Variant `apart`: each worker has a private file system in this process and shares only the
//! machine. An upper bound for more workers.

use super::Task;
use crate::backing::BYTES_PER_INODE;
use crate::client::{Client, LibraryClient};
use anyhow::Result;
use std::sync::Arc;
use uext4::mkfs::{self, InodeCount, JournalSize, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions};
use uext4_device::MemDevice;

pub(super) const APART: &str = "apart";

/// A client of a private file system, formatted like the shared one.
pub(super) fn client(task: &Task) -> Result<Box<dyn Client>> {
    let device = Arc::new(MemDevice::new(task.image_mib << 20));
    let options = MkfsOptions {
        inodes: InodeCount::BytesPerInode(BYTES_PER_INODE),
        journal: JournalSize::Mib(u32::try_from(task.journal_mib)?),
        ..MkfsOptions::new(Preset::Ext4)
    };
    mkfs::format(&*device, &options)?;
    let filesystem = Filesystem::mount(device, MountOptions::default())?;
    Ok(Box::new(LibraryClient::new(Arc::new(filesystem))?))
}
