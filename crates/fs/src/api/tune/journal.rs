//! Gives a file system a journal, or takes it away.
//!
//! An engine cannot change the log that it runs on, so each step is a mount of its own:
//!
//! ```text
//! prepare   the new log: inode 8 gets blocks, or an external journal a user
//! switch    one write of the superblock, which refers to the new log
//! release   the old log: the blocks of inode 8, or its place among the users
//! ```
//!
//! So a crash leaves the old journal or the new one. Blocks of a log that the superblock does not
//! name belong to inode 8, which e2fsck empties. An internal log in the place of another one only
//! changes its length ([`log_length`]).

use super::tuning::Tuning;
use super::{log_length, reserved};
use crate::mount::check_sound;
use crate::ops::filesystem::Filesystem;
use crate::parts::{file, map};
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::state::superblock::read_superblock;
use crate::types::error::{Error, Result};
use crate::types::options::MountOptions;
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Feature, InodeNr, Superblock};
use uext4_mkfs as mkfs;
use uext4_mkfs::LogLength;
use uext4_offline::Presence;
use uext4_sync::Arc;

/// The journal that a file system is to have.
#[derive(Clone, Copy)]
pub enum Journal<'a> {
    /// None: a crash then needs e2fsck.
    None,
    /// In inode 8 of the file system.
    Internal(InternalJournal),
    /// On another device, made by `mkfs::format_journal_device`.
    External {
        /// The journal device, which the caller has opened.
        device: &'a Arc<dyn BlockDevice>,
        /// UUID of the journal, which the superblock stores.
        uuid: [u8; 16],
        /// Number of the block device; 0: unknown.
        number: u32,
    },
}

/// A journal in inode 8; `None` leaves the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InternalJournal {
    /// Blocks beside those for fast commits; by default as many as mke2fs makes.
    pub blocks: Option<u32>,
    /// Blocks for fast commits behind them, with the feature `fast_commit`; by default a 64th.
    pub fast_commit_blocks: Option<u32>,
    /// Where it begins, if its blocks are free there; else where there is room. An internal journal
    /// that the file system has already stays in its place.
    pub place: Option<BlockNr>,
}

impl InternalJournal {
    /// One of this many blocks.
    pub fn of(blocks: u32) -> Self {
        Self {
            blocks: Some(blocks),
            ..Self::default()
        }
    }
}

/// Gives the file system this journal instead of the one that it has. Replays the old one first;
/// without a new one the features `orphan_file` and `fast_commit` go as well. The caller is the
/// only user of the device; `options` are those of the mounts, with the old external journal.
///
/// # Errors
/// [`Error::NotSupported`] for a size that mke2fs would refuse, [`Error::NoSpace`] if the blocks
/// are not free; then the old journal stays. [`Error::Resize`] if e2fsck has to run first.
/// Those of mounts.
pub fn set_journal(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    wanted: Journal<'_>,
) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let length = length_of(&disk, wanted)?;
    check_location(&disk, wanted)?;
    check_sound(device, options)?;
    check_space(device, length.blocks)?;
    let last = match wanted {
        Journal::Internal(_) if is_internal(&disk) => {
            log_length::set(device, options, length)?;
            options.clone()
        }
        _ => replace(device, options, wanted, length)?,
    };
    // The first mount with the new journal writes the backups of the superblock.
    let fs = Filesystem::mount(device.clone(), last)?;
    fs.tune(&Tuning::default())?;
    fs.unmount()
}

fn is_internal(disk: &Superblock) -> bool {
    disk.features().has(Feature::HAS_JOURNAL) && disk.journal_inum == InodeNr::JOURNAL.0
}

/// Length of the new internal journal.
fn length_of(disk: &Superblock, wanted: Journal<'_>) -> Result<LogLength> {
    let Journal::Internal(asked) = wanted else {
        return Ok(LogLength::default());
    };
    let default = mkfs::default_journal_blocks(disk.blocks_count);
    let blocks = asked.blocks.map_or(default, u64::from);
    let area = asked.fast_commit_blocks.map(u64::from);
    let length = LogLength::new(blocks, area, disk.features());
    let problem = if area.is_some() && !disk.features().has(Feature::FAST_COMMIT) {
        "an area of fast commits needs the feature fast_commit; turn that on first"
    } else if area == Some(0) {
        "the area of fast commits has at least one block"
    } else if !length.fits(disk.blocks_count) {
        "a journal has 1024 to 10240000 blocks, and at most half of the file system"
    } else {
        return Ok(length);
    };
    Err(Error::NotSupported(problem))
}

fn check_location(disk: &Superblock, wanted: Journal<'_>) -> Result<()> {
    let Journal::Internal(InternalJournal {
        place: Some(place), ..
    }) = wanted
    else {
        return Ok(());
    };
    let problem = if is_internal(disk) {
        "the journal that is there keeps its place; take it away (-O ^has_journal) before a new \
         one is placed"
    } else if !disk.geometry()?.contains(place) {
        "the place of the journal is outside of the file system"
    } else {
        return Ok(());
    };
    Err(Error::NotSupported(problem))
}

/// Refuses an internal journal that does not fit with its map, before the first change.
fn check_space(device: &Arc<dyn BlockDevice>, blocks: u32) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let there = reserved::read_inode(device, InodeNr::JOURNAL)?;
    let there = there.map_or(0, |inode| inode.size >> 10 >> disk.log_block_size.min(31));
    let per_map_block = if disk.features().has(Feature::EXTENTS) {
        2000
    } else {
        255
    };
    let more = u64::from(blocks).saturating_sub(there);
    let wanted = more + more / per_map_block + 3;
    if more > 0 && disk.free_blocks_count < wanted {
        Err(Error::NoSpace)
    } else {
        Ok(())
    }
}

/// Prepares the new journal, switches to it, and releases the old one. Returns the options of
/// mounts with the new one.
fn replace(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    wanted: Journal<'_>,
    length: LogLength,
) -> Result<MountOptions> {
    let old = read_superblock(&**device, None)?;
    let mut new_options = options.clone();
    new_options.journal_device = None;
    match wanted {
        Journal::None => switch_off(device, options)?,
        Journal::Internal(asked) => switch_to_inode(device, options, length, asked.place)?,
        Journal::External {
            device: other,
            uuid,
            number,
        } => {
            // What a mount refuses (damage, another host by MMP) is refused before the first write.
            Filesystem::mount(device.clone(), options.clone())?.unmount()?;
            let added = mkfs::add_journal_user(&**other, old.uuid);
            added.map_err(|error| Error::Mount(format!("{}: {error}", other.describe())))?;
            reserved::change(device, options, |disk| {
                log_length::forget_inode(disk);
                name_journal(disk, Presence::Present);
                (disk.journal_uuid, disk.journal_dev) = (uuid, number);
            })?;
            new_options.journal_device = Some(other.clone());
        }
    }
    release(device, options, &new_options, &old)?;
    Ok(new_options)
}

/// Says whether there is a journal, so far without its place.
fn name_journal(disk: &mut Superblock, presence: Presence) {
    let mut features = disk.features();
    match presence {
        Presence::Present => features.insert(Feature::HAS_JOURNAL),
        Presence::Absent => features.remove(Feature::HAS_JOURNAL),
    }
    disk.set_features(features);
    (disk.journal_inum, disk.journal_dev, disk.journal_uuid) = (0, 0, [0; 16]);
}

fn switch_off(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> Result<()> {
    let fs = Filesystem::mount(device.clone(), options.clone())?;
    let features = [Feature::ORPHAN_FILE, Feature::FAST_COMMIT];
    let features = features.map(|feature| (feature, Presence::Absent)).to_vec();
    fs.tune(&Tuning {
        features,
        ..Tuning::default()
    })?;
    fs.unmount()?;
    reserved::change(device, options, |disk| {
        log_length::forget_inode(disk);
        name_journal(disk, Presence::Absent);
    })
}

/// Makes a log in inode 8, which is not the journal, on mounts with the old journal or without one.
fn switch_to_inode(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    length: LogLength,
    place: Option<BlockNr>,
) -> Result<()> {
    reserved::empty_inode(device, options, InodeNr::JOURNAL)?;
    let disk = read_superblock(&**device, None)?;
    let empty = reserved::new_inode(&disk, options)?;
    reserved::write_inodes(device, options, &[InodeNr::JOURNAL], &empty)?;
    // An inode that could not be emptied keeps its blocks, which the next try frees.
    let made = on_journal_inode(device, options, |fs, inode| {
        if let Some(place) = place {
            inode.arc().set_goal_hint(place);
        }
        let made = fill(fs, &inode, length);
        if made.is_err() {
            file::cut_to(fs, inode.arc(), 0)?;
        }
        Ok(made)
    })?;
    let (first, backup) = match made {
        Ok(made) => made,
        Err(error) => {
            reserved::clear_inodes(device, options, &[InodeNr::JOURNAL])?;
            return Err(error);
        }
    };
    reserved::at_rest(device, options, |device| {
        let disk = read_superblock(&**device, None)?;
        let log = mkfs::journal_superblock(&disk, length);
        device.write_at(first.0 << disk.geometry()?.block_bits, &log.encode())?;
        device.flush()?;
        reserved::write_superblock(device, |disk| {
            log_length::set_backup(disk, backup);
            name_journal(disk, Presence::Present);
            disk.journal_inum = InodeNr::JOURNAL.0;
        })
    })
}

/// Gives the inode the blocks of a log; returns the first one, and the superblock's copy of the
/// inode.
fn fill(fs: &Fs, inode: &InodeRef, length: LogLength) -> Result<(BlockNr, [u32; 17])> {
    file::append_zeroes(fs, inode.arc(), length.blocks)?;
    let state = inode.read();
    let first = map::blocks_of(fs, &state, 1, || Error::NoSpace)?;
    let first = first.first().copied().ok_or(Error::NoSpace)?;
    Ok((first, mkfs::journal_backup(&state.disk)))
}

/// Gives back what the old journal has, which the superblock does not name any more.
fn release(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    new_options: &MountOptions,
    old: &Superblock,
) -> Result<()> {
    let now = read_superblock(&**device, None)?;
    if !is_internal(&now) && reserved::read_inode(device, InodeNr::JOURNAL)?.is_some() {
        on_journal_inode(device, new_options, |fs, inode| {
            file::cut_to(fs, inode.arc(), 0)
        })?;
        reserved::clear_inodes(device, new_options, &[InodeNr::JOURNAL])?;
    }
    let was_external = old.features().has(Feature::HAS_JOURNAL) && old.journal_inum == 0;
    match &options.journal_device {
        Some(journal) if was_external && now.journal_uuid != old.journal_uuid => {
            let removed = mkfs::remove_journal_user(&**journal, old.uuid);
            removed.map_err(|error| Error::Mount(format!("{}: {error}", journal.describe())))
        }
        _ => Ok(()),
    }
}

/// Mounts, and works on inode 8, which is not the journal.
fn on_journal_inode<T>(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    work: impl FnOnce(&Fs, InodeRef) -> Result<T>,
) -> Result<T> {
    reserved::on_mount(device, options, |fs| {
        work(fs, reserved::load(fs, InodeNr::JOURNAL)?)
    })
}
