//! `uext4 fsck -E`: the extended options of e2fsck, and what they do after the repair.

use crate::failure::{At, Exit, Failure, Result};
use crate::show;
use std::str::FromStr;
use uext4::device::BlockDevice;
use uext4::format::Feature;
use uext4::{Filesystem, MountOptions, Threads};
use uext4_sync::Arc;

/// One list of options after `-E`.
#[derive(Clone)]
pub(super) struct Extended(Vec<One>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum One {
    /// Replays the log, and nothing else.
    JournalOnly,
    /// Free blocks are discarded in a file system that is sound.
    Discard,
    NoDiscard,
    /// Only problems are repaired, as always here.
    FixesOnly,
    /// Files with block tables get extents.
    Extents,
    /// Files that share blocks get their own.
    Unshare,
}

impl FromStr for Extended {
    type Err = String;

    fn from_str(list: &str) -> std::result::Result<Self, String> {
        let words = list.split(',').filter(|word| !word.is_empty());
        Ok(Self(words.map(one).collect::<std::result::Result<_, _>>()?))
    }
}

fn one(word: &str) -> std::result::Result<One, String> {
    let name = word.split('=').next().unwrap_or_default();
    match word {
        "journal_only" => Ok(One::JournalOnly),
        "discard" => Ok(One::Discard),
        "nodiscard" => Ok(One::NoDiscard),
        "fixes_only" => Ok(One::FixesOnly),
        "bmap2extent" => Ok(One::Extents),
        "unshare_blocks" => Ok(One::Unshare),
        _ => Err(format!(
            "{name} is not known here; known are journal_only, discard, nodiscard, fixes_only, \
             bmap2extent, unshare_blocks"
        )),
    }
}

impl Extended {
    pub(super) fn is_journal_only(lists: &[Self]) -> bool {
        all(lists).any(|one| one == One::JournalOnly)
    }

    /// Whether files get blocks of their own, which needs a whole check.
    pub(super) fn is_unsharing(lists: &[Self]) -> bool {
        all(lists).any(|one| one == One::Unshare)
    }

    /// Refuses changes beside a choice that makes none.
    pub(super) fn check_read_only(lists: &[Self]) -> Result<()> {
        let changes = [One::JournalOnly, One::Discard, One::Extents, One::Unshare];
        if all(lists).any(|one| changes.contains(&one)) {
            let text = "fsck: -E changes the image, which -n does not";
            return Err(Failure::usage(text));
        }
        Ok(())
    }

    /// Refuses what needs a mount, before anything is repaired, if the features prevent that.
    pub(super) fn check_mountable(lists: &[Self], device: &dyn BlockDevice) -> Result<()> {
        if Self::is_journal_only(lists) {
            // Nothing else is done.
            return Ok(());
        }
        let needs_mount = all(lists).any(|one| one == One::Extents) || discards(lists);
        // A superblock that cannot be read is repaired first.
        let disk = uext4::read_superblock(device, None).ok();
        let Some(disk) = disk.filter(|_| needs_mount) else {
            return Ok(());
        };
        let features = disk.features();
        let foreign = [Feature::CASEFOLD, Feature::ENCRYPT, Feature::VERITY];
        match foreign.iter().find(|feature| features.has(**feature)) {
            Some(feature) => Err(Failure::new(
                Exit::Operational,
                format!(
                    "fsck: -E discard and bmap2extent need a mount, which the feature {feature} \
                     prevents; nothing was repaired"
                ),
            )),
            None => Ok(()),
        }
    }

    /// What is asked for once the file system is sound.
    pub(super) fn finish(
        lists: &[Self],
        device: &Arc<dyn BlockDevice>,
        options: &MountOptions,
        name: &str,
    ) -> Result<()> {
        if all(lists).any(|one| one == One::Extents) {
            let proceed = &mut |_| std::ops::ControlFlow::Continue(());
            let used = uext4::use_extents(device, options, proceed).at(name)?;
            show::line(format_args!("{name}: {} files got extents", used.files))?;
        }
        if discards(lists) {
            discard(device, options).at(name)?;
        }
        Ok(())
    }
}

fn all(lists: &[Extended]) -> impl Iterator<Item = One> {
    lists.iter().flat_map(|list| &list.0).copied()
}

/// The last word counts.
fn discards(lists: &[Extended]) -> bool {
    let words = all(lists).filter(|one| [One::Discard, One::NoDiscard].contains(one));
    words.last() == Some(One::Discard)
}

fn discard(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> uext4::Result<()> {
    let options = MountOptions {
        threads: Threads::Inline,
        ..options.clone()
    };
    let fs = Filesystem::mount(Arc::clone(device), options)?;
    let trimmed = fs.trim(0..u64::MAX, 0);
    fs.unmount()?;
    trimmed.map(|_| ())
}
