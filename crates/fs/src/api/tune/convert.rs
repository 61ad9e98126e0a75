//! Conversion of ext2 and ext3 to ext4, in place.
//!
//! It adds a journal and the features that need no change of what is there, as the kernel and
//! tune2fs allow for an existing file system. Each of the two steps is complete or absent after a
//! crash, and another call continues.
//! Not here: maps of existing files (`use_extents`); inode size; checksums (`reseal`).

use super::journal::{InternalJournal, Journal, set_journal};
use super::tuning::Tuning;
use crate::mount::check_sound;
use crate::ops::filesystem::Filesystem;
use crate::state::superblock::read_superblock;
use crate::types::error::{Error, Result};
use crate::types::options::MountOptions;
use uext4_device::BlockDevice;
use uext4_format::{Feature, GOOD_OLD_INODE_BYTES, Superblock};
use uext4_offline::Presence;
use uext4_sync::Arc;

const FEATURES: [Feature; 6] = [
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::DIR_INDEX,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::EXTENTS,
];

/// Makes an ext4 of the file system on `device`, of which the caller is the only user; returns the
/// features that it got. A journal that it gets has `journal_blocks`, or as many as by mke2fs.
///
/// # Errors
/// [`Error::NotSupported`] for an external journal; [`Error::NoSpace`]; [`Error::Resize`] if e2fsck
/// has to run first; those of [`Filesystem::mount`].
pub fn convert(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    journal_blocks: Option<u32>,
) -> Result<Vec<Feature>> {
    let disk = read_superblock(&**device, None)?;
    if disk.features().has(Feature::JOURNAL_DEV) {
        return Err(Error::NotSupported("it is a journal, with no files"));
    }
    check_sound(device, options)?;
    let mut added = missing(&disk);
    let tuning = Tuning {
        features: added.iter().map(|one| (*one, Presence::Present)).collect(),
        ..Tuning::default()
    };
    if !disk.features().has(Feature::HAS_JOURNAL) {
        let journal = InternalJournal {
            blocks: journal_blocks,
            ..InternalJournal::default()
        };
        set_journal(device, options, Journal::Internal(journal))?;
        added.push(Feature::HAS_JOURNAL);
    }
    if !tuning.features.is_empty() {
        let fs = Filesystem::mount(device.clone(), options.clone())?;
        let done = fs.tune(&tuning);
        let closed = fs.unmount();
        done.and(closed)?;
    }
    Ok(added)
}

/// Features that are off and can be turned on.
fn missing(disk: &Superblock) -> Vec<Feature> {
    let is_wide = usize::from(disk.inode_size) > GOOD_OLD_INODE_BYTES;
    FEATURES
        .into_iter()
        .filter(|feature| {
            !disk.features().has(*feature) && (*feature != Feature::EXTRA_ISIZE || is_wide)
        })
        .collect()
}
