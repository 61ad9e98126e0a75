//! Feature sets that mkfs supports.

use uext4_format::{Feature, FeatureError, Features};

use crate::{Error, MkfsOptions};

/// Features that mkfs supports.
const MAKEABLE: Features = Features::of(&[
    Feature::DIR_PREALLOC,
    Feature::HAS_JOURNAL,
    Feature::EXT_ATTR,
    Feature::RESIZE_INODE,
    Feature::DIR_INDEX,
    Feature::SPARSE_SUPER2,
    Feature::FAST_COMMIT,
    Feature::STABLE_INODES,
    Feature::ORPHAN_FILE,
    Feature::SPARSE_SUPER,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::UNINIT_BG,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::BIGALLOC,
    Feature::METADATA_CSUM,
    Feature::QUOTA,
    Feature::PROJECT,
    Feature::VERITY,
    Feature::FILETYPE,
    Feature::META_BG,
    Feature::EXTENTS,
    Feature::SIXTY_FOUR_BIT,
    Feature::MMP,
    Feature::FLEX_BG,
    Feature::EA_INODE,
    Feature::CSUM_SEED,
    Feature::LARGE_DIR,
    Feature::INLINE_DATA,
    Feature::ENCRYPT,
    Feature::CASEFOLD,
]);

/// Each feature and the one that it needs.
const NEEDS: &[(Feature, Feature)] = &[
    (Feature::SIXTY_FOUR_BIT, Feature::EXTENTS),
    (Feature::BIGALLOC, Feature::EXTENTS),
    (Feature::VERITY, Feature::EXTENTS),
    (Feature::RESIZE_INODE, Feature::SPARSE_SUPER),
    (Feature::INLINE_DATA, Feature::EXT_ATTR),
    (Feature::EA_INODE, Feature::EXT_ATTR),
    (Feature::ORPHAN_FILE, Feature::HAS_JOURNAL),
    (Feature::FAST_COMMIT, Feature::HAS_JOURNAL),
    (Feature::CSUM_SEED, Feature::METADATA_CSUM),
];

/// Completes a feature set as mke2fs does, and checks its consistency.
///
/// `metadata_csum` replaces `uninit_bg`; `metadata_csum_seed` is removed without `metadata_csum`.
pub(super) fn resolve(wanted: Features) -> Result<Features, Error> {
    let mut features = wanted;
    if features.has(Feature::METADATA_CSUM) {
        features.remove(Feature::UNINIT_BG);
    } else {
        features.remove(Feature::CSUM_SEED);
    }
    if let Some(unsupported) = features.iter().find(|feature| !MAKEABLE.has(*feature)) {
        return Err(Error::Unsupported(unsupported));
    }
    if features.has(Feature::RESIZE_INODE) && features.has(Feature::META_BG) {
        return Err(Error::Conflict(Feature::RESIZE_INODE, Feature::META_BG));
    }
    let unmet = NEEDS
        .iter()
        .find(|(feature, needs)| is_unmet(features, *feature, *needs));
    match unmet {
        Some(&(feature, needs)) => Err(Error::Needs { feature, needs }),
        None => Ok(features),
    }
}

impl MkfsOptions {
    /// Adds and removes features as `mke2fs -O` does. A feature that needs a removed one is removed
    /// as well, unless the list itself requests it: then [`crate::format`] refuses.
    ///
    /// # Errors
    /// [`FeatureError::UnknownName`], with the features unchanged.
    pub fn apply_features(&mut self, list: &str) -> Result<(), FeatureError> {
        let (mut features, mut asked) = (self.features, Features::NONE);
        features.apply_list(list)?;
        asked.apply_list(list)?;
        while let Some(&(feature, _)) = NEEDS
            .iter()
            .find(|(feature, needs)| is_unmet(features, *feature, *needs) && !asked.has(*feature))
        {
            features.remove(feature);
        }
        self.features = features;
        Ok(())
    }
}

/// Whether the set has the feature without the one that it needs.
fn is_unmet(features: Features, feature: Feature, needs: Feature) -> bool {
    let met = features.has(needs) || is_met_otherwise(feature, features);
    features.has(feature) && !met
}

/// Either kind of sparse superblocks suffices for the resize inode.
fn is_met_otherwise(feature: Feature, features: Features) -> bool {
    feature == Feature::RESIZE_INODE && features.has(Feature::SPARSE_SUPER2)
}

/// Removes the journal and the features that need it, for file systems too small for one.
pub(super) fn without_journal(mut features: Features) -> Features {
    for feature in [
        Feature::HAS_JOURNAL,
        Feature::ORPHAN_FILE,
        Feature::FAST_COMMIT,
    ] {
        features.remove(feature);
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn presets_hold_together() {
        for preset in [Preset::Ext2, Preset::Ext3, Preset::Ext4] {
            assert_eq!(
                resolve(preset.features()).expect("consistent"),
                preset.features()
            );
        }
    }

    #[test]
    fn what_is_built_on_a_removed_feature_goes_with_it() {
        let left = |list: &str| {
            let mut options = MkfsOptions::new(Preset::Ext4);
            options.apply_features(list).expect("known names");
            resolve(options.features)
        };
        let features = left("^has_journal").expect("consistent");
        assert!(!features.has(Feature::HAS_JOURNAL) && !features.has(Feature::ORPHAN_FILE));
        let features = left("^extent").expect("consistent");
        assert!(!features.has(Feature::EXTENTS) && !features.has(Feature::SIXTY_FOUR_BIT));
        let features = left("^sparse_super").expect("consistent");
        assert!(!features.has(Feature::RESIZE_INODE));
        let features = left("sparse_super2,^sparse_super").expect("consistent");
        assert!(features.has(Feature::RESIZE_INODE));
        for asked in [
            "^has_journal,orphan_file",
            "64bit,^extent",
            "^extent,bigalloc",
        ] {
            left(asked).expect_err(asked);
        }
    }

    #[test]
    fn refusals_name_the_feature() {
        let refuse = |list: &str| {
            let mut features = Preset::Ext4.features();
            features.apply_list(list).expect("known names");
            resolve(features).expect_err(list).to_string()
        };
        let unsupported = "cannot make a file system with the feature journal_dev";
        assert_eq!(refuse("journal_dev"), unsupported);
        assert_eq!(
            refuse("^extent"),
            "the feature 64bit needs the feature extent"
        );
        let conflict = "the features resize_inode and meta_bg exclude each other";
        assert_eq!(refuse("meta_bg"), conflict);
        assert_eq!(
            refuse("^has_journal"),
            "the feature orphan_file needs the feature has_journal"
        );
    }
}
