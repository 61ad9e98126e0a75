//! Changes of file system parameters, as `tune2fs` makes them.
//!
//! Each change is one transaction, or leaves the file system consistent between two. The backups of
//! the superblock are written last, after the primary.
//! Not here: changes that rewrite checksums all over the device. They are refused with a text that
//! names the alternative.
//!
//! References: `tune2fs(8)`.

mod backups;
mod orphan_file;

pub use orphan_file::Presence;

use crate::options::OnError;
use crate::{Error, Filesystem, Fs, Result};
use uext4_format::superblock::ErrorBehaviour;
use uext4_format::{Feature, Superblock};
use uext4_num::clamp_u64;

/// Longest label in bytes.
const LABEL_BYTES: usize = 16;
/// Largest share of blocks reserved for the superuser, in percent.
const RESERVED_PERCENT_MAX: u8 = 50;

/// Parameters to change; `None` leaves one unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// The label, up to 16 bytes.
    pub label: Option<Vec<u8>>,
    /// The UUID.
    pub uuid: Option<[u8; 16]>,
    /// Blocks reserved for the superuser, in percent of all.
    pub reserved_percent: Option<u8>,
    /// The default of `errors=`.
    pub on_error: Option<OnError>,
    /// The feature `orphan_file`.
    pub orphan_file: Option<Presence>,
    /// The feature `fast_commit`.
    pub fast_commit: Option<Presence>,
    /// Enables `metadata_csum_seed`: checksums no longer depend on the UUID.
    pub fix_checksum_seed: bool,
}

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
            change_superblock(fs, tuning)?;
            if let Some(presence) = tuning.orphan_file {
                orphan_file::set(fs, presence)?;
            }
            fs.journal.commit_running()?;
            // Programs that search for labels read the device, not the log.
            let block = fs.superblock.read().block;
            fs.journal.write_home(block)?;
            backups::update(fs)
        })
    }
}

/// All or none, under one hold of the lock, because other threads change their fields.
fn change_superblock(fs: &Fs, tuning: &Tuning) -> Result<()> {
    let handle = fs.start(1)?;
    let mut state = handle.write(&fs.superblock);
    let mut wanted = state.disk.clone();
    apply(&mut wanted, tuning)?;
    state.disk = wanted;
    Ok(())
}

fn apply(disk: &mut Superblock, tuning: &Tuning) -> Result<()> {
    if let Some(label) = &tuning.label {
        if label.len() > LABEL_BYTES {
            return Err(Error::Invalid("a label has up to 16 bytes"));
        }
        disk.volume_name = [0; LABEL_BYTES];
        disk.volume_name[..label.len()].copy_from_slice(label);
    }
    if let Some(percent) = tuning.reserved_percent {
        if percent > RESERVED_PERCENT_MAX {
            return Err(Error::Invalid("at most 50 percent can be reserved"));
        }
        disk.r_blocks_count = clamp_u64(u128::from(disk.blocks_count) * u128::from(percent) / 100);
    }
    if let Some(on_error) = tuning.on_error {
        disk.errors = match on_error {
            OnError::Superblock => disk.errors,
            OnError::Continue => ErrorBehaviour::Continue.raw(),
            OnError::RemountReadOnly => ErrorBehaviour::RemountReadOnly.raw(),
            OnError::Panic => ErrorBehaviour::Panic.raw(),
        };
    }
    if let Some(presence) = tuning.fast_commit {
        set_fast_commit(disk, presence)?;
    }
    if tuning.fix_checksum_seed {
        fix_checksum_seed(disk)?;
    }
    match tuning.uuid {
        Some(uuid) => set_uuid(disk, uuid),
        None => Ok(()),
    }
}

/// The next mount takes the area for fast commits from the end of the log, which is empty then.
fn set_fast_commit(disk: &mut Superblock, wanted: Presence) -> Result<()> {
    let mut features = disk.features();
    match wanted {
        Presence::Present if !features.has(Feature::HAS_JOURNAL) => {
            let problem = "the feature fast_commit needs the feature has_journal";
            return Err(Error::NotSupported(problem));
        }
        Presence::Present => features.insert(Feature::FAST_COMMIT),
        Presence::Absent => features.remove(Feature::FAST_COMMIT),
    }
    disk.set_features(features);
    Ok(())
}

/// Stores the seed that was derived from the UUID in its own field.
fn fix_checksum_seed(disk: &mut Superblock) -> Result<()> {
    let mut features = disk.features();
    if !features.has(Feature::METADATA_CSUM) {
        let problem = "metadata_csum_seed without the feature metadata_csum";
        return Err(Error::NotSupported(problem));
    }
    disk.checksum_seed = disk.seed().0;
    features.insert(Feature::CSUM_SEED);
    disk.set_features(features);
    Ok(())
}

fn set_uuid(disk: &mut Superblock, uuid: [u8; 16]) -> Result<()> {
    let features = disk.features();
    let problem = if disk.uuid == uuid {
        return Ok(());
    } else if features.has(Feature::METADATA_CSUM) && !features.has(Feature::CSUM_SEED) {
        "a new UUID would change every checksum; turn on metadata_csum_seed as well"
    } else if features.has(Feature::UNINIT_BG) && !features.has(Feature::METADATA_CSUM) {
        "a new UUID would change the checksum of every group (uninit_bg)"
    } else if features.has(Feature::HAS_JOURNAL) && disk.journal_inum == 0 {
        "an external journal knows the file system by its UUID"
    } else {
        disk.uuid = uuid;
        return Ok(());
    };
    Err(Error::NotSupported(problem))
}
