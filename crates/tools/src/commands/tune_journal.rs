//! `uext4 tune -J` and `-O has_journal`: the journal comes, goes, or is another one.

use super::journal_words::LogWords;
use super::tune::Args;
use super::tune_target::Target;
use super::tune_words::JournalWord;
use crate::failure::{At, Failure, Result};
use crate::image;
use rustix::fs::FileType;
use std::path::{Path, PathBuf};
use uext4::format::{DeviceNumber, Feature, Superblock};
use uext4::{InternalJournal, Journal, Presence, mkfs};
use uext4_num::clamp_u32;

/// The journal that the arguments ask for.
#[derive(PartialEq, Eq)]
pub(super) enum Wanted {
    None,
    Default,
    Internal(LogWords),
    Device(PathBuf),
}

impl Args {
    /// The journal that is asked for, if any.
    pub(super) fn journal(&self) -> Result<Option<Wanted>> {
        match (self.last(Feature::HAS_JOURNAL), &self.journal) {
            (Some(Presence::Absent), Some(_)) => Err(Failure::usage(
                "-J and -O ^has_journal contradict each other",
            )),
            (Some(Presence::Absent), None) => Ok(Some(Wanted::None)),
            (_, Some(JournalWord::Internal(words))) => Ok(Some(Wanted::Internal(*words))),
            (_, Some(JournalWord::Device(path))) => Ok(Some(Wanted::Device(path.clone()))),
            (Some(_), None) => Ok(Some(Wanted::Default)),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn set_journal(&self, target: &mut Target, wanted: &Wanted) -> Result<()> {
        let name = target.name.clone();
        let disk = image::superblock(&*target.home).at(&name)?;
        let has_one = disk.features().has(Feature::HAS_JOURNAL);
        match (wanted, has_one) {
            (Wanted::None, false) | (Wanted::Default, true) => return Ok(()),
            _ => {}
        }
        let other = target.new_journal.clone();
        let journal = match (wanted, &other) {
            (Wanted::Internal(words), _) => Journal::Internal(in_blocks(*words, &disk)),
            (Wanted::Device(_), Some((path, device))) => {
                let uuid = mkfs::journal_device_uuid(&**device);
                let uuid = uuid.map_err(|error| Failure::at(&error, path.display()))?;
                Journal::External {
                    device,
                    uuid,
                    number: block_device_number(path),
                }
            }
            (Wanted::None, _) => Journal::None,
            (Wanted::Default | Wanted::Device(_), _) => {
                Journal::Internal(InternalJournal::default())
            }
        };
        uext4::set_journal(&target.home, &target.options(), journal).at(&name)?;
        target.journal = other.map(|(_, device)| device);
        Ok(())
    }
}

fn in_blocks(words: LogWords, disk: &Superblock) -> InternalJournal {
    let bits = disk.log_block_size + 10;
    let blocks = |bytes: u64| clamp_u32(bytes >> bits);
    let area = words.fast_commit_kib;
    InternalJournal {
        blocks: words.mib.map(|mib| blocks(u64::from(mib) << 20)),
        fast_commit_blocks: area.map(|kib| blocks(u64::from(kib) << 10)),
        place: words.place.map(|place| place.block(bits)),
    }
}

/// The number by which the kernel finds a block device; 0 for a file.
fn block_device_number(path: &Path) -> u32 {
    let found = rustix::fs::stat(path);
    let number = found.map(|found| match FileType::from_raw_mode(found.st_mode) {
        FileType::BlockDevice => found.st_rdev,
        _ => 0,
    });
    let number = number.unwrap_or(0);
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    DeviceNumber { major, minor }.as_new()
}
