//! The variant `apart`: each worker has a file system of its own in this process, with which it
//! shares nothing but the machine. What more workers could reach at most.

use super::Task;
use crate::backing::BYTES_PER_INODE;
use crate::seat::{LibrarySeat, Seat};
use anyhow::Result;
use std::sync::Arc;
use uext4::mkfs::{self, InodeCount, JournalSize, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions};
use uext4_device::MemDevice;

pub(super) const APART: &str = "apart";

/// A seat in a file system like the one that workers share otherwise.
pub(super) fn seat(task: &Task) -> Result<Box<dyn Seat>> {
    let device = Arc::new(MemDevice::new(task.image_mib << 20));
    let options = MkfsOptions {
        inodes: InodeCount::BytesPerInode(BYTES_PER_INODE),
        journal: JournalSize::Mib(u32::try_from(task.journal_mib)?),
        ..MkfsOptions::new(Preset::Ext4)
    };
    mkfs::format(&*device, &options)?;
    let filesystem = Filesystem::mount(device, MountOptions::default())?;
    Ok(Box::new(LibrarySeat::new(Arc::new(filesystem))?))
}
