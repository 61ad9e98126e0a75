//! The lists and values that `uext4 tune` takes, in the words of tune2fs.

use super::journal_words::LogWords;
use uext4::Presence;
use uext4::format::hash::HashVersion;
use uext4::format::quota::QuotaKind;
use uext4::format::superblock::default_mount_option as bit;
use uext4::format::{Feature, Features, Superblock};
use uext4::{MountDefaults, Tuning};

type Parsed<T> = std::result::Result<T, String>;

/// Words of `-o` and their bits.
const MOUNT_WORDS: [(&str, u32); 12] = [
    ("debug", bit::DEBUG),
    ("bsdgroups", bit::BSDGROUPS),
    ("user_xattr", bit::XATTR_USER),
    ("acl", bit::ACL),
    ("uid16", bit::UID16),
    ("journal_data", bit::JMODE_DATA),
    ("journal_data_ordered", bit::JMODE_ORDERED),
    ("journal_data_writeback", bit::JMODE_WBACK),
    ("nobarrier", bit::NOBARRIER),
    ("block_validity", bit::BLOCK_VALIDITY),
    ("discard", bit::DISCARD),
    ("nodelalloc", bit::NODELALLOC),
];

/// A default mount option to turn on, or off with `^`.
#[derive(Clone, Copy, Debug)]
pub(super) struct MountWord {
    mask: u32,
    wanted: Presence,
}

impl std::str::FromStr for MountWord {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let (name, wanted) = switch(text);
        match MOUNT_WORDS.iter().find(|(known, _)| *known == name) {
            Some((_, mask)) => Ok(Self {
                mask: *mask,
                wanted,
            }),
            None => {
                let known: Vec<&str> = MOUNT_WORDS.iter().map(|(known, _)| *known).collect();
                Err(format!("known are {}", known.join(", ")))
            }
        }
    }
}

impl MountWord {
    pub(super) fn apply(self, defaults: &mut MountDefaults) {
        match self.wanted {
            Presence::Present => defaults.set |= self.mask,
            Presence::Absent => defaults.clear |= self.mask,
        }
    }
}

/// A feature to turn on, or off with `^`.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeatureWord(pub(super) Feature, pub(super) Presence);

impl std::str::FromStr for FeatureWord {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let (name, wanted) = switch(text);
        let mut set = Features::NONE;
        set.apply_list(name).map_err(|error| error.to_string())?;
        let feature = set.iter().next().ok_or("a name of a feature is needed")?;
        Ok(Self(feature, wanted))
    }
}

fn switch(text: &str) -> (&str, Presence) {
    match text.strip_prefix('^') {
        Some(name) => (name, Presence::Absent),
        None => (text, Presence::Present),
    }
}

/// A word of `-E`: `NAME=VALUE`.
#[derive(Clone, Debug)]
pub(super) enum ExtendedWord {
    Stride(u16),
    StripeWidth(u32),
    Hash(HashVersion),
    HashSeed([u8; 16]),
    MountOptions(String),
    MmpUpdateSeconds(u16),
    OrphanFileBlocks(u32),
    ForceFsck,
    TestFs(bool),
    /// Done before all others; see `tune.rs`.
    ClearMmp,
}

impl std::str::FromStr for ExtendedWord {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match name {
            "stride" => Ok(Self::Stride(number(value)?)),
            "stripe_width" | "stripe-width" => Ok(Self::StripeWidth(number(value)?)),
            "hash_alg" => Ok(Self::Hash(hash(value)?)),
            "hash_seed" => Ok(Self::HashSeed(super::tune::uuid(value)?)),
            "mount_opts" => Ok(Self::MountOptions(value.to_owned())),
            "mmp_update_interval" => Ok(Self::MmpUpdateSeconds(number(value)?)),
            "orphan_file_size" => Ok(Self::OrphanFileBlocks(number(value)?)),
            "clear_mmp" if text == name => Ok(Self::ClearMmp),
            "force_fsck" if text == name => Ok(Self::ForceFsck),
            "test_fs" if text == name => Ok(Self::TestFs(true)),
            "^test_fs" if text == name => Ok(Self::TestFs(false)),
            _ => Err(
                "known are stride=, stripe_width=, hash_alg=, hash_seed=, mount_opts=, \
                      mmp_update_interval=, orphan_file_size=, force_fsck, test_fs, ^test_fs and \
                      clear_mmp"
                    .into(),
            ),
        }
    }
}

impl ExtendedWord {
    pub(super) fn apply(&self, tuning: &mut Tuning) {
        match self {
            Self::Stride(blocks) => tuning.raid.stride = Some(*blocks),
            Self::StripeWidth(blocks) => tuning.raid.stripe_width = Some(*blocks),
            Self::Hash(version) => tuning.hash = Some(*version),
            Self::HashSeed(seed) => tuning.hash_seed = Some(*seed),
            Self::MountOptions(list) => {
                tuning.mount_defaults.string = Some(list.clone().into_bytes());
            }
            Self::MmpUpdateSeconds(seconds) => tuning.mmp_update_seconds = Some(*seconds),
            Self::OrphanFileBlocks(blocks) => tuning.orphan_file_blocks = Some(*blocks),
            Self::ClearMmp => {}
            Self::ForceFsck => tuning.force_check = true,
            Self::TestFs(is_test) => tuning.is_test = Some(*is_test),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Parsed<T> {
    text.parse()
        .map_err(|_| format!("{text:?} is no number in range"))
}

fn hash(text: &str) -> Parsed<HashVersion> {
    match text {
        "legacy" => Ok(HashVersion::Legacy),
        "half_md4" => Ok(HashVersion::HalfMd4),
        "tea" => Ok(HashVersion::Tea),
        _ => Err("known hashes are legacy, half_md4 and tea".into()),
    }
}

/// Seconds between checks: a number of days, or with d, w, m (30 days) or s behind it.
pub(super) fn interval(text: &str) -> Parsed<u32> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text.split_at(digits.len()).1 {
        "" | "d" => 24 * 3600,
        "s" => 1,
        "w" => 7 * 24 * 3600,
        "m" => 30 * 24 * 3600,
        _ => return Err("an interval is a number with d, w, m or s behind it, or 0".into()),
    };
    let count: u32 = number(digits)?;
    count.checked_mul(unit).ok_or_else(|| "too long".into())
}

/// A share of all blocks, in 1/100,000 of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u32);

impl Share {
    const UNITS: u32 = 100_000;

    pub(super) fn of(self, blocks: u64) -> u64 {
        let part = u128::from(blocks) * u128::from(self.0) / u128::from(100 * Self::UNITS);
        uext4_num::clamp_u64(part)
    }
}

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let known = part.len() <= 5 && is_digits(part) && !part.is_empty() && is_digits(whole);
        let whole: u32 = number(whole)?;
        let part: u32 = number(&format!("{part:0<5}"))?;
        let share = whole.saturating_mul(Self::UNITS).saturating_add(part);
        if known && share <= 50 * Self::UNITS {
            Ok(Self(share))
        } else {
            Err("it is not in 0..=50, with up to five digits behind the point".into())
        }
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Mounts before a check is due: 0 and -1 mean never.
pub(super) fn mounts_max(text: &str) -> Parsed<u16> {
    match text {
        "-1" => Ok(0),
        text => number(text),
    }
}

/// A journal as `-J` describes it.
#[derive(Clone, Debug)]
pub(super) enum JournalWord {
    Internal(LogWords),
    Device(std::path::PathBuf),
}

impl std::str::FromStr for JournalWord {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text.split_once('=') {
            Some(("device", path)) => Ok(Self::Device(path.into())),
            _ => match text.parse() {
                Ok(words) => Ok(Self::Internal(words)),
                Err(problem) => Err(format!("{problem}; or device=FILE alone")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_in_days_weeks_months_and_seconds() {
        assert_eq!(interval("2"), Ok(172_800));
        assert_eq!(interval("1w"), Ok(604_800));
        assert_eq!(interval("1m"), Ok(2_592_000));
        assert_eq!(interval("90s"), Ok(90));
        assert_eq!(interval("0"), Ok(0));
        assert!(interval("1y").is_err() && interval("99999w").is_err() && interval("d").is_err());
    }

    #[test]
    fn shares_of_a_percent() {
        let of = |text: &str| text.parse::<Share>().map(|share| share.of(65_536));
        assert_eq!(
            (of("0.5"), of("10"), of("50")),
            (Ok(327), Ok(6553), Ok(32_768))
        );
        assert_eq!(of("0.00001"), Ok(0));
        for wrong in ["51", "50.1", "-1", "1.", ".5", "1.000001", "x", ""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_of_tune2fs() {
        assert!("^acl".parse::<MountWord>().is_ok());
        assert!("data".parse::<MountWord>().is_err());
        assert!("^orphan_file".parse::<FeatureWord>().is_ok());
        assert!("orphan".parse::<FeatureWord>().is_err());
        assert!("stride=16".parse::<ExtendedWord>().is_ok());
        assert!("stride=70000".parse::<ExtendedWord>().is_err());
        assert!("hash_seed=random".parse::<ExtendedWord>().is_ok());
        assert!("hash_seed=4".parse::<ExtendedWord>().is_err());
        assert!("clear_mmp".parse::<ExtendedWord>().is_ok());
        assert!("clear_mmp=1".parse::<ExtendedWord>().is_err());
        assert!("orphan_file_size=64".parse::<ExtendedWord>().is_ok());
        assert!("force_fsck".parse::<ExtendedWord>().is_ok());
        assert!("force_fsck=1".parse::<ExtendedWord>().is_err());
        assert!("size=4,location=500".parse::<JournalWord>().is_ok());
        assert!("device=x".parse::<JournalWord>().is_ok());
        assert!("4".parse::<JournalWord>().is_err());
    }
}

/// A kind of quota to turn on, or off with `^`.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotaWord(pub(super) QuotaKind, pub(super) Presence);

impl std::str::FromStr for QuotaWord {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let (name, wanted) = switch(text);
        let kind = match name {
            "usrquota" => QuotaKind::User,
            "grpquota" => QuotaKind::Group,
            "prjquota" => QuotaKind::Project,
            _ => return Err("known are usrquota, grpquota, prjquota".into()),
        };
        Ok(Self(kind, wanted))
    }
}

/// The kinds of quota that a file system counts after these words. The feature `quota` stands for
/// users and groups, and with the feature `project` for projects, as in mke2fs.
pub(super) fn quota_after(
    disk: &Superblock,
    feature: Option<Presence>,
    words: &[QuotaWord],
) -> Vec<QuotaKind> {
    let features = disk.features();
    QuotaKind::ALL
        .into_iter()
        .filter(|kind| {
            let now = disk.quota_files().any(|(one, _)| one == *kind);
            let usual = *kind != QuotaKind::Project || features.has(Feature::PROJECT);
            let by_feature = match feature {
                None => now,
                Some(Presence::Absent) => false,
                Some(Presence::Present) => now || (usual && !features.has(Feature::QUOTA)),
            };
            let word = words.iter().rfind(|QuotaWord(named, _)| named == kind);
            word.map_or(by_feature, |word| word.1 == Presence::Present)
        })
        .collect()
}
