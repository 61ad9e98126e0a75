//! The GUID table: a header in sector 1 and, as a backup, in the last sector.

use super::{Partition, addressed, bad, u32_at, u64_at};
use crate::{BlockDevice, Error};
use uext4_num::usize_of;

const SIGNATURE: &[u8] = b"EFI PART";
/// Bytes of the type at the start of an entry; zero: it is not used.
const TYPE_BYTES: usize = 16;
/// First and last sector of a partition, in its entry.
pub(super) const FIRST_AT: usize = 32;
pub(super) const LAST_AT: usize = 40;
/// The header does not state the sector size, so all existing sizes are tried.
const SECTOR_SIZES: [u64; 2] = [512, 4096];
const HEADER_BYTES: std::ops::RangeInclusive<u32> = 92..=512;
/// The usual count is 128; the bound keeps a hostile header from asking for memory.
const ENTRIES_MAX: u32 = 4096;
const ENTRY_SIZES: [u32; 4] = [128, 256, 512, 1024];

struct Header {
    /// As it is on the disk, with zero in the place of its checksum.
    bytes: Vec<u8>,
    sector_bytes: u64,
    entries_sector: u64,
    entries: u32,
    entry_bytes: u32,
    entries_crc: u32,
}

/// A table as it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// The header, with zero in the place of its checksum.
    pub(super) header: Vec<u8>,
    pub(super) entries: Vec<u8>,
    pub(super) entry_bytes: usize,
    pub(super) sector_bytes: u64,
}

/// All used entries; the backup table is used if the primary is damaged.
pub(super) fn read(device: &dyn BlockDevice) -> Result<Vec<Partition>, Error> {
    let whole = read_whole(device)?;
    let entries = (1..).zip(whole.entries.chunks(whole.entry_bytes));
    entries
        .filter(|(_, entry)| is_used(entry))
        .map(|(number, entry)| read_entry(whole.sector_bytes, number, entry))
        .collect()
}

pub(super) fn is_used(entry: &[u8]) -> bool {
    entry.iter().take(TYPE_BYTES).any(|byte| *byte != 0)
}

/// The table, from the backup if the primary is damaged.
pub(super) fn read_whole(device: &dyn BlockDevice) -> Result<Whole, Error> {
    let mut problem = bad("there is a protective MBR and no GPT behind it");
    for sector_bytes in SECTOR_SIZES {
        let last = (device.size_bytes() / sector_bytes).saturating_sub(1);
        for sector in [1, last] {
            match read_at(device, sector, sector_bytes) {
                Ok(Some(whole)) => return Ok(whole),
                Ok(None) => {}
                Err(error) => problem = error,
            }
        }
    }
    Err(problem)
}

/// The table whose header is in `sector`; none when there is no header.
fn read_at(
    device: &dyn BlockDevice,
    sector: u64,
    sector_bytes: u64,
) -> Result<Option<Whole>, Error> {
    match read_header(device, sector, sector_bytes)? {
        Some(header) => read_entries(device, header).map(Some),
        None => Ok(None),
    }
}

fn read_header(
    device: &dyn BlockDevice,
    sector: u64,
    sector_bytes: u64,
) -> Result<Option<Header>, Error> {
    let mut bytes = [0; 512];
    let at = sector * sector_bytes;
    if at.saturating_add(sector_bytes) > device.size_bytes() {
        return Ok(None);
    }
    device.read_at(at, &mut bytes)?;
    if !bytes.starts_with(SIGNATURE) {
        return Ok(None);
    }
    let header_bytes = u32_at(&bytes, 12);
    if !HEADER_BYTES.contains(&header_bytes) {
        return Err(bad("the size of the GPT header is impossible"));
    }
    let crc = u32_at(&bytes, 16);
    // The checksum covers the header with its own field as zero.
    bytes[16..20].fill(0);
    if crc32(&bytes[..usize_of(header_bytes)]) != crc || u64_at(&bytes, 24) != sector {
        return Err(bad("the GPT header is damaged"));
    }
    Ok(Some(Header {
        bytes: bytes[..usize_of(header_bytes)].to_vec(),
        sector_bytes,
        entries_sector: u64_at(&bytes, 72),
        entries: u32_at(&bytes, 80),
        entry_bytes: u32_at(&bytes, 84),
        entries_crc: u32_at(&bytes, 88),
    }))
}

fn read_entries(device: &dyn BlockDevice, header: Header) -> Result<Whole, Error> {
    if header.entries > ENTRIES_MAX || !ENTRY_SIZES.contains(&header.entry_bytes) {
        return Err(bad("the size of the GPT entries is impossible"));
    }
    let Some(at) = header.entries_sector.checked_mul(header.sector_bytes) else {
        return Err(bad("the GPT entries lie past the end of the device"));
    };
    let mut bytes = vec![0; usize_of(header.entries) * usize_of(header.entry_bytes)];
    device.read_at(at, &mut bytes)?;
    if crc32(&bytes) != header.entries_crc {
        return Err(bad("the GPT entries are damaged"));
    }
    Ok(Whole {
        header: header.bytes,
        entries: bytes,
        entry_bytes: usize_of(header.entry_bytes),
        sector_bytes: header.sector_bytes,
    })
}

fn read_entry(sector_bytes: u64, number: u32, entry: &[u8]) -> Result<Partition, Error> {
    let (first, last) = (u64_at(entry, FIRST_AT), u64_at(entry, LAST_AT));
    let sectors = last.checked_sub(first).and_then(|n| n.checked_add(1));
    let sectors = sectors.ok_or(bad("a partition ends before it starts"))?;
    addressed(number, first, sectors, sector_bytes)
}

/// CRC-32 of IEEE 802.3; bit by bit, since a table is a few KiB and read once.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
}

/// One bit of the CRC.
fn shift(crc: u32, _bit: u32) -> u32 {
    (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1))
}
