//! Which images may be mounted, and how.

use crate::options::Access;
use crate::{Error, MountOptions, Result};
use uext4_format::{Feature, FeatureSet, Features, Support};

/// Read-only compatible features that are known, but that a writer would have to keep up and this
/// engine does not: such images are mounted read-only.
const READ_ONLY: &[Feature] = &[Feature::VERITY, Feature::SHARED_BLOCKS];

/// Incompatible features whose files cannot be made sense of.
const REFUSED: &[Feature] = &[Feature::CASEFOLD, Feature::ENCRYPT];

/// Refuses what is not supported by its name, and turns the mount read-only where that is enough.
pub(super) fn settle(features: Features, options: &mut MountOptions) -> Result<()> {
    for feature in features.iter() {
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

/// True when nothing about these features keeps a mount from writing.
pub(super) fn may_write(features: Features) -> bool {
    features
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
