//! The legacy table: four entries in sector 0, and a chain of sectors for logical partitions.

use super::{Partition, Table, addressed, bad, u32_at};
use crate::{BlockDevice, Error};
use uext4_num::u64_of;

/// The table counts in sectors of this size on every disk that Linux reads by it.
const SECTOR_BYTES: usize = 512;
const ENTRIES_AT: usize = 446;
const ENTRY_BYTES: usize = 16;
/// The number of sectors, in an entry.
const SECTORS_AT: usize = 12;
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
const TYPE_PROTECTIVE: u8 = 0xee;
/// Extended partitions: CHS, LBA, and the one of Linux.
const TYPES_EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// Logical partitions get numbers from here.
const FIRST_LOGICAL: u32 = 5;
/// More logical partitions than any tool makes: the bound on the chain.
const LOGICAL_MAX: u32 = 256;

/// A sector that ends in the boot signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BootSector([u8; SECTOR_BYTES]);

struct Entry {
    kind: u8,
    start: u64,
    sectors: u64,
}

impl Entry {
    fn is_used(&self) -> bool {
        self.kind != 0 && self.sectors != 0
    }
    fn is_extended(&self) -> bool {
        self.is_used() && TYPES_EXTENDED.contains(&self.kind)
    }
    /// The partition; its start is relative to sector `base`.
    fn partition(&self, number: u32, base: u64) -> Result<Partition, Error> {
        addressed(
            number,
            base + self.start,
            self.sectors,
            u64_of(SECTOR_BYTES),
        )
    }
}

/// Whether the device begins with a boot sector.
pub(super) fn has_signature(device: &dyn BlockDevice) -> Result<bool, Error> {
    let mut signature = [0; 2];
    if !is_there(device, 0) {
        return Ok(false);
    }
    device.read_at(510, &mut signature)?;
    Ok(signature == SIGNATURE)
}

impl BootSector {
    /// Reads sector number `sector`.
    pub(super) fn read(device: &dyn BlockDevice, sector: u64) -> Result<Self, Error> {
        let mut bytes = [0; SECTOR_BYTES];
        if !is_there(device, sector) {
            return Err(match sector {
                0 => Error::NoPartitionTable,
                _ => bad("it lies past the end of the device"),
            });
        }
        device.read_at(sector * u64_of(SECTOR_BYTES), &mut bytes)?;
        if bytes[510..] != SIGNATURE {
            return Err(match sector {
                0 => Error::NoPartitionTable,
                _ => bad("a sector of it has no boot signature"),
            });
        }
        Ok(Self(bytes))
    }

    /// True if a GPT follows.
    pub(super) fn is_protective(&self) -> bool {
        self.entries().any(|entry| entry.kind == TYPE_PROTECTIVE)
    }

    /// True if there are partitions beside the entry that covers a GPT.
    pub(super) fn is_hybrid(&self) -> bool {
        self.entries().filter(Entry::is_used).count() > 1
    }

    /// Gives the entry that covers a GPT the size of the disk. In a hybrid table, which has other
    /// entries, it stays.
    pub(super) fn cover(&mut self, disk_sectors: u64) {
        let used = self.entries().filter(Entry::is_used).count();
        let at = self
            .entries()
            .position(|entry| entry.kind == TYPE_PROTECTIVE);
        if let (1, Some(at)) = (used, at) {
            let sectors = u32::try_from(disk_sectors - 1).unwrap_or(u32::MAX);
            let field = ENTRIES_AT + at * ENTRY_BYTES + SECTORS_AT;
            self.0[field..field + 4].copy_from_slice(&sectors.to_le_bytes());
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.0[ENTRIES_AT..510]
            .chunks(ENTRY_BYTES)
            .map(|bytes| Entry {
                kind: bytes[4],
                start: u64::from(u32_at(bytes, 8)),
                sectors: u64::from(u32_at(bytes, SECTORS_AT)),
            })
    }
}

fn is_there(device: &dyn BlockDevice, sector: u64) -> bool {
    let end = sector
        .saturating_add(1)
        .saturating_mul(u64_of(SECTOR_BYTES));
    end <= device.size_bytes()
}

/// All partitions that hold data; an extended one only contains its logical ones.
pub(super) fn read(device: &dyn BlockDevice, boot: &BootSector) -> Result<Table, Error> {
    let mut partitions = Vec::new();
    let mut extended = None;
    for (number, entry) in (1..).zip(boot.entries()) {
        if entry.is_extended() {
            extended.get_or_insert(entry.start);
        } else if entry.is_used() {
            partitions.push(entry.partition(number, 0)?);
        }
    }
    let rest = match extended {
        Some(start) => read_logical(device, start, &mut partitions)?,
        None => None,
    };
    Ok(Table { partitions, rest })
}

/// Walks the chain: each sector holds a partition (relative to itself) and the next sector
/// (relative to the extended partition). If the device ends before the chain, returns the error.
fn read_logical(
    device: &dyn BlockDevice,
    extended: u64,
    partitions: &mut Vec<Partition>,
) -> Result<Option<Error>, Error> {
    let mut sector = extended;
    let mut number = FIRST_LOGICAL;
    for _ in 0..LOGICAL_MAX {
        if !is_there(device, sector) {
            let cut = "the list of logical partitions goes on past the end of the device";
            return Ok(Some(bad(cut)));
        }
        let boot = BootSector::read(device, sector)?;
        let mut entries = boot.entries();
        if let Some(entry) = entries.find(|entry| entry.is_used() && !entry.is_extended()) {
            partitions.push(entry.partition(number, sector)?);
            number += 1;
        }
        match boot.entries().find(Entry::is_extended) {
            Some(next) => sector = extended + next.start,
            None => return Ok(None),
        }
    }
    Err(bad("the chain of logical partitions has no end"))
}
