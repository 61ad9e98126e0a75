//! Finds a partition on a whole-disk image: MBR (with logical partitions) and GPT.
//!
//! Invariants: the tables are read as hostile bytes: every number is checked against the device,
//! every chain and array has a bound, and a table that breaks a rule is an error, not a guess.
//! Not here: writing tables.
//! References: UEFI specification, chapter 5 (GUID partition table, protective and legacy MBR).

mod gpt;
mod mbr;

use crate::{BlockDevice, Error, Window};
use std::sync::Arc;

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

/// Reads the partition table of `device`: used entries in the order of their numbers.
///
/// # Errors
/// [`Error::PartitionTable`] when there is none or it breaks a rule; [`Error::Io`].
pub fn read_table(device: &dyn BlockDevice) -> Result<Vec<Partition>, Error> {
    let boot = mbr::BootSector::read(device, 0)?;
    if !boot.is_protective() {
        return mbr::read(device, &boot);
    }
    gpt::read(device)
}

/// Opens partition `number` (from 1) of `device`.
///
/// # Errors
/// [`Error::NoPartition`], and those of [`read_table`].
pub fn open(device: Arc<dyn BlockDevice>, number: u32) -> Result<Window, Error> {
    let table = read_table(&*device)?;
    let partition = table
        .iter()
        .find(|p| p.number == number)
        .ok_or(Error::NoPartition { number })?;
    Window::new(device, partition.start_bytes, partition.len_bytes)
}

/// Makes a partition of `sectors` sectors from sector `start`, if it lies on the device.
fn checked(
    device: &dyn BlockDevice,
    number: u32,
    start: u64,
    sectors: u64,
    sector_bytes: u64,
) -> Result<Partition, Error> {
    let bytes = |n: u64| n.checked_mul(sector_bytes);
    match (bytes(start), bytes(sectors)) {
        (Some(start_bytes), Some(len_bytes))
            if start_bytes
                .checked_add(len_bytes)
                .is_some_and(|end| end <= device.size_bytes()) =>
        {
            Ok(Partition {
                number,
                start_bytes,
                len_bytes,
            })
        }
        _ => Err(bad("a partition reaches past the end of the device")),
    }
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
