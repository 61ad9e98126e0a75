//! The primary superblock, from one of its backups.
//!
//! mkfs spreads backups over groups 1 and the powers of 3, 5 and 7, and a group has as many blocks
//! as a block has bits, unless it was made with other numbers. So for each block size there are a
//! few places where a backup may be.

use super::{Decision, Decisions};
use crate::problems::Problem;
use crate::report::Finding;
use uext4_device::BlockDevice;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, state};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, Superblock};
use uext4_num::{clamp_u16, u64_of};
use uext4_volume::superblock::{read_primary, write_superblock};
use uext4_volume::{Error, Result};

/// The groups that have backups first, whatever the features.
const GROUPS: [u64; 8] = [1, 3, 5, 7, 9, 25, 27, 49];
/// Block sizes of ext4, as powers of two.
const BLOCK_BITS: std::ops::RangeInclusive<u32> = 10..=16;

/// A superblock to write in place of the primary one: a backup, or itself without its damage.
#[derive(Clone, Debug)]
pub(crate) struct Restoration {
    superblock: Superblock,
    is_backup: bool,
    /// What is wrong with the primary one; `None` if a user names the backup.
    damage: Option<Finding>,
}

impl Restoration {
    /// The backup that is to be written: one that a user names by its offset in KiB, or one that
    /// is searched for because the primary superblock is damaged; `None` if that is sound.
    ///
    /// # Errors
    /// [`Error::Mount`] if what is named is no backup of the file system there. That of the primary
    /// superblock, if no backup is found: those of the device, and [`Error::Mount`] if there is no
    /// ext4 file system.
    pub(crate) fn find(device: &dyn BlockDevice, named_kib: Option<u64>) -> Result<Option<Self>> {
        if let Some(kib) = named_kib {
            let superblock = named(device, kib)?;
            return Ok(Some(Self {
                superblock,
                is_backup: true,
                damage: None,
            }));
        }
        let damage = match read_primary(device, None).and_then(|disk| Ok(disk.geometry()?)) {
            Ok(_) => return Ok(None),
            Err(error) => error,
        };
        let corrupt = match &damage {
            Error::Corrupt(corrupt) => corrupt.problem,
            Error::Mount(_) => CorruptKind::magic(0),
            _ => return Err(damage),
        };
        let mut finding = Finding {
            corrupt: Corrupt::new(DamageLocation::Superblock, "primary superblock", corrupt),
            detail: None,
            byte: Some(SUPERBLOCK_OFFSET),
        };
        let Some(superblock) = find_backup(device) else {
            let Some(superblock) = mended(device, corrupt) else {
                return Err(damage);
            };
            return Ok(Some(Self {
                superblock,
                is_backup: false,
                damage: Some(finding),
            }));
        };
        let group = superblock.block_group_nr;
        finding.detail = Some(format!("a backup is in group {group}"));
        Ok(Some(Self {
            superblock,
            is_backup: true,
            damage: Some(finding),
        }))
    }

    /// The backup.
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The damage, if `decisions` do not accept the backup.
    pub(crate) fn refused(&self, decisions: &mut dyn Decisions) -> Option<Finding> {
        let damage = self.damage.clone()?;
        let problem = Problem::of(&damage.corrupt);
        let decision = decisions.decide(&damage, problem);
        (decision != Decision::Repair).then_some(damage)
    }

    /// Writes the superblock. The log, of whose state a backup says nothing, is replayed at the
    /// next mount.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn write(self, device: &dyn BlockDevice) -> Result<()> {
        let mut disk = self.superblock;
        disk.state &= !state::VALID;
        if !self.is_backup {
            return write_superblock(device, &disk);
        }
        disk.block_group_nr = 0;
        // A backup may be older than the orphans.
        disk.last_orphan = 0;
        let mut features = disk.features();
        if features.has(Feature::HAS_JOURNAL) {
            features.insert(Feature::RECOVER);
            disk.set_features(features);
        }
        write_superblock(device, &disk)
    }
}

/// The backup at this offset in KiB, if it is one of the file system that the primary superblock
/// has, as far as that is sound. What a file holds is none: it is not where its geometry has one.
fn named(device: &dyn BlockDevice, kib: u64) -> Result<Superblock> {
    let at = kib.saturating_mul(1024);
    let disk = read_sound(device, at).filter(|disk| fits(device, disk) && is_at(disk, at));
    let Some(disk) = disk else {
        return Err(Error::Mount(format!(
            "no backup of a superblock is at byte {at}"
        )));
    };
    match read_primary(device, None) {
        Ok(primary) if primary.uuid != disk.uuid => Err(Error::Mount(format!(
            "the superblock at byte {at} is of another file system"
        ))),
        _ => Ok(disk),
    }
}

/// Whether a superblock is a backup that is where its geometry has it. In revision 0, and where
/// Linux before 6.2 has grown the file system, it does not say its group.
fn is_at(disk: &Superblock, byte: u64) -> bool {
    let Ok(geometry) = disk.geometry() else {
        return false;
    };
    let group = geometry.group_of_block(BlockNr(byte >> geometry.block_bits));
    let is_named = [0, clamp_u16(group.0)].contains(&disk.block_group_nr);
    let block = geometry.superblock_block(group);
    let is_there = block.is_some_and(|block| block.0 << geometry.block_bits == byte);
    group.0 > 0 && is_named && is_there
}

/// The primary superblock without its only damage: a first meta group behind all descriptors, so
/// that there are none in meta groups.
fn mended(device: &dyn BlockDevice, problem: CorruptKind) -> Option<Superblock> {
    if !matches!(problem, CorruptKind::FirstMetaGroup { .. }) {
        return None;
    }
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).ok()?;
    let mut disk = Superblock::parse_unverified(&bytes).ok()?;
    let mut features = disk.features();
    features.remove(Feature::META_BG);
    disk.set_features(features);
    disk.first_meta_bg = 0;
    // Its checksum was right: it is compared first.
    let disk = Superblock::parse(&disk.to_bytes()).ok()?;
    fits(device, &disk).then_some(disk)
}

fn fits(device: &dyn BlockDevice, disk: &Superblock) -> bool {
    let geometry = disk.geometry();
    geometry.is_ok_and(|geometry| geometry.size_bytes() <= device.size_bytes())
}

/// A sound backup. A device may hold those of an earlier file system as well: then it is the one
/// with the UUID of the damaged superblock, and none if that does not tell.
fn find_backup(device: &dyn BlockDevice) -> Option<Superblock> {
    let mut all: Vec<Superblock> = Vec::new();
    for bits in BLOCK_BITS {
        let found = GROUPS
            .iter()
            .filter_map(|group| backup_at(device, bits, *group));
        all.extend(found);
    }
    let first = all.first()?;
    if all.iter().all(|other| other.uuid == first.uuid) {
        return Some(first.clone());
    }
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes).ok()?;
    let damaged = Superblock::parse_unverified(&bytes).ok()?;
    all.into_iter().find(|other| other.uuid == damaged.uuid)
}

/// The backup in a group, if blocks have this size and groups the usual one.
fn backup_at(device: &dyn BlockDevice, block_bits: u32, group: u64) -> Option<Superblock> {
    let block_size = 1u64 << block_bits;
    let first = u64::from(block_size == 1024);
    let offset = (group * block_size * 8 + first) * block_size;
    let disk = read_sound(device, offset)?;
    let size = 1024u64.checked_shl(disk.log_block_size)?;
    let is_meant = size == block_size && is_at(&disk, offset);
    (is_meant && fits(device, &disk)).then_some(disk)
}

/// The sound superblock at a byte.
fn read_sound(device: &dyn BlockDevice, offset: u64) -> Option<Superblock> {
    if offset.checked_add(u64_of(SUPERBLOCK_BYTES))? > device.size_bytes() {
        return None;
    }
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read_at(offset, &mut bytes).ok()?;
    Superblock::parse(&bytes).ok()
}
