//! Writes the sector of a legacy table: four entries, or one that covers a GPT.
//!
//! References: UEFI specification, chapter 5.2.

use uext4_device::BlockDevice;
use uext4_num::{clamp_u32, low_u8, usize_of};

use crate::table::{Contents, Extent, PartitionType, SECTOR, Table};
use crate::{Partition, Result, identity};

const SECTOR_BYTES: usize = 512;
/// Offset of the disk's identity.
const DISK_AT: usize = 440;
const ENTRIES_AT: usize = 446;
const ENTRY_BYTES: usize = 16;
const SIGNATURE_AT: usize = 510;
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
const PROTECTIVE: u8 = 0xee;
const BOOTABLE: u8 = 0x80;
/// Heads of a cylinder and sectors of a track, as all programs count by now.
const HEADS: u64 = 255;
const TRACK: u64 = 63;
/// The address of sectors that have none: the last cylinder.
const FAR: [u8; 3] = [0xfe, 0xff, 0xff];

/// Writes the table of a blank disk. `form` gives the identity, if the table has none.
///
/// # Errors
/// Of the device.
pub(crate) fn write(
    disk: &dyn BlockDevice,
    table: &Table,
    given: Option<u32>,
    placed: &[Extent],
    form: [u8; 16],
) -> Result<(Vec<Partition>, String)> {
    let [a, b, c, d, ..] = identity::uuid("disk", form).into_bytes();
    let id = given.unwrap_or(u32::from_be_bytes([a, b, c, d]).max(1));
    let mut sector = empty();
    sector[DISK_AT..DISK_AT + 4].copy_from_slice(&id.to_le_bytes());
    let mut partitions = Vec::new();
    for (line, extent) in table.lines.iter().zip(placed) {
        let at = ENTRIES_AT + (usize_of(line.number) - 1) * ENTRY_BYTES;
        let entry = &mut sector[at..at + ENTRY_BYTES];
        entry[0] = if line.is_bootable { BOOTABLE } else { 0 };
        entry[1..4].copy_from_slice(&address(extent.start));
        entry[4] = match line.kind {
            PartitionType::Dos(byte) => byte,
            PartitionType::Gpt(_) => 0,
        };
        entry[5..8].copy_from_slice(&address(extent.end() - 1));
        entry[8..12].copy_from_slice(&clamp_u32(extent.start).to_le_bytes());
        entry[12..].copy_from_slice(&clamp_u32(extent.sectors).to_le_bytes());
        partitions.push(Partition {
            number: line.number,
            start_bytes: extent.start * SECTOR,
            size_bytes: extent.sectors * SECTOR,
            uuid: format!("{id:08x}-{:02x}", line.number),
            has_file_system: line.contents == Contents::FileSystem,
        });
    }
    disk.write_at(0, &sector)?;
    Ok((partitions, format!("0x{id:08x}")))
}

/// The sector before a GPT of a disk of so many sectors.
pub(crate) fn protective(sectors: u64) -> [u8; SECTOR_BYTES] {
    let mut sector = empty();
    let entry = &mut sector[ENTRIES_AT..ENTRIES_AT + ENTRY_BYTES];
    entry[1..4].copy_from_slice(&[0, 2, 0]);
    entry[4] = PROTECTIVE;
    entry[5..8].copy_from_slice(&[0xff; 3]);
    entry[8..12].copy_from_slice(&1u32.to_le_bytes());
    entry[12..].copy_from_slice(&clamp_u32(sectors - 1).to_le_bytes());
    sector
}

fn empty() -> [u8; SECTOR_BYTES] {
    let mut sector = [0; SECTOR_BYTES];
    sector[SIGNATURE_AT..].copy_from_slice(&SIGNATURE);
    sector
}

/// The address of a sector by cylinder, head and sector.
fn address(sector: u64) -> [u8; 3] {
    let (track, inside) = (sector / TRACK, sector % TRACK + 1);
    let (cylinder, head) = (track / HEADS, track % HEADS);
    match cylinder {
        0..1024 => [
            low_u8(head),
            low_u8(inside | (cylinder >> 8) << 6),
            low_u8(cylinder & 0xff),
        ],
        _ => FAR,
    }
}
