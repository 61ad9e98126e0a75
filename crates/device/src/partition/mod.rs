//! Finds a partition on a whole-disk image: MBR (with logical partitions) and GPT.
//!
//! Invariants: tables are untrusted input. Every number is checked before use, every chain and
//! array has a bound, and a table that breaks a rule is an error, not a guess.
//! A device may end early, as a truncated copy of a disk does: partitions inside it can be opened.
//! Not here: new tables. `growth` makes a partition of a GPT longer.
//! References: UEFI specification, chapter 5 (GUID partition table, protective and legacy MBR).

mod gpt;
mod growth;
mod mbr;

pub use growth::Growth;

use crate::{BlockDevice, Error, Window};
use uext4_sync::Arc;

/// One partition of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1, as Linux counts.
    pub number: u32,
    /// Its first byte on the device.
    pub start_bytes: u64,
    /// Its length in bytes.
    pub len_bytes: u64,
}

struct Table {
    /// Used entries in the order of their numbers.
    partitions: Vec<Partition>,
    /// The reason why later entries are unknown.
    rest: Option<Error>,
}

/// Reads the partition table of `device`: used entries in the order of their numbers, including
/// those that reach past its end.
///
/// # Errors
/// [`Error::NoPartitionTable`]; [`Error::PartitionTable`] when it breaks a rule; [`Error::Io`].
pub fn read_table(device: &dyn BlockDevice) -> Result<Vec<Partition>, Error> {
    read(device).map(|table| table.partitions)
}

/// Bytes from `offset` to the end of the partition that it lies in, or to the start of the next
/// one, with the number of that partition; `None` where there is no table, or nothing behind.
///
/// # Errors
/// Those of [`read_table`], where there is a table.
pub fn room_behind(device: &dyn BlockDevice, offset: u64) -> Result<Option<(u64, u32)>, Error> {
    if !mbr::has_signature(device)? {
        return Ok(None);
    }
    let table = read(device)?;
    if let Some(unknown) = table.rest {
        return Err(unknown);
    }
    let ends = table.partitions.iter().filter_map(|partition| {
        let end = partition.start_bytes.saturating_add(partition.len_bytes);
        match partition.start_bytes {
            start if start > offset => Some((start - offset, partition.number)),
            _ if end > offset => Some((end - offset, partition.number)),
            _ => None,
        }
    });
    Ok(ends.min())
}

fn read(device: &dyn BlockDevice) -> Result<Table, Error> {
    let boot = mbr::BootSector::read(device, 0)?;
    if !boot.is_protective() {
        return mbr::read(device, &boot);
    }
    let partitions = gpt::read(device)?;
    Ok(Table {
        partitions,
        rest: None,
    })
}

/// Opens partition `number` (from 1) of `device`.
///
/// # Errors
/// [`Error::NoPartition`], [`Error::PartitionCut`], and those of [`read_table`].
pub fn open(device: Arc<dyn BlockDevice>, number: u32) -> Result<Window, Error> {
    let Table { partitions, rest } = read(&*device)?;
    let found = partitions.iter().find(|p| p.number == number);
    let Some(partition) = found else {
        return Err(rest.unwrap_or(Error::NoPartition { number }));
    };
    let (start, len) = (partition.start_bytes, partition.len_bytes);
    let size_bytes = device.size_bytes();
    if start + len > size_bytes {
        Err(Error::PartitionCut {
            number,
            end_bytes: start + len,
            size_bytes,
        })
    } else {
        Window::new(device, start, len)
    }
}

/// Makes a partition of `sectors` sectors from sector `start`, if all of it has addresses.
fn addressed(number: u32, start: u64, sectors: u64, sector_bytes: u64) -> Result<Partition, Error> {
    let bytes = byte_range(start, sectors, sector_bytes);
    let (start_bytes, len_bytes) = bytes.ok_or(bad("a partition ends past the last byte"))?;
    Ok(Partition {
        number,
        start_bytes,
        len_bytes,
    })
}

/// Start and length in bytes; `None` if the end has no address.
fn byte_range(start: u64, sectors: u64, sector_bytes: u64) -> Option<(u64, u64)> {
    let (start, len) = (
        start.checked_mul(sector_bytes)?,
        sectors.checked_mul(sector_bytes)?,
    );
    start.checked_add(len).map(|_end| (start, len))
}

fn bad(problem: &'static str) -> Error {
    Error::PartitionTable { problem }
}

/// The little-endian u32 at `at`; 0 past the end, which no check of a table accepts.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// The little-endian u64 at `at`; 0 past the end.
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests;
