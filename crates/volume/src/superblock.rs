//! The superblock on a device: the primary copy, its backups, and what a change writes meanwhile.

use crate::{Error, Result};
use uext4_device::BlockDevice;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, state};
use uext4_format::{Feature, GroupNr, Superblock, Uuid};
use uext4_num::{clamp_u16, u64_of};

/// Reads and validates the superblock of a device: the primary copy, or the one at `sb=`.
///
/// # Errors
/// [`Error::Mount`] if there is no ext4 superblock, [`Error::Corrupt`] if it is damaged.
pub fn read_superblock(device: &dyn BlockDevice, at_kib: Option<u64>) -> Result<Superblock> {
    let offset = at_kib.map_or(SUPERBLOCK_OFFSET, |kib| kib.saturating_mul(1024));
    let mut bytes = [0u8; SUPERBLOCK_BYTES];
    if offset.saturating_add(u64_of(SUPERBLOCK_BYTES)) > device.size_bytes() {
        return Err(Error::Mount(format!(
            "{} is too small for ext4",
            device.describe()
        )));
    }
    device.read_at(offset, &mut bytes)?;
    if !Superblock::has_magic(&bytes) {
        let name = device.describe();
        return Err(Error::Mount(format!(
            "{name} holds no ext4 file system (no magic at byte {offset})"
        )));
    }
    refuse_journal(device, &bytes)?;
    Ok(Superblock::parse(&bytes)?)
}

/// Reads the superblock as the primary one, also that of a backup.
///
/// # Errors
/// As [`read_superblock`].
pub fn read_primary(device: &dyn BlockDevice, at_kib: Option<u64>) -> Result<Superblock> {
    let mut superblock = read_superblock(device, at_kib)?;
    superblock.block_group_nr = 0;
    // A device beside an internal journal is what a crash in a change of the size of descriptors
    // leaves, to keep Linux out.
    if superblock.journal_inum != 0 {
        superblock.journal_dev = 0;
    }
    Ok(superblock)
}

/// Refuses an external journal: its superblock has mostly meaningless fields.
fn refuse_journal(device: &dyn BlockDevice, bytes: &[u8; SUPERBLOCK_BYTES]) -> Result<()> {
    let Ok(disk) = Superblock::parse_unverified(bytes) else {
        return Ok(());
    };
    if !disk.features().has(Feature::JOURNAL_DEV) {
        return Ok(());
    }
    let (name, uuid) = (device.describe(), Uuid(&disk.uuid));
    Err(Error::Mount(format!(
        "{name} is an external journal (UUID {uuid}), not a file system; the file system that it \
         belongs to is mounted with journal_path={name}"
    )))
}

/// A backup of the superblock for this group, in the state of an unmounted file system.
pub fn backup(disk: &Superblock, group: GroupNr) -> [u8; SUPERBLOCK_BYTES] {
    let mut copy = disk.clone();
    let mut features = copy.features();
    features.remove(Feature::RECOVER);
    features.remove(Feature::ORPHAN_PRESENT);
    copy.set_features(features);
    copy.state &= !state::VALID;
    copy.last_orphan = 0;
    copy.block_group_nr = clamp_u16(group.0); // as mke2fs, for groups above 65,535
    copy.to_bytes()
}

/// The superblock without the features of checksums: no program verifies any then.
pub fn without_checksums(disk: &Superblock) -> Superblock {
    let mut disk = disk.clone();
    let mut features = disk.features();
    for feature in [
        Feature::METADATA_CSUM,
        Feature::CSUM_SEED,
        Feature::UNINIT_BG,
    ] {
        features.remove(feature);
    }
    disk.set_features(features);
    disk
}

/// Writes the primary superblock, durably.
///
/// # Errors
/// Those of the device.
pub fn write_superblock(device: &dyn BlockDevice, disk: &Superblock) -> Result<()> {
    device.write_at(SUPERBLOCK_OFFSET, &disk.to_bytes())?;
    Ok(device.flush()?)
}
