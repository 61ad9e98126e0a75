//! Reads the superblock of a device.

use super::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use crate::{Error, Result};
use uext4_device::BlockDevice;
use uext4_format::{Feature, Superblock, Uuid};
use uext4_num::u64_of;

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
