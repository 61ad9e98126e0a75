//! Features by the release that first has them, so that a file system can be made for an older one.
//!
//! Sources: kernels, ext4(5), "Kernel support", and for `fast_commit` and `orphan_file` the commits
//! that added them; e2fsprogs, its release notes; distributions, their package lists.

use uext4_format::{Feature, Features};

/// A version: major and minor number.
type Version = (u32, u32);

/// Each feature with the first Linux and the first e2fsprogs that have it. Older ones have the
/// features that are not listed.
const FIRST: &[(Feature, Version, Version)] = &[
    (Feature::MMP, (3, 0), (1, 42)),
    (Feature::BIGALLOC, (3, 2), (1, 42)),
    (Feature::QUOTA, (3, 6), (1, 42)),
    (Feature::INLINE_DATA, (3, 8), (1, 43)),
    (Feature::SPARSE_SUPER2, (3, 16), (1, 43)),
    (Feature::METADATA_CSUM, (3, 18), (1, 43)),
    (Feature::ENCRYPT, (4, 1), (1, 43)),
    (Feature::CSUM_SEED, (4, 4), (1, 43)),
    (Feature::PROJECT, (4, 5), (1, 43)),
    (Feature::EA_INODE, (4, 13), (1, 44)),
    (Feature::LARGE_DIR, (4, 13), (1, 44)),
    (Feature::CASEFOLD, (5, 2), (1, 45)),
    (Feature::VERITY, (5, 4), (1, 45)),
    (Feature::STABLE_INODES, (5, 5), (1, 46)),
    (Feature::FAST_COMMIT, (5, 10), (1, 46)),
    (Feature::ORPHAN_FILE, (5, 15), (1, 47)),
];

/// Distributions with their Linux and e2fsprogs.
const DISTRIBUTIONS: &[(&str, Version, Version)] = &[
    ("debian-10", (4, 19), (1, 44)),
    ("debian-11", (5, 10), (1, 46)),
    ("debian-12", (6, 1), (1, 47)),
    ("debian-13", (6, 12), (1, 47)),
    ("ubuntu-18.04", (4, 15), (1, 44)),
    ("ubuntu-20.04", (5, 4), (1, 45)),
    ("ubuntu-22.04", (5, 15), (1, 46)),
    ("ubuntu-24.04", (6, 8), (1, 47)),
    ("rhel-7", (3, 10), (1, 42)),
    ("rhel-8", (4, 18), (1, 45)),
    ("rhel-9", (5, 14), (1, 46)),
];

/// Oldest releases that have the features without a row: those of the first ext4.
const OLDEST: (Version, Version) = ((2, 6), (1, 41));

/// What must read a file system: `linux-X.Y`, `e2fsprogs-X.Y`, or the name of a distribution, which
/// means both of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    name: String,
    linux: Option<Version>,
    e2fsprogs: Option<Version>,
}

/// A name that is no release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no release; known are linux-X.Y, e2fsprogs-X.Y, {list}", list = distributions())]
pub struct UnknownRelease(String);

impl std::str::FromStr for Release {
    type Err = UnknownRelease;

    fn from_str(name: &str) -> Result<Release, UnknownRelease> {
        let unknown = || UnknownRelease(name.to_owned());
        let release = |linux, e2fsprogs| Release {
            name: name.to_owned(),
            linux,
            e2fsprogs,
        };
        if let Some((_, linux, e2fsprogs)) = DISTRIBUTIONS.iter().find(|row| row.0 == name) {
            return Ok(release(Some(*linux), Some(*e2fsprogs)));
        }
        let (project, version) = name.split_once('-').ok_or_else(unknown)?;
        let version = parse(version).ok_or_else(unknown)?;
        match project {
            "linux" if version >= OLDEST.0 => Ok(release(Some(version), None)),
            "e2fsprogs" if version >= OLDEST.1 => Ok(release(None, Some(version))),
            _ => Err(unknown()),
        }
    }
}

impl Release {
    /// Whether the release has the feature.
    pub fn has(&self, feature: Feature) -> bool {
        let first = FIRST.iter().find(|(listed, ..)| *listed == feature);
        first.is_none_or(|(_, linux, e2fsprogs)| {
            let is_new = |own: Option<Version>, first: Version| own.is_none_or(|own| own >= first);
            is_new(self.linux, *linux) && is_new(self.e2fsprogs, *e2fsprogs)
        })
    }

    /// The features of the set that the release does not have.
    pub fn unknown(&self, features: Features) -> Features {
        let unknown = features.iter().filter(|feature| !self.has(*feature));
        unknown.fold(Features::NONE, |mut set, feature| {
            set.insert(feature);
            set
        })
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Major and minor number; further numbers do not matter.
fn parse(text: &str) -> Option<Version> {
    let mut parts = text.split('.');
    let mut next = || parts.next().and_then(|part| part.parse().ok());
    Some((next()?, next()?))
}

fn distributions() -> String {
    let names: Vec<&str> = DISTRIBUTIONS.iter().map(|row| row.0).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn defaults_that_older_releases_lack() {
        let ext4 = Preset::Ext4.features();
        let missing = |name: &str| {
            let release: Release = name.parse().expect(name);
            let unknown = release.unknown(ext4);
            unknown.iter().filter_map(Feature::name).collect::<Vec<_>>()
        };
        assert_eq!(missing("debian-12"), [""; 0]);
        assert_eq!(missing("debian-11"), ["orphan_file"]);
        assert_eq!(missing("linux-5.15"), [""; 0]);
        assert_eq!(missing("linux-5.14.21"), ["orphan_file"]);
        assert_eq!(missing("e2fsprogs-1.46"), ["orphan_file"]);
        assert_eq!(missing("rhel-7").len(), 3);
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["", "linux", "linux-5", "linux-2.4", "debian-9", "xfs-5.1"] {
            assert!(name.parse::<Release>().is_err(), "{name}");
        }
        let said = "debian-9".parse::<Release>().unwrap_err().to_string();
        assert!(
            said.contains("debian-11") && said.contains("linux-X.Y"),
            "{said}"
        );
    }
}
