//! Rewrites the checksums of all metadata, and hashes of the same seed, for a new UUID and for
//! `metadata_csum` and `uninit_bg` on and off.
//!
//! All changed blocks are one transaction of the log, so a crash leaves all old or all new
//! checksums. A log that cannot hold them is an error, and nothing has changed. While they are on
//! their way home, the superblock says that there are no checksums: so every program finds the log,
//! whose inode and descriptor have old checksums or new ones. Linux reads the features before a
//! replay, so its first mount after such a crash may fail; e2fsck and this engine read them again.
//!
//! Layout: `groups` descriptors, bitmaps and inode tables; `lazy` what groups have not written yet,
//! and need without checksums of groups; `files` what an inode refers to;
//! `directory` one block of a directory, which has space for a checksum or not; `values` hashes of
//! values in inodes (`ea_inode`).
//! Not here: MMP, whose block is in use during the change.
//! References: kernel documentation, "checksums"; `tune2fs(8)`.

mod directory;
mod files;
mod groups;
mod lazy;
mod values;

use crate::changes::Changes;
use crate::descriptors::Descriptors;
use crate::grow::write_copies;
use std::collections::{BTreeMap, BTreeSet};
use uext4_device::BlockDevice;
use uext4_format::{BlockNr, Checksums, Feature, Geometry, GroupNr, InodeNr, Superblock};
use uext4_sync::Arc;
use uext4_volume::Volume;
use uext4_volume::superblock::without_checksums;
use uext4_volume::{Error, OpenOptions, Result};
use values::Seeds;

/// Target state of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is turned on, unless it is on.
    Present,
    /// It is turned off, if it is on.
    Absent,
}

/// What changes together with all checksums; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reseal {
    /// The new UUID; `None` keeps the old one.
    pub uuid: Option<[u8; 16]>,
    /// The feature `metadata_csum`. Off, descriptors keep checksums of their own (`uninit_bg`).
    pub metadata_csum: Option<Presence>,
    /// The feature `uninit_bg`: checksums of groups only. Off, all groups get bitmaps and whole
    /// inode tables.
    pub uninit_bg: Option<Presence>,
}

/// Changes the UUID or the features of checksums of the file system on `device`, and with them the
/// checksums of all its metadata. The caller is the only user of the device. One that was not
/// unmounted is refused.
///
/// # Errors
/// [`Error::NotSupported`] with the reason, without a journal too;
/// [`uext4_volume::ResizeError::Journal`] if the log cannot hold all changed blocks;
/// [`Error::NoSpace`] if a full directory block has no space for a checksum; as [`Volume::claim`].
/// Nothing has changed then.
pub fn reseal(device: Arc<dyn BlockDevice>, options: &OpenOptions, wanted: Reseal) -> Result<()> {
    let mut volume = Volume::claim(device, options)?;
    let done = wanted_superblock(&volume.superblock, wanted).and_then(|disk| match disk {
        Some(disk) => change(&mut volume, disk),
        None => Ok(()),
    });
    let released = volume.release();
    done.and(released)
}

/// The superblock afterwards; `None` if nothing changes.
fn wanted_superblock(now: &Superblock, wanted: Reseal) -> Result<Option<Superblock>> {
    let mut disk = now.clone();
    if let Some(presence) = wanted.metadata_csum {
        set_metadata_csum(&mut disk, presence);
    }
    if let Some(uuid) = wanted.uuid.filter(|uuid| *uuid != now.uuid) {
        fixed_uuid(now).map_or(Ok(()), |problem| Err(Error::NotSupported(problem)))?;
        disk.uuid = uuid;
    }
    let mut features = disk.features();
    match wanted.uninit_bg {
        Some(Presence::Present) if features.has(Feature::METADATA_CSUM) => {
            return Err(Error::NotSupported(
                "uninit_bg beside metadata_csum, which has checksums of groups already",
            ));
        }
        Some(Presence::Present) => features.insert(Feature::UNINIT_BG),
        Some(Presence::Absent) => features.remove(Feature::UNINIT_BG),
        None => {}
    }
    disk.set_features(features);
    if disk == *now {
        return Ok(None);
    }
    let features = now.features();
    let problem = if !features.has(Feature::HAS_JOURNAL) {
        "without a journal a crash would leave checksums or hashes of both kinds; add one first"
    } else if features.has(Feature::MMP) {
        "the block of MMP is in use while checksums change; turn mmp off first"
    } else {
        return Ok(Some(disk));
    };
    Err(Error::NotSupported(problem))
}

fn set_metadata_csum(disk: &mut Superblock, presence: Presence) {
    let mut features = disk.features();
    match presence {
        Presence::Present => {
            features.insert(Feature::METADATA_CSUM);
            features.remove(Feature::UNINIT_BG);
            disk.checksum_type = CRC32C;
        }
        Presence::Absent if features.has(Feature::METADATA_CSUM) => {
            features.remove(Feature::METADATA_CSUM);
            features.remove(Feature::CSUM_SEED);
            features.insert(Feature::UNINIT_BG);
            disk.checksum_seed = 0;
        }
        Presence::Absent => {}
    }
    disk.set_features(features);
}

/// The only type of checksum.
const CRC32C: u8 = 1;

fn change(volume: &mut Volume, disk: Superblock) -> Result<()> {
    let (descriptors, blocks) = {
        let mut work = Work::new(volume, &disk)?;
        work.all()?;
        (work.descriptors, work.changes.into_blocks())
    };
    volume.change_over(blocks, disk.clone(), &without_checksums(&disk))?;
    write_copies(volume, &descriptors, &disk, 1..volume.geometry.group_count)?;
    Ok(volume.device.flush()?)
}

/// Whether flags of a group may stand for its bitmaps and inodes.
fn has_lazy_groups(disk: &Superblock) -> bool {
    let features = disk.features();
    features.has(Feature::METADATA_CSUM) || features.has(Feature::UNINIT_BG)
}

/// The change while it is collected.
struct Work<'a> {
    volume: &'a Volume,
    geometry: Geometry,
    old: Checksums,
    new: Checksums,
    descriptors: Descriptors,
    changes: Changes<'a>,
    /// Attribute blocks that are done: several inodes may refer to one.
    attribute_blocks: BTreeSet<BlockNr>,
    orphan_file: u32,
    /// Those of hashes of values in inodes, if they change.
    seeds: Option<Seeds>,
    /// Whether groups may leave bitmaps and tables unwritten now, and not afterwards.
    ends_lazy: bool,
    /// New hashes of values in inodes.
    value_hashes: BTreeMap<InodeNr, Option<u32>>,
}

impl<'a> Work<'a> {
    fn new(volume: &'a Volume, disk: &Superblock) -> Result<Self> {
        let has_values = volume.geometry.features.has(Feature::EA_INODE);
        let seeds = Seeds {
            old: volume.superblock.seed(),
            new: disk.seed(),
        };
        Ok(Self {
            seeds: (has_values && seeds.old != seeds.new).then_some(seeds),
            value_hashes: BTreeMap::new(),
            ends_lazy: has_lazy_groups(&volume.superblock) && !has_lazy_groups(disk),
            geometry: volume.geometry,
            old: volume.superblock.checksums(),
            new: disk.checksums(),
            descriptors: Descriptors::read(volume)?,
            changes: Changes::new(volume),
            attribute_blocks: BTreeSet::new(),
            orphan_file: volume.superblock.orphan_file_inum,
            volume,
        })
    }

    fn all(&mut self) -> Result<()> {
        let groups = (0..self.geometry.group_count).map(GroupNr);
        let mut descriptors = Vec::new();
        for group in groups {
            descriptors.push(self.group(group)?);
            self.volume.check_room(self.changes.len())?;
        }
        self.descriptors.use_checksums(self.new);
        for (group, descriptor) in (0..).map(GroupNr).zip(&descriptors) {
            self.descriptors.set(group, descriptor);
        }
        self.descriptors.put_primary(&mut self.changes)
    }
}

/// Why the UUID cannot change at all, if so.
pub fn fixed_uuid(disk: &Superblock) -> Option<&'static str> {
    let features = disk.features();
    if features.has(Feature::STABLE_INODES) {
        Some("the feature stable_inodes promises that the UUID never changes")
    } else if features.has(Feature::HAS_JOURNAL) && disk.journal_inum == 0 {
        Some("an external journal knows the file system by its UUID")
    } else {
        None
    }
}
