//! Creates file systems, as mke2fs 1.47 does.
//!
//! [`format()`] plans everything in memory (numbers, places, contents) and then writes it, the
//! primary superblock last: after a failure the device holds no file system. With fixed UUID, hash
//! seed and time, the same options give the same bytes.
//!
//! Layout: `draft` the order of things, `sizing` numbers, `layout` bitmaps and tables, `files`
//! initial inodes, `mapping` their maps, `resize_inode` the map of reserved descriptor blocks,
//! `write` bytes, `journal_device` external journals, `growth` groups behind the end of a file
//! system that exists, `directory` directories with given names.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod compat;
pub mod directory;
mod draft;
mod entropy;
mod error;
mod features;
mod files;
mod growth;
mod journal_device;
mod journal_size;
mod layout;
mod mapping;
mod options;
mod quota;
mod resize_inode;
mod sizing;
mod space;
mod write;

#[cfg(test)]
mod tests;

pub use compat::{Release, UnknownRelease};
pub use draft::{Contents, Draft, Plan, journal_superblock, plan};
pub use entropy::random_uuid;
pub use error::Error;
pub use files::{journal_backup, journal_of_backup};
pub use growth::{AddedGroups, add_groups};
pub use journal_device::{
    JournalDeviceOptions, add_journal_user, format_journal_device, journal_device_uuid,
    remove_journal_user,
};
pub use journal_size::{
    JOURNAL_BLOCKS, LogLength, default_journal_blocks, default_orphan_file_blocks,
};
pub use mapping::{FileMap, block_tables, extent_tree};
pub use options::{
    DeviceContents, ExternalJournal, InodeCount, InodeTables, JournalPlace, JournalSize,
    MkfsOptions, Placement, Preset, Usage,
};
pub use quota::{Usages, render as quota_file};
pub use resize_inode::{ResizeMap, resize_map};
pub use sizing::{last_group_has_room, usual_inodes};

pub use write::wipe;

use uext4_device::BlockDevice;
use uext4_format::{Features, Geometry, Inode, InodeNr, Superblock};

/// Properties of the new file system.
#[derive(Clone, Debug)]
pub struct MkfsReport {
    /// The primary superblock, as written.
    pub superblock: Superblock,
    /// Block size, groups and the other sizes of the new file system.
    pub geometry: Geometry,
    /// Length of the journal in blocks; 0: none.
    pub journal_blocks: u32,
    /// Requested features that were left out, because the file system is too small or too large for
    /// them, or because another feature replaces them.
    pub dropped_features: Features,
}

/// Creates a file system on the device.
///
/// Flushes the device before and after the write of the primary superblock.
///
/// # Errors
/// [`Error`]; the device then holds no file system unless the last write failed.
pub fn format(device: &dyn BlockDevice, options: &MkfsOptions) -> Result<MkfsReport, Error> {
    let mut plan = draft::plan(options, device.size_bytes())?;
    let uuid = match options.uuid {
        Some(uuid) => uuid,
        None => entropy::random_uuid(),
    };
    let hash_seed = options.hash_seed.unwrap_or_else(entropy::random_uuid);
    let time = options.time.unwrap_or_else(entropy::now);
    plan.identify(options, uuid, hash_seed, time)?;
    let mut draft = Draft::new(plan, options)?;
    draft.allocate_group_metadata()?;
    draft.add_all()?;
    if options.contents == DeviceContents::Unknown {
        let geometry = &draft.geometry;
        wipe(device, geometry.size_bytes(), geometry.block_size())?;
    }
    draft.write(
        device,
        std::iter::empty::<Result<(InodeNr, Inode), Error>>(),
    )?;
    Ok(MkfsReport {
        dropped_features: difference(options.features, draft.superblock.features()),
        journal_blocks: draft.journal_blocks(),
        geometry: draft.geometry,
        superblock: draft.superblock,
    })
}

fn difference(wanted: Features, made: Features) -> Features {
    Features {
        compat: wanted.compat & !made.compat,
        ro_compat: wanted.ro_compat & !made.ro_compat,
        incompat: wanted.incompat & !made.incompat,
    }
}
