//! Feature checks: which images may be mounted, and how.

use crate::options::Access;
use crate::{Error, MountOptions, Result};
use uext4_format::{Feature, FeatureSet, Superblock, Support};

/// The last known revision of the format. A later one is mounted read-only, as in the kernel.
pub(crate) const REVISION_MAX: u32 = 1;

/// Known read-only compatible features that a writer must maintain and this engine does not: such
/// images are mounted read-only.
const READ_ONLY: &[Feature] = &[Feature::VERITY, Feature::SHARED_BLOCKS];

/// Incompatible features that make files unreadable here.
const REFUSED: &[Feature] = &[Feature::CASEFOLD, Feature::ENCRYPT];

/// Refuses unsupported features by name, or makes the mount read-only where that suffices.
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
