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
use uext4_format::{Corrupt, CorruptKind, DamageLocation, Feature, Superblock};
use uext4_num::u64_of;
use uext4_volume::superblock::{read_primary, write_superblock};
use uext4_volume::{Error, Result};

/// The groups that have backups first, whatever the features.
const GROUPS: [u64; 8] = [1, 3, 5, 7, 9, 25, 27, 49];
/// Block sizes of ext4, as powers of two.
const BLOCK_BITS: std::ops::RangeInclusive<u32> = 10..=16;

/// What became of the primary superblock.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// A backup was written in its place.
    pub was_restored: bool,
    /// It is damaged, and was left so.
    pub left: Option<Finding>,
}

/// Writes the backup at this offset in KiB over the primary superblock.
///
/// # Errors
/// [`Error::Mount`] if there is no sound superblock; those of the device.
pub fn write_backup(device: &dyn BlockDevice, kib: u64) -> Result<()> {
    let disk = kib.checked_mul(1024).and_then(|at| read_sound(device, at));
    match disk.filter(|disk| fits(device, disk)) {
        Some(disk) => restore(device, disk),
        None => Err(Error::Mount(format!(
            "there is no sound superblock at byte {}",
            kib.saturating_mul(1024)
        ))),
    }
}

fn fits(device: &dyn BlockDevice, disk: &Superblock) -> bool {
    let geometry = disk.geometry();
    geometry.is_ok_and(|geometry| geometry.size_bytes() <= device.size_bytes())
}

/// Writes a backup in place of a damaged primary superblock, if `decisions` accept that. The log,
/// of whose state a backup says nothing, is replayed at the next mount.
///
/// # Errors
/// That of the primary superblock, if no backup is found: those of the device, and
/// [`Error::Mount`] if there is no ext4 file system.
pub fn restore_superblock(
    device: &dyn BlockDevice,
    decisions: &mut dyn Decisions,
) -> Result<Restored> {
    let damage = match read_primary(device, None).and_then(|disk| Ok(disk.geometry()?)) {
        Ok(_) => return Ok(Restored::default()),
        Err(error) => error,
    };
    let corrupt = match &damage {
        Error::Corrupt(corrupt) => corrupt.problem,
        Error::Mount(_) => CorruptKind::magic(0),
        _ => return Err(damage),
    };
    let Some(disk) = find_backup(device) else {
        return Err(damage);
    };
    let finding = Finding {
        corrupt: Corrupt::new(DamageLocation::Superblock, "primary superblock", corrupt),
        detail: Some(format!("a backup is in group {}", disk.block_group_nr)),
        byte: Some(SUPERBLOCK_OFFSET),
    };
    let problem = Problem::of(&finding.corrupt);
    if decisions.decide(&finding, problem) != Decision::Repair {
        let left = Some(finding);
        return Ok(Restored {
            was_restored: false,
            left,
        });
    }
    restore(device, disk)?;
    Ok(Restored {
        was_restored: true,
        left: None,
    })
}

fn restore(device: &dyn BlockDevice, mut disk: Superblock) -> Result<()> {
    disk.block_group_nr = 0;
    disk.state &= !state::VALID;
    let mut features = disk.features();
    if features.has(Feature::HAS_JOURNAL) {
        features.insert(Feature::RECOVER);
        disk.set_features(features);
    }
    write_superblock(device, &disk)
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
    let geometry = disk.geometry().ok()?;
    let is_meant =
        u64::from(geometry.block_size()) == block_size && u64::from(disk.block_group_nr) == group;
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
