//! Feature checks: which images may be mounted, and how.

use crate::{Access, Error, Result};
use uext4_format::{Feature, FeatureSet, Superblock, Support};

/// The last known revision of the format. A later one is mounted read-only, as in the kernel.
pub const REVISION_MAX: u32 = 1;

/// Known read-only compatible features that a writer must maintain and this engine does not: such
/// images are mounted read-only.
const READ_ONLY: &[Feature] = &[Feature::VERITY, Feature::SHARED_BLOCKS];

/// Incompatible features that make files unreadable here.
const REFUSED: &[Feature] = &[Feature::CASEFOLD, Feature::ENCRYPT];

/// Features of names and data that a check and a repair of metadata can do without, or know.
const OF_CONTENTS: &[Feature] = &[
    Feature::CASEFOLD,
    Feature::ENCRYPT,
    Feature::VERITY,
    Feature::SHARED_BLOCKS,
];

/// What a file system is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Names and data of files.
    #[default]
    Files,
    /// The structures alone: a check or a repair.
    Structures,
}

/// As [`allowed_access`], for a purpose.
///
/// # Errors
/// As [`allowed_access`].
pub fn access_for(purpose: Purpose, superblock: &Superblock, wanted: Access) -> Result<Access> {
    let mut known = superblock.clone();
    if purpose == Purpose::Structures {
        let mut features = known.features();
        OF_CONTENTS
            .iter()
            .for_each(|feature| features.remove(*feature));
        known.set_features(features);
    }
    allowed_access(&known, wanted)
}

/// The access that revision and features allow of what is asked for.
///
/// # Errors
/// [`Error::Unsupported`] names a feature that makes the file system unreadable here.
pub fn allowed_access(superblock: &Superblock, wanted: Access) -> Result<Access> {
    let mut access = wanted;
    if superblock.rev_level > REVISION_MAX {
        access = Access::ReadOnly;
    }
    for feature in superblock.features().iter() {
        match support(feature) {
            Support::Refused => return Err(refuse(feature)),
            Support::ReadOnly => access = Access::ReadOnly,
            Support::ReadWrite => {}
        }
    }
    Ok(access)
}

/// The support of mounts for a feature.
pub fn support(feature: Feature) -> Support {
    let known = feature.support();
    match feature.set {
        FeatureSet::Compat => Support::ReadWrite,
        FeatureSet::RoCompat if known != Support::ReadWrite || READ_ONLY.contains(&feature) => {
            Support::ReadOnly
        }
        FeatureSet::Incompat if known == Support::Refused || REFUSED.contains(&feature) => {
            Support::Refused
        }
        _ => Support::ReadWrite,
    }
}

/// Whether revision and features allow writes.
pub fn may_write(superblock: &Superblock) -> bool {
    let features = superblock.features();
    superblock.rev_level <= REVISION_MAX
        && features
            .iter()
            .all(|feature| support(feature) == Support::ReadWrite)
}

fn refuse(feature: Feature) -> Error {
    match feature.name() {
        Some(name) => Error::Unsupported(name),
        None => Error::Mount(format!(
            "unknown incompatible feature bit {:#x}",
            feature.bit
        )),
    }
}
