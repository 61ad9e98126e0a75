//! Which images may be mounted, and how.

use crate::options::Access;
use crate::{Error, MountOptions, Result};
use uext4_format::{Feature, FeatureSet, Superblock, Support};

/// The last revision of the format that is known. The kernel mounts a later one read-only.
pub(crate) const REVISION_MAX: u32 = 1;

/// Read-only compatible features that are known, but that a writer would have to keep up and this
/// engine does not: such images are mounted read-only.
const READ_ONLY: &[Feature] = &[Feature::VERITY, Feature::SHARED_BLOCKS];

/// Incompatible features whose files cannot be made sense of.
const REFUSED: &[Feature] = &[Feature::CASEFOLD, Feature::ENCRYPT];

/// Refuses what is not supported by its name, and turns the mount read-only where that is enough.
pub(super) fn settle(superblock: &Superblock, options: &mut MountOptions) -> Result<()> {
    if superblock.rev_level > REVISION_MAX {
        options.access = Access::ReadOnly;
    }
    for feature in superblock.features().iter() {
        match support(feature) {
            Support::Refused => return Err(refuse(feature)),
            Support::ReadOnly => options.access = Access::ReadOnly,
            Support::ReadWrite => {}
        }
    }
    Ok(())
}

/// What a mount does with file systems that have this feature.
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

/// True when neither revision nor features keep a mount from writing.
pub(super) fn may_write(superblock: &Superblock) -> bool {
    let features = superblock.features();
    let is_written = |feature| support(feature) == Support::ReadWrite;
    superblock.rev_level <= REVISION_MAX && features.iter().all(is_written)
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
