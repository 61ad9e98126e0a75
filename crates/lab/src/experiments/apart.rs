//! Variant `apart`: each worker has a private file system in its process and shares only the
//! machine. An upper bound for more workers. `apart: linear` has the set-up of the variant
//! `linear`.

use super::setup::setup;
use super::task::Task;
use crate::backing::BYTES_PER_INODE;
use crate::client::{Client, LibraryClient};
use crate::system::System;
use anyhow::{Context, Result, anyhow};
use std::sync::Arc;
use uext4::mkfs::{self, InodeCount, JournalSize, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions};
use uext4_device::MemDevice;

pub(super) const APART: &str = "apart";
const OF_VARIANT: &str = "apart: ";

/// The name of this variant for workers that are apart.
pub(crate) fn of_variant(variant: &str) -> String {
    format!("{OF_VARIANT}{variant}")
}

/// The variant whose set-up a worker that is apart has; `None`: it is not apart.
pub(super) fn inner(variant: &str) -> Option<&str> {
    if variant == APART {
        Some(variant)
    } else {
        variant.strip_prefix(OF_VARIANT)
    }
}

/// A client of a private file system, formatted like the shared one.
pub(super) fn client(task: &Task) -> Result<Box<dyn Client>> {
    let setup = setup(task.experiment, &task.variant, System::Uext4);
    let setup = setup.context("a variant of the library")?;
    let device = Arc::new(MemDevice::new(task.image_mib << 20));
    let mut options = MkfsOptions {
        inodes: InodeCount::BytesPerInode(BYTES_PER_INODE),
        journal: JournalSize::Mib(u32::try_from(task.journal_mib)?),
        ..MkfsOptions::new(Preset::Ext4)
    };
    let features = options.features.apply_list(&setup.features);
    features.map_err(|error| anyhow!("{error:?}"))?;
    mkfs::format(&*device, &options)?;
    let mut options = MountOptions::default().parse(&setup.options)?;
    options.base_lines = setup.base_lines;
    let filesystem = Filesystem::mount(device, options)?;
    Ok(Box::new(LibraryClient::new(Arc::new(filesystem))?))
}
