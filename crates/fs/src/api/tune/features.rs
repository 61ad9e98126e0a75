//! Features that are turned on or off by a change of the superblock alone.
//!
//! Turned off are only features whose traces no program would misread.
//! Not here: features with a structure of their own ([`orphan_file`](super::orphan_file),
//! [`mmp`](super::mmp)).

use super::log_length::known_bytes;
use crate::types::error::{Error, Result};
use uext4_format::{Feature, KNOWN_EXTRA_BYTES, Seed, Superblock};
use uext4_offline::Presence;

/// Features that can be turned on: existing files stay as they are.
const ON: &[Feature] = &[
    Feature::DIR_INDEX,
    Feature::FAST_COMMIT,
    Feature::STABLE_INODES,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::PROJECT,
    Feature::VERITY,
    Feature::EXTENTS,
    Feature::EA_INODE,
    Feature::CSUM_SEED,
    Feature::LARGE_DIR,
    Feature::ENCRYPT,
    Feature::CASEFOLD,
    Feature::FLEX_BG,
    Feature::READONLY,
];

/// Features that can be turned off; [`users`](super::users) says when.
const OFF: &[Feature] = &[
    Feature::DIR_INDEX,
    Feature::LARGE_FILE,
    Feature::FLEX_BG,
    Feature::FAST_COMMIT,
    Feature::STABLE_INODES,
    Feature::CSUM_SEED,
];

/// The shortest log of jbd2, and the area of fast commits behind it.
const LOG_BLOCKS_FOR_FAST_COMMITS: u64 = 1024 + 256;

const SIZE_OF_DESCRIPTORS: &str = "64bit changes the size of descriptors, which \
                                   `resize::set_descriptor_size` does without a mount";

/// Each feature and the one that it needs, with the problem otherwise.
const NEEDS: &[(Feature, Feature, &str)] = &[
    (
        Feature::FAST_COMMIT,
        Feature::HAS_JOURNAL,
        "the feature fast_commit needs the feature has_journal",
    ),
    (
        Feature::CSUM_SEED,
        Feature::METADATA_CSUM,
        "metadata_csum_seed without the feature metadata_csum",
    ),
    (
        Feature::VERITY,
        Feature::EXTENTS,
        "the feature verity needs the feature extent",
    ),
    (
        Feature::EA_INODE,
        Feature::EXT_ATTR,
        "the feature ea_inode needs the feature ext_attr",
    ),
];

/// Turns a feature on or off in the superblock.
///
/// # Errors
/// [`Error::NotSupported`] names what is missing.
pub(super) fn apply(disk: &mut Superblock, feature: Feature, wanted: Presence) -> Result<()> {
    match (wanted, disk.features().has(feature)) {
        (Presence::Present, false) => turn_on(disk, feature),
        (Presence::Absent, true) => turn_off(disk, feature),
        _ => Ok(()),
    }
}

fn turn_on(disk: &mut Superblock, feature: Feature) -> Result<()> {
    let mut features = disk.features();
    if let Some((.., problem)) = NEEDS
        .iter()
        .find(|(of, needs, _)| *of == feature && !features.has(*needs))
    {
        return Err(Error::NotSupported(problem));
    }
    if !ON.contains(&feature) {
        return Err(Error::NotSupported(match feature {
            Feature::SIXTY_FOUR_BIT => SIZE_OF_DESCRIPTORS,
            Feature::RESIZE_INODE => {
                "resize_inode cannot be turned on here: the blocks behind the descriptors may be \
                 in use; a growth turns to meta_bg instead"
            }
            _ => "this feature cannot be turned on here",
        }));
    }
    let wide = [Feature::EXTRA_ISIZE, Feature::PROJECT];
    if wide.contains(&feature) && disk.inode_size < 256 {
        return Err(Error::NotSupported(
            "the features extra_isize and project need inodes of 256 bytes",
        ));
    }
    match feature {
        Feature::FAST_COMMIT => check_log(disk)?,
        Feature::CSUM_SEED => disk.checksum_seed = disk.seed().0,
        Feature::EXTRA_ISIZE => {
            disk.min_extra_isize = disk.min_extra_isize.max(KNOWN_EXTRA_BYTES);
            disk.want_extra_isize = disk.want_extra_isize.max(KNOWN_EXTRA_BYTES);
        }
        // AES-256-XTS and AES-256-CTS.
        Feature::ENCRYPT => disk.encrypt_algos = [1, 4, 0, 0],
        // UTF-8 with the tables of Unicode 12.1.
        Feature::CASEFOLD => disk.encoding = 1,
        _ => {}
    }
    features.insert(feature);
    disk.set_features(features);
    Ok(())
}

/// Linux mounts nothing whose log is too short for fast commits.
fn check_log(disk: &Superblock) -> Result<()> {
    let blocks = known_bytes(disk).map(|bytes| bytes >> 10 >> disk.log_block_size.min(31));
    if blocks.is_some_and(|blocks| blocks < LOG_BLOCKS_FOR_FAST_COMMITS) {
        Err(Error::NotSupported(
            "fast_commit needs a journal of at least 1280 blocks; replace it by a larger one first",
        ))
    } else {
        Ok(())
    }
}

fn turn_off(disk: &mut Superblock, feature: Feature) -> Result<()> {
    if !OFF.contains(&feature) {
        return Err(Error::NotSupported(match feature {
            Feature::SIXTY_FOUR_BIT => SIZE_OF_DESCRIPTORS,
            Feature::UNINIT_BG => {
                "uninit_bg off gives bitmaps to all groups, which `reseal` does without a mount"
            }
            _ => "this feature cannot be turned off here",
        }));
    }
    let is_derived = disk.checksum_seed == Seed::from_uuid(&disk.uuid).0;
    if feature == Feature::CSUM_SEED && !is_derived {
        return Err(Error::NotSupported(
            "metadata_csum_seed off: the stored seed is not that of the UUID, so every checksum \
             would change",
        ));
    }
    let mut features = disk.features();
    features.remove(feature);
    disk.set_features(features);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_turned_off_can_be_turned_on() {
        assert!(OFF.iter().all(|feature| ON.contains(feature)));
        assert!(NEEDS.iter().all(|(feature, ..)| ON.contains(feature)));
    }
}
