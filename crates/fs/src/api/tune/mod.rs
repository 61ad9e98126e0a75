//! Changes of file system parameters, as `tune2fs` makes them.
//!
//! Each change is one transaction, or leaves the file system consistent between two. The backups of
//! the superblock are written last, after the primary.
//! Layout: `fields` and `features` change the superblock only, `hash_seed` and `users` say when
//! they may; `read_only` ends a feature that a mount respects; `orphan_file` and `mmp` have
//! structures of their own; `journal` (with `log_length`) and `quota` add and remove files in
//! `reserved` inodes, between mounts; `convert` makes an ext4 of an older one, and `use_extents`
//! gives extents to its files; `reseal` rewrites checksums all over the device, without a mount.
//!
//! References: `tune2fs(8)`.

mod backups;
mod convert;
mod features;
mod fields;
mod hash_seed;
mod journal;
mod log_length;
mod mmp;
mod orphan_file;
mod quota;
mod read_only;
mod reseal;
mod reserved;
mod tuning;
mod use_extents;
mod users;

pub use convert::convert;
pub use journal::{InternalJournal, Journal, set_journal};
pub use mmp::clear_mmp;
pub use quota::set_quota;
pub use read_only::clear_read_only;
pub use reseal::reseal;
pub use tuning::{CheckTimes, MountDefaults, Raid, Tuning};
pub use uext4_offline::{Presence, Reseal};
pub use use_extents::{ExtentsProgress, ExtentsUsed, use_extents};

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::types::error::{Error, Result};
use uext4_format::{Feature, Superblock};
use uext4_offline::fixed_uuid;

impl Filesystem {
    /// Changes parameters, all or none of those in the superblock. A label may change at any time.
    /// For the other changes the caller must be the only user, and unmount the file system next,
    /// because cached state may be outdated. Waits while the file system is frozen or remounted.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid value, [`Error::NotSupported`] with the reason for a
    /// change that this file system does not allow.
    pub fn tune(&self, tuning: &Tuning) -> Result<()> {
        self.change(|fs| {
            fs.writable()?;
            if tuning.hash_seed.is_some() {
                hash_seed::check(fs)?;
            }
            for (feature, wanted) in &tuning.features {
                if *wanted == Presence::Absent && fs.base.features.has(*feature) {
                    users::refuse(fs, *feature)?;
                }
            }
            let orphan_blocks = tuning.orphan_file_blocks;
            let turned_on = (Feature::ORPHAN_FILE, Presence::Present);
            if orphan_blocks.is_some() && !tuning.features.contains(&turned_on) {
                return Err(Error::Invalid(
                    "the size of an orphan file goes with the feature orphan_file",
                ));
            }
            change_superblock(fs, tuning)?;
            for (feature, wanted) in &tuning.features {
                match *feature {
                    Feature::ORPHAN_FILE => orphan_file::set(fs, *wanted, orphan_blocks)?,
                    Feature::MMP => mmp::set(fs, *wanted)?,
                    _ => {}
                }
            }
            fs.base.journal.commit_running()?;
            // Programs that search for labels read the device, not the log.
            let block = fs.base.superblock.read().block;
            fs.base.journal.write_home(block)?;
            backups::update(fs)
        })
    }
}

/// All or none, under one hold of the lock, because other threads change their fields.
fn change_superblock(fs: &Fs, tuning: &Tuning) -> Result<()> {
    let handle = fs.start(1)?;
    let mut state = handle.write(&fs.base.superblock);
    let mut wanted = state.disk.clone();
    apply(&mut wanted, tuning)?;
    state.disk = wanted;
    Ok(())
}

fn apply(disk: &mut Superblock, tuning: &Tuning) -> Result<()> {
    fields::apply(disk, tuning)?;
    for (feature, wanted) in &tuning.features {
        match *feature {
            Feature::ORPHAN_FILE | Feature::MMP => {}
            feature => features::apply(disk, feature, *wanted)?,
        }
    }
    match tuning.uuid {
        Some(uuid) => set_uuid(disk, uuid),
        None => Ok(()),
    }
}

fn set_uuid(disk: &mut Superblock, uuid: [u8; 16]) -> Result<()> {
    let has = |feature| disk.features().has(feature);
    let problem = if disk.uuid == uuid {
        return Ok(());
    } else if let Some(problem) = fixed_uuid(disk) {
        problem
    } else if has(Feature::METADATA_CSUM) && !has(Feature::CSUM_SEED) {
        "a new UUID changes every checksum, which `reseal` does without a mount"
    } else if has(Feature::UNINIT_BG) && !has(Feature::METADATA_CSUM) {
        "a new UUID changes the checksum of every group (uninit_bg), which `reseal` does without a \
         mount"
    } else if has(Feature::EA_INODE) && !has(Feature::CSUM_SEED) {
        "a new UUID changes the hashes of attributes in inodes (ea_inode), which `reseal` does \
         without a mount"
    } else {
        disk.uuid = uuid;
        return Ok(());
    };
    Err(Error::NotSupported(problem))
}
