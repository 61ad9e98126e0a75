//! Writes a GPT: protective MBR, primary and backup tables, in sectors of 512 bytes.
//!
//! References: UEFI specification, chapter 5; docs/decisions/030-gpt-by-hand.md.

use crc_fast::{CrcAlgorithm, checksum};
use uext4_device::BlockDevice;
use uext4_num::{clamp_u32, low_u32};
use uuid::Uuid;

use crate::table::{Contents, ENTRIES_SECTORS, Extent, Line, PartitionType, SECTOR, Table};
use crate::{Partition, Result, identity, mbr};

/// Sectors of the backup: entries and header.
pub(crate) const BACKUP_SECTORS: u64 = ENTRIES_SECTORS + 1;
const SIGNATURE: &[u8; 8] = b"EFI PART";
const REVISION: u32 = 0x0001_0000;
const HEADER_BYTES: usize = 92;
const CRC_AT: usize = 16;
const ENTRY_BYTES: usize = 128;
const ENTRIES: usize = 128;
/// Offset of the name in an entry.
const NAME_AT: usize = 56;
/// Sector of the primary header; its entries follow.
const PRIMARY: u64 = 1;

/// Numbers that both headers have.
struct Header {
    disk: Uuid,
    first: u64,
    last: u64,
    entries_crc: u32,
}

/// Writes the tables of a blank disk of `size_bytes`. `form` gives identities that the table does
/// not have.
///
/// # Errors
/// Of the device.
pub(crate) fn write(
    disk: &dyn BlockDevice,
    size_bytes: u64,
    table: &Table,
    given: Option<Uuid>,
    placed: &[Extent],
    form: [u8; 16],
) -> Result<(Vec<Partition>, String)> {
    let mut entries = vec![0; ENTRIES * ENTRY_BYTES];
    let mut partitions = Vec::new();
    for (line, extent) in table.lines.iter().zip(placed) {
        let has_file_system = line.contents == Contents::FileSystem;
        let guid = line
            .uuid
            .unwrap_or_else(|| identity::partition(form, line.number, has_file_system));
        let mut slots = entries.chunks_mut(ENTRY_BYTES);
        if let Some(slot) = slots.nth(uext4_num::usize_of(line.number) - 1) {
            slot.copy_from_slice(&entry(line, *extent, guid));
        }
        partitions.push(Partition {
            number: line.number,
            start_bytes: extent.start * SECTOR,
            size_bytes: extent.sectors * SECTOR,
            uuid: guid.to_string(),
            has_file_system,
        });
    }
    let sectors = size_bytes / SECTOR;
    let backup = sectors - 1;
    let disk_guid = given.unwrap_or_else(|| identity::uuid("disk", form));
    let header = Header {
        disk: disk_guid,
        first: table.first,
        last: table.last.unwrap_or(backup - BACKUP_SECTORS),
        entries_crc: crc(&entries),
    };
    let places = [
        (PRIMARY, backup, PRIMARY + 1),
        (backup, PRIMARY, backup - ENTRIES_SECTORS),
    ];
    for (own, other, at) in places {
        disk.write_at(at * SECTOR, &entries)?;
        disk.write_at(own * SECTOR, &header.sector(own, other, at))?;
    }
    disk.write_at(0, &mbr::protective(sectors))?;
    Ok((partitions, disk_guid.to_string()))
}

fn entry(line: &Line, extent: Extent, guid: Uuid) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    if let PartitionType::Gpt(kind) = line.kind {
        entry[..16].copy_from_slice(&kind.to_bytes_le());
    }
    entry[16..32].copy_from_slice(&guid.to_bytes_le());
    entry[32..40].copy_from_slice(&extent.start.to_le_bytes());
    entry[40..48].copy_from_slice(&(extent.end() - 1).to_le_bytes());
    entry[48..NAME_AT].copy_from_slice(&line.attributes.to_le_bytes());
    let units = line.name.encode_utf16().flat_map(u16::to_le_bytes);
    for (place, byte) in entry[NAME_AT..].iter_mut().zip(units) {
        *place = byte;
    }
    entry
}

impl Header {
    /// The sector of a header: its own place, that of the other one, and the first of the entries.
    fn sector(&self, own: u64, other: u64, entries: u64) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend(REVISION.to_le_bytes());
        bytes.extend(clamp_u32(HEADER_BYTES).to_le_bytes());
        bytes.extend([0; 8]); // the checksum, and reserved bytes
        for number in [own, other, self.first, self.last] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.disk.to_bytes_le());
        bytes.extend(entries.to_le_bytes());
        for number in [ENTRIES, ENTRY_BYTES] {
            bytes.extend(clamp_u32(number).to_le_bytes());
        }
        bytes.extend(self.entries_crc.to_le_bytes());
        let crc = crc(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes.resize(uext4_num::clamp_usize(SECTOR), 0);
        bytes
    }
}

fn crc(bytes: &[u8]) -> u32 {
    low_u32(checksum(CrcAlgorithm::Crc32IsoHdlc, bytes))
}
