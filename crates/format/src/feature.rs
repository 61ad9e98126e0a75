//! Feature bits of the superblock: names, lists as given to `-O`, and the support of uext4.
//!
//! A feature is in one of three sets, which tell software that does not know it what is still
//! allowed: compat (everything), ro_compat (reading), incompat (nothing).

use std::fmt;

/// The superblock word of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeatureSet {
    /// If unknown, the file system may be read and written.
    Compat,
    /// If unknown, the file system may be read but not written.
    RoCompat,
    /// If unknown, the file system may not be used.
    Incompat,
}

/// One feature: a bit of one of the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feature {
    /// The feature word that has the bit.
    pub set: FeatureSet,
    /// Mask with the one bit of the feature.
    pub bit: u32,
}

/// Support of uext4 for a file system with a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The file system is read and written.
    ReadWrite,
    /// The file system is read, never written.
    ReadOnly,
    /// The file system is not mounted.
    Refused,
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $set:ident $bit:literal $label:literal $support:ident;)*) => {
        impl Feature {
            $($(#[$doc])* pub const $name: Feature =
                Feature { set: FeatureSet::$set, bit: $bit };)*
        }
        /// Every feature with a name: the feature, mke2fs's name, what uext4 does with it.
        const TABLE: &[(Feature, &str, Support)] =
            &[$((Feature::$name, $label, Support::$support),)*];
    };
}

features! {
    /// Preallocate directory blocks; a hint that is ignored.
    DIR_PREALLOC = Compat 0x1 "dir_prealloc" ReadWrite;
    /// Inodes of AFS servers; unused by Linux.
    IMAGIC_INODES = Compat 0x2 "imagic_inodes" ReadWrite;
    /// A jbd2 journal, in an inode or on another device.
    HAS_JOURNAL = Compat 0x4 "has_journal" ReadWrite;
    /// Extended attributes, in inodes and in separate blocks.
    EXT_ATTR = Compat 0x8 "ext_attr" ReadWrite;
    /// Inode 7 reserves blocks for the descriptors of a grown file system.
    RESIZE_INODE = Compat 0x10 "resize_inode" ReadWrite;
    /// Directories may have a hash index (htree).
    DIR_INDEX = Compat 0x20 "dir_index" ReadWrite;
    /// Lazy block group initialisation of an old prototype.
    LAZY_BG = Compat 0x40 "lazy_bg" ReadWrite;
    /// The exclude bitmap of out-of-tree snapshots.
    EXCLUDE_BITMAP = Compat 0x100 "snapshot_bitmap" ReadWrite;
    /// Backups in at most two groups, named in the superblock.
    SPARSE_SUPER2 = Compat 0x200 "sparse_super2" ReadWrite;
    /// A logical log after the jbd2 log.
    FAST_COMMIT = Compat 0x400 "fast_commit" ReadWrite;
    /// Inode numbers and UUID never change.
    STABLE_INODES = Compat 0x800 "stable_inodes" ReadWrite;
    /// A file of orphan inode numbers.
    ORPHAN_FILE = Compat 0x1000 "orphan_file" ReadWrite;

    /// Backups in groups 0, 1 and powers of 3, 5 and 7 only.
    SPARSE_SUPER = RoCompat 0x1 "sparse_super" ReadWrite;
    /// A file of 2 GiB or more may exist.
    LARGE_FILE = RoCompat 0x2 "large_file" ReadWrite;
    /// Never used; the kernel accepts it.
    BTREE_DIR = RoCompat 0x4 "btree_dir" ReadWrite;
    /// Block counts of inodes have 48 bits and may count file system blocks.
    HUGE_FILE = RoCompat 0x8 "huge_file" ReadWrite;
    /// Descriptors have a crc16 and lazy-initialisation flags.
    UNINIT_BG = RoCompat 0x10 "uninit_bg" ReadWrite;
    /// A directory's link count 1 means "many".
    DIR_NLINK = RoCompat 0x20 "dir_nlink" ReadWrite;
    /// Inodes reserve space for the fields after the first 128 bytes.
    EXTRA_ISIZE = RoCompat 0x40 "extra_isize" ReadWrite;
    /// The file system has out-of-tree snapshots.
    HAS_SNAPSHOT = RoCompat 0x80 "has_snapshot" ReadOnly;
    /// Quota in hidden inodes.
    QUOTA = RoCompat 0x100 "quota" ReadWrite;
    /// Allocation in clusters of several blocks.
    BIGALLOC = RoCompat 0x200 "bigalloc" ReadWrite;
    /// crc32c on all metadata.
    METADATA_CSUM = RoCompat 0x400 "metadata_csum" ReadWrite;
    /// Replicas; the bit has no use in Linux.
    REPLICA = RoCompat 0x800 "replica" ReadOnly;
    /// To be mounted read-only.
    READONLY = RoCompat 0x1000 "read-only" ReadOnly;
    /// Project identifiers, and quota for them.
    PROJECT = RoCompat 0x2000 "project" ReadWrite;
    /// Blocks shared between files (Android).
    SHARED_BLOCKS = RoCompat 0x4000 "shared_blocks" ReadOnly;
    /// Files may have fs-verity hash trees after their data.
    VERITY = RoCompat 0x8000 "verity" ReadWrite;
    /// The orphan file may hold entries.
    ORPHAN_PRESENT = RoCompat 0x10000 "orphan_present" ReadWrite;

    /// Compressed files; Linux never implemented them.
    COMPRESSION = Incompat 0x1 "compression" Refused;
    /// Directory entries carry the file type.
    FILETYPE = Incompat 0x2 "filetype" ReadWrite;
    /// The journal has to be replayed.
    RECOVER = Incompat 0x4 "needs_recovery" ReadWrite;
    /// This device is an external journal.
    JOURNAL_DEV = Incompat 0x8 "journal_dev" Refused;
    /// Descriptors are in the groups that they describe.
    META_BG = Incompat 0x10 "meta_bg" ReadWrite;
    /// Files may be mapped by extent trees instead of indirect blocks.
    EXTENTS = Incompat 0x40 "extent" ReadWrite;
    /// Block numbers of more than 32 bits; descriptors of 64 bytes.
    SIXTY_FOUR_BIT = Incompat 0x80 "64bit" ReadWrite;
    /// Multiple mount protection: a block is rewritten while mounted.
    MMP = Incompat 0x100 "mmp" ReadWrite;
    /// Bitmaps and inode tables may be in any group.
    FLEX_BG = Incompat 0x200 "flex_bg" ReadWrite;
    /// Values of extended attributes in inodes.
    EA_INODE = Incompat 0x400 "ea_inode" ReadWrite;
    /// Data in directory entries (Lustre).
    DIRDATA = Incompat 0x1000 "dirdata" Refused;
    /// The checksum seed is stored, not derived from the UUID.
    CSUM_SEED = Incompat 0x2000 "metadata_csum_seed" ReadWrite;
    /// Directories of more than 4 GiB, index of three levels.
    LARGE_DIR = Incompat 0x4000 "large_dir" ReadWrite;
    /// Small files and directories in the inode.
    INLINE_DATA = Incompat 0x8000 "inline_data" ReadWrite;
    /// Files and names may be encrypted by fscrypt.
    ENCRYPT = Incompat 0x10000 "encrypt" ReadWrite;
    /// Directories may compare names without case.
    CASEFOLD = Incompat 0x20000 "casefold" ReadWrite;
}

/// Other spellings of names, as accepted by mke2fs and used by the kernel.
const ALIASES: &[(&str, Feature)] = &[
    ("gdt_csum", Feature::UNINIT_BG),
    ("uninit_groups", Feature::UNINIT_BG),
    ("extents", Feature::EXTENTS),
    ("largedir", Feature::LARGE_DIR),
    ("csum_seed", Feature::CSUM_SEED),
    ("readonly", Feature::READONLY),
    ("recover", Feature::RECOVER),
    ("resize_ino", Feature::RESIZE_INODE),
    ("fname_encoding", Feature::CASEFOLD),
    ("exclude_bitmap", Feature::EXCLUDE_BITMAP),
    ("64-bit", Feature::SIXTY_FOUR_BIT),
];

/// A feature list or feature set that uext4 cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// The name in a list is no feature.
    #[error("unknown feature \"{0}\"")]
    UnknownName(Box<str>),
    /// The file system has a feature that forbids touching it.
    #[error("unsupported feature {0}")]
    Unsupported(Feature),
}

impl Feature {
    /// mke2fs's name of this feature, if it has one.
    pub fn name(self) -> Option<&'static str> {
        TABLE
            .iter()
            .find(|entry| entry.0 == self)
            .map(|entry| entry.1)
    }

    /// The feature of this name or alias.
    pub fn from_name(name: &str) -> Option<Feature> {
        let named = TABLE
            .iter()
            .find(|entry| entry.1 == name)
            .map(|entry| entry.0);
        named.or_else(|| {
            ALIASES
                .iter()
                .find(|entry| entry.0 == name)
                .map(|entry| entry.1)
        })
    }

    /// The support of uext4 for a file system with it.
    pub fn support(self) -> Support {
        let known = TABLE
            .iter()
            .find(|entry| entry.0 == self)
            .map(|entry| entry.2);
        known.unwrap_or(match self.set {
            FeatureSet::Compat => Support::ReadWrite,
            FeatureSet::RoCompat => Support::ReadOnly,
            FeatureSet::Incompat => Support::Refused,
        })
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.set) {
            (Some(name), _) => f.write_str(name),
            (None, FeatureSet::Compat) => write!(f, "FEATURE_C{}", self.bit.trailing_zeros()),
            (None, FeatureSet::RoCompat) => write!(f, "FEATURE_R{}", self.bit.trailing_zeros()),
            (None, FeatureSet::Incompat) => write!(f, "FEATURE_I{}", self.bit.trailing_zeros()),
        }
    }
}

/// The features of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// Bits that may be ignored.
    pub compat: u32,
    /// Bits that forbid writing if unknown.
    pub ro_compat: u32,
    /// Bits that forbid any use if unknown.
    pub incompat: u32,
}

impl Features {
    /// Three empty feature sets.
    pub const NONE: Features = Features {
        compat: 0,
        ro_compat: 0,
        incompat: 0,
    };

    /// The set of these features.
    pub const fn of(list: &[Feature]) -> Features {
        let mut features = Features::NONE;
        let mut left = list;
        while let [feature, rest @ ..] = left {
            match feature.set {
                FeatureSet::Compat => features.compat |= feature.bit,
                FeatureSet::RoCompat => features.ro_compat |= feature.bit,
                FeatureSet::Incompat => features.incompat |= feature.bit,
            }
            left = rest;
        }
        features
    }

    /// True when the feature is on.
    #[inline]
    pub const fn has(&self, feature: Feature) -> bool {
        let word = match feature.set {
            FeatureSet::Compat => self.compat,
            FeatureSet::RoCompat => self.ro_compat,
            FeatureSet::Incompat => self.incompat,
        };
        word & feature.bit != 0
    }

    /// Sets the bit of `feature` in its word.
    pub fn insert(&mut self, feature: Feature) {
        *self.word(feature.set) |= feature.bit;
    }

    /// Clears the bit of `feature` in its word.
    pub fn remove(&mut self, feature: Feature) {
        *self.word(feature.set) &= !feature.bit;
    }

    /// The features that are in `self` or `other`.
    pub const fn union(self, other: Features) -> Features {
        Features {
            compat: self.compat | other.compat,
            ro_compat: self.ro_compat | other.ro_compat,
            incompat: self.incompat | other.incompat,
        }
    }

    /// Every feature that is on, named or not: compat, then incompat, then ro_compat.
    pub fn iter(&self) -> impl Iterator<Item = Feature> + use<> {
        let sets = [
            (FeatureSet::Compat, self.compat),
            (FeatureSet::Incompat, self.incompat),
            (FeatureSet::RoCompat, self.ro_compat),
        ];
        sets.into_iter().flat_map(|(set, word)| {
            (0..32)
                .map(|i| 1u32 << i)
                .filter(move |bit| word & bit != 0)
                .map(move |bit| Feature { set, bit })
        })
    }

    /// Applies a list as given to `mke2fs -O`: `a,^b,none`; separators are commas and blanks.
    ///
    /// # Errors
    /// [`FeatureError::UnknownName`], with the set unchanged.
    pub fn apply_list(&mut self, list: &str) -> Result<(), FeatureError> {
        let mut result = *self;
        for word in list.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
            let (name, remove) = match word.strip_prefix(['^', '-']) {
                Some(name) => (name, true),
                None => (word, false),
            };
            if !remove && name == "none" {
                result = Features::NONE;
                continue;
            }
            let feature =
                Feature::from_name(name).ok_or_else(|| FeatureError::UnknownName(name.into()))?;
            if remove {
                result.remove(feature)
            } else {
                result.insert(feature)
            }
        }
        *self = result;
        Ok(())
    }

    /// Whether uext4 can mount a file system with these features for reading.
    ///
    /// # Errors
    /// [`FeatureError::Unsupported`] names the first feature that forbids it.
    pub fn check_readable(&self) -> Result<(), FeatureError> {
        match self
            .iter()
            .find(|feature| feature.support() == Support::Refused)
        {
            Some(feature) => Err(FeatureError::Unsupported(feature)),
            None => Ok(()),
        }
    }

    /// The first feature that forbids writing, if any.
    pub fn forces_read_only(&self) -> Option<Feature> {
        self.iter()
            .find(|feature| feature.support() != Support::ReadWrite)
    }

    fn word(&mut self, set: FeatureSet) -> &mut u32 {
        match set {
            FeatureSet::Compat => &mut self.compat,
            FeatureSet::RoCompat => &mut self.ro_compat,
            FeatureSet::Incompat => &mut self.incompat,
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, feature) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { " " };
            write!(f, "{separator}{feature}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_add_remove_and_reset() {
        let mut features = Features::of(&[Feature::HAS_JOURNAL, Feature::EXTENTS]);
        features
            .apply_list("none,gdt_csum ^extent,largedir,orphan_file")
            .expect("known names");
        assert_eq!(features.to_string(), "orphan_file large_dir uninit_bg");
        let before = features;
        let error = features
            .apply_list("^orphan_file,nonsense")
            .expect_err("unknown name");
        assert_eq!(error, FeatureError::UnknownName("nonsense".into()));
        assert_eq!(features, before);
    }

    #[test]
    fn every_name_is_unique_and_found() {
        for (i, (feature, name, _)) in TABLE.iter().enumerate() {
            assert_eq!(Feature::from_name(name), Some(*feature), "{name}");
            assert_eq!(feature.name(), Some(*name));
            assert!(
                TABLE[..i]
                    .iter()
                    .all(|other| other.1 != *name && other.0 != *feature)
            );
        }
    }

    #[test]
    fn unknown_bits_refuse_or_force_read_only() {
        let unknown = Features {
            compat: 1 << 30,
            ro_compat: 1 << 30,
            incompat: 0,
        };
        assert_eq!(unknown.check_readable(), Ok(()));
        assert_eq!(
            unknown.forces_read_only().map(|f| f.to_string()),
            Some("FEATURE_R30".into())
        );
        let refused = Features {
            incompat: 1 << 31,
            ..Features::NONE
        };
        let error = refused.check_readable().expect_err("unknown incompat bit");
        assert_eq!(error.to_string(), "unsupported feature FEATURE_I31");
        assert_eq!(
            Features {
                compat: 1 << 30,
                ..Features::NONE
            }
            .forces_read_only(),
            None
        );
    }
}
