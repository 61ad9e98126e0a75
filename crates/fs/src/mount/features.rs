//! Which images may be mounted, and how.

use crate::options::Access;
use crate::{Error, MountOptions, Result};
use uext4_format::{Feature, FeatureSet, Features};

/// Read-only compatible features that are known, but that a writer would have to keep up and this
/// engine does not: such images are mounted read-only.
const READ_ONLY: &[Feature] = &[Feature::VERITY, Feature::SHARED_BLOCKS];

/// Incompatible features whose files cannot be made sense of.
const REFUSED: &[Feature] = &[Feature::CASEFOLD, Feature::ENCRYPT];

/// Refuses what is not supported by its name, and turns the mount read-only where that is enough.
pub(super) fn settle(features: Features, options: &mut MountOptions) -> Result<()> {
    for feature in features.iter() {
        let known = feature.support();
        let incompatible = feature.set == FeatureSet::Incompat;
        if known == uext4_format::Support::Refused && incompatible || REFUSED.contains(&feature) {
            return Err(refuse(feature));
        }
        let needs_read_only =
            known == uext4_format::Support::ReadOnly || READ_ONLY.contains(&feature);
        if needs_read_only && feature.set == FeatureSet::RoCompat {
            options.access = Access::ReadOnly;
        }
    }
    options.delalloc.get_or_insert(false);
    Ok(())
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
