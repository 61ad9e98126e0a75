//! `uext4 tune`: changes parameters of an existing file system.

use super::info::Info;
use super::tune_journal::Wanted;
use super::tune_target::Target;
use super::tune_words::{
    self, ExtendedWord, FeatureWord, JournalWord, MountWord, QuotaWord, Share,
};
use crate::failure::{At, Failure, Result};
use crate::image::{self, ImageArgs};
use crate::{numbers, show};
use uext4::format::{Feature, Support};
use uext4::resize::{DescriptorSize, set_descriptor_size};
use uext4::{CheckTimes, OnError, Presence, Reseal, Tuning, mkfs};

/// Change label, UUID, reserved blocks, journal, features and other parameters of a file system
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 tune disk.img -O orphan_file       add the orphan file; -O ^orphan_file removes it
  uext4 tune disk.img -O fast_commit       fast commits: fsync costs less; ^ disables
  uext4 tune disk.img -L data -m 1         set the label, and reserve 1 % of the blocks
  uext4 tune disk.img -O metadata_csum_seed -U random
  uext4 tune disk.img -e remount-ro        behaviour of mounts on errors
  uext4 tune disk.img -J size=64           replace the journal by one of 64 MiB
  uext4 tune disk.img -O ^has_journal      remove the journal: a crash then requires e2fsck
  uext4 tune disk.img -I 256               larger inodes: times after 2038, attributes
  uext4 tune disk.img -o ^acl,discard -E stride=16,stripe_width=64

Features that can be enabled and disabled: fast_commit, orphan_file, has_journal, mmp, quota,
stable_inodes, metadata_csum_seed, metadata_csum, 64bit and read-only; uninit_bg without
metadata_csum; dir_index, large_file and flex_bg, which can be disabled while they are not in use.
Can only be enabled: dir_nlink, extent, ea_inode, encrypt, casefold, extra_isize, huge_file,
large_dir, project and verity. Can only be disabled: resize_inode.

Changing metadata_csum, or the UUID without metadata_csum_seed, rewrites all checksums in one
transaction, and the hashes of large extended attributes. It is refused if the changed blocks do not
fit into the journal.

With fast_commit, if power fails between the end of a full commit and the erasure of the fast
commits before it, e2fsck discards the whole journal, and files synced since the last checkpoint are
lost. Linux and uext4 replay it.

The image must not be mounted.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) image: ImageArgs,
    /// Features to enable, or with ^ to disable
    #[arg(short = 'O', long, value_name = "LIST", value_delimiter = ',')]
    features: Vec<FeatureWord>,
    /// Volume label, up to 16 bytes
    #[arg(short = 'L', long)]
    label: Option<String>,
    /// UUID; `random`: a new one; `clear`: none
    #[arg(short = 'U', long, value_parser = uuid)]
    uuid: Option<[u8; 16]>,
    /// Replace the journal: size=MIB, fast_commit_size=KIB and location=BLOCK (or in bytes, as 1G)
    /// for an internal one, device=FILE for an external one
    #[arg(short = 'J', long, value_name = "JOURNAL")]
    pub(super) journal: Option<JournalWord>,
    /// Quotas to enable, or with ^ to disable: usrquota, grpquota, prjquota; -O quota: all
    #[arg(short = 'Q', long, value_name = "LIST", value_delimiter = ',')]
    quota: Vec<QuotaWord>,
    /// Larger inode size in bytes: a power of two up to the block size
    #[arg(short = 'I', long, value_name = "BYTES")]
    inode_size: Option<u16>,
    /// Behaviour of mounts on errors: continue, remount-ro or panic
    #[arg(short = 'e', long, value_name = "BEHAVIOUR", value_parser = behaviour)]
    errors: Option<OnError>,
    /// Default mount options to set, or with ^ to clear
    #[arg(short = 'o', long, value_name = "LIST", value_delimiter = ',')]
    mount_options: Vec<MountWord>,
    /// Extended options: stride=, stripe_width=, hash_alg=, hash_seed=UUID (or random),
    /// mount_opts=, mmp_update_interval=, orphan_file_size=BLOCKS, force_fsck, test_fs, ^test_fs,
    /// clear_mmp
    #[arg(short = 'E', long, value_name = "LIST", value_delimiter = ',')]
    extended: Vec<ExtendedWord>,
    /// For -E clear_mmp: clear the MMP block even if it is marked as in use by a host
    #[arg(short = 'f', long)]
    force: bool,
    #[command(flatten)]
    reserved: Reserved,
    #[command(flatten)]
    checks: Checks,
    /// Print the resulting file system as JSON, as `uext4 info --json` does
    #[arg(long)]
    json: bool,
}

/// Blocks for the superuser.
#[derive(clap::Args)]
struct Reserved {
    /// Percentage of blocks reserved for the superuser (0 to 50, fractions such as 0.5)
    #[arg(short = 'm', long = "reserved", value_name = "PERCENT")]
    percent: Option<Share>,
    /// Number of blocks reserved for the superuser
    #[arg(
        short = 'r',
        long = "reserved-blocks",
        value_name = "BLOCKS",
        conflicts_with = "percent"
    )]
    blocks: Option<u64>,
    /// UID of the user that may use reserved blocks
    #[arg(short = 'u', long = "reserved-uid", value_name = "UID")]
    uid: Option<u32>,
    /// GID of the group that may use reserved blocks
    #[arg(short = 'g', long = "reserved-gid", value_name = "GID")]
    gid: Option<u32>,
}

/// When e2fsck checks at boot, and what mounts note.
#[derive(clap::Args)]
struct Checks {
    /// Maximum mount count before a check; 0: no limit
    #[arg(
        short = 'c',
        long,
        value_name = "MOUNTS",
        value_parser = tune_words::mounts_max,
        allow_hyphen_values = true
    )]
    max_mounts: Option<u16>,
    /// Mount count since the last check
    #[arg(short = 'C', long, value_name = "MOUNTS")]
    mounts: Option<u16>,
    /// Interval between checks: in days, or with suffix d, w, m or s; 0: no limit
    #[arg(short = 'i', long, value_name = "TIME", value_parser = tune_words::interval)]
    interval: Option<u32>,
    /// Time of the last check, in seconds since 1970
    #[arg(short = 'T', long, value_name = "SECONDS")]
    last_checked: Option<u64>,
    /// Directory of the last mount (last mounted on), up to 63 bytes
    #[arg(short = 'M', long, value_name = "DIR")]
    last_mounted: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let mut tuning = self.tuning();
        let journal = self.journal()?;
        let name = self.image.name();
        let asks_for_quota = self.asks_for_quota();
        let changes_descriptors = self.last(Feature::SIXTY_FOUR_BIT).is_some();
        let is_nothing = tuning == Tuning::default()
            && journal.is_none()
            && !asks_for_quota
            && !changes_descriptors;
        let clears_mmp = self.clears_mmp()?;
        let is_nothing = is_nothing && self.reserved.percent.is_none() && !clears_mmp;
        if is_nothing && self.inode_size.is_none() {
            let problem = "nothing to change; -h lists what can be";
            return Err(Failure::usage(format!("{name}: {problem}")));
        }
        let mut target = Target::open(&self.image, journal.as_ref())?;
        if let Some(share) = self.reserved.percent {
            let disk = image::superblock(&*target.home).at(&name)?;
            tuning.reserved_blocks = Some(share.of(disk.blocks_count));
        }
        let alone = (tuning == Tuning::default() && journal.is_none() && !asks_for_quota)
            .then_some(self.inode_size)
            .filter(|_| !clears_mmp && !changes_descriptors)
            .flatten();
        // Larger inodes alone are refused before the first write, and may take much memory.
        if alone.is_none() {
            target.rehearse(|target| self.apply(target, journal.as_ref(), tuning.clone()))?;
        }
        self.apply(&mut target, journal.as_ref(), tuning)?;
        self.warn_of_features();
        if self.json {
            let disk = uext4::read_superblock(&*target.home, None).at(&name)?;
            show::json(&mut std::io::stdout(), &Info::new(&disk, None).at(&name)?)?;
        }
        Ok(())
    }

    fn apply(&self, target: &mut Target, journal: Option<&Wanted>, tuning: Tuning) -> Result<()> {
        self.open_up(target)?;
        // While there is a journal, which larger inodes need.
        let goes = journal.filter(|journal| **journal == Wanted::None);
        let comes = journal.filter(|_| goes.is_none());
        // Without a journal before features: orphan_file and fast_commit need it.
        comes.map_or(Ok(()), |journal| self.set_journal(target, journal))?;
        self.set_inode_size(target)?;
        self.set_descriptor_size(target)?;
        goes.map_or(Ok(()), |journal| self.set_journal(target, journal))?;
        if self.last(Feature::RESIZE_INODE) == Some(Presence::Absent) {
            let freed = uext4::resize::free_reserved_descriptors;
            freed(target.home.clone(), target.options()).at(&target.name)?;
        }
        let (reseal, tuning) = resealing(target, tuning)?;
        if reseal != Reseal::default() {
            uext4::reseal(target.home.clone(), target.options(), reseal).at(&target.name)?;
        }
        if tuning != Tuning::default() {
            target.change(|fs| fs.tune(&tuning))?;
        }
        // Last: project quota needs the feature.
        if self.asks_for_quota() {
            self.set_quota(target)
        } else {
            Ok(())
        }
    }

    /// Whether the MMP block is to be cleared.
    fn clears_mmp(&self) -> Result<bool> {
        let mut words = self.extended.iter();
        let clears = words.any(|word| matches!(word, ExtendedWord::ClearMmp));
        match (clears, self.force) {
            (true, false) => Err(Failure::usage(
                "-E clear_mmp needs -f: a host that uses the file system would damage it",
            )),
            (false, true) => Err(Failure::usage("-f goes with -E clear_mmp only")),
            _ => Ok(clears),
        }
    }

    /// Takes away what keeps other changes out.
    fn open_up(&self, target: &Target) -> Result<()> {
        if self.clears_mmp()? {
            uext4::clear_mmp(&target.home).at(&target.name)?;
        }
        if self.last(Feature::READONLY) == Some(Presence::Absent) {
            uext4::clear_read_only(&target.home, &target.options()).at(&target.name)?;
        }
        match self.last(Feature::FLEX_BG) {
            // Larger inode tables need it.
            Some(Presence::Present) => target.change(|fs| {
                fs.tune(&Tuning {
                    features: vec![(Feature::FLEX_BG, Presence::Present)],
                    ..Tuning::default()
                })
            }),
            _ => Ok(()),
        }
    }

    fn asks_for_quota(&self) -> bool {
        !self.quota.is_empty() || self.last(Feature::QUOTA).is_some()
    }

    fn tuning(&self) -> Tuning {
        let features = self.features.iter();
        let own_way = [
            Feature::HAS_JOURNAL,
            Feature::QUOTA,
            Feature::SIXTY_FOUR_BIT,
        ];
        let features = features.filter(|FeatureWord(feature, _)| !own_way.contains(feature));
        let mut tuning = Tuning {
            label: self.label.clone().map(String::into_bytes),
            uuid: self.uuid,
            reserved_blocks: self.reserved.blocks,
            reserved_uid: self.reserved.uid,
            reserved_gid: self.reserved.gid,
            on_error: self.errors,
            check_times: CheckTimes {
                mounts_max: self.checks.max_mounts,
                mounts: self.checks.mounts,
                interval_seconds: self.checks.interval,
                last_seconds: self.checks.last_checked,
            },
            features: features
                .map(|FeatureWord(feature, wanted)| (*feature, *wanted))
                .collect(),
            ..Tuning::default()
        };
        let directory = self.checks.last_mounted.clone();
        tuning.mount_defaults.last_mounted = directory.map(String::into_bytes);
        for word in &self.mount_options {
            word.apply(&mut tuning.mount_defaults);
        }
        for word in &self.extended {
            word.apply(&mut tuning);
        }
        tuning
    }

    /// Tells which of the features turned on keep this program from the file system.
    fn warn_of_features(&self) {
        let name = self.image.name();
        for FeatureWord(feature, wanted) in &self.features {
            let how = match uext4::support(*feature) {
                _ if *wanted == Presence::Absent => continue,
                Support::ReadWrite => continue,
                Support::ReadOnly => "mounts it read-only from now on, and changes it no more",
                Support::Refused => "refuses it from now on; Linux mounts it",
            };
            eprintln!("uext4: note: {name}: has the feature {feature}: uext4 {how}");
        }
    }

    /// The last word about a feature.
    pub(super) fn last(&self, wanted: Feature) -> Option<Presence> {
        let mut words = self.features.iter();
        let word = words.rfind(|FeatureWord(feature, _)| *feature == wanted);
        word.map(|word| word.1)
    }

    fn set_inode_size(&self, target: &Target) -> Result<()> {
        let Some(bytes) = self.inode_size else {
            return Ok(());
        };
        let done = uext4::resize::set_inode_size(target.home.clone(), target.options(), bytes);
        done.at(&target.name)
    }

    fn set_descriptor_size(&self, target: &Target) -> Result<()> {
        let wanted = match self.last(Feature::SIXTY_FOUR_BIT) {
            Some(Presence::Present) => DescriptorSize::Wide,
            Some(Presence::Absent) => DescriptorSize::Narrow,
            None => return Ok(()),
        };
        let done = set_descriptor_size(target.home.clone(), target.options(), wanted);
        done.at(&target.name)
    }

    fn set_quota(&self, target: &Target) -> Result<()> {
        let disk = image::superblock(&*target.home).at(&target.name)?;
        let kinds = tune_words::quota_after(&disk, self.last(Feature::QUOTA), &self.quota);
        uext4::set_quota(&target.home, &target.options(), &kinds).at(&target.name)
    }
}

/// Takes from `tuning` what rewrites checksums: `metadata_csum`, `uninit_bg`, and a UUID that is
/// the seed of checksums afterwards, or of hashes.
fn resealing(target: &Target, mut tuning: Tuning) -> Result<(Reseal, Tuning)> {
    let is_csum = |word: &&(Feature, Presence)| word.0 == Feature::METADATA_CSUM;
    let is_of_groups = |word: &&(Feature, Presence)| word.0 == Feature::UNINIT_BG;
    let mut reseal = Reseal {
        metadata_csum: tuning.features.iter().rfind(is_csum).map(|word| word.1),
        uuid: None,
        uninit_bg: tuning
            .features
            .iter()
            .rfind(is_of_groups)
            .map(|word| word.1),
    };
    tuning
        .features
        .retain(|word| !is_csum(&word) && !is_of_groups(&word));
    if tuning.uuid.is_none() {
        return Ok((reseal, tuning));
    }
    let disk = image::superblock(&*target.home).at(&target.name)?;
    let has = |feature| {
        let mut words = tuning.features.iter();
        let asked = words.rfind(|(asked, _)| *asked == feature);
        asked.map_or(disk.features().has(feature), |word| {
            word.1 == Presence::Present
        })
    };
    let sealed = match reseal.metadata_csum {
        Some(wanted) => wanted == Presence::Present,
        None => disk.features().has(Feature::METADATA_CSUM),
    };
    let follows = if sealed {
        !has(Feature::CSUM_SEED)
    } else {
        let hashes = has(Feature::UNINIT_BG) || has(Feature::EA_INODE);
        hashes || reseal.metadata_csum.is_some()
    };
    if follows {
        reseal.uuid = tuning.uuid.take();
    }
    Ok((reseal, tuning))
}

pub(super) fn uuid(text: &str) -> std::result::Result<[u8; 16], String> {
    match text {
        "random" => Ok(mkfs::random_uuid()),
        "clear" => Ok([0; 16]),
        text => numbers::uuid(text),
    }
}

fn behaviour(text: &str) -> std::result::Result<OnError, String> {
    match text {
        "continue" => Ok(OnError::Continue),
        "remount-ro" => Ok(OnError::RemountReadOnly),
        "panic" => Ok(OnError::Panic),
        _ => Err("continue, remount-ro or panic".into()),
    }
}
