//! Makes a partition of a GPT longer.
//!
//! Order: the backup table at the end of the disk, a flush, then the primary table and the size of
//! the disk in the protective MBR. So one of both tables is whole at any time, with the old length
//! or the new one. What a partition holds is not touched.
//!
//! References: UEFI specification, chapter 5.3 (headers, their order, checksums).

use super::{gpt, mbr, read};
use crate::{BlockDevice, Error};
use uext4_num::u64_of;

/// Disks end at a multiple of this, as those that are made anew.
const DISK_UNIT: u64 = 1 << 20;
/// Byte offsets of fields in a GPT header.
const CRC_AT: usize = 16;
const OWN_AT: usize = 24;
const OTHER_AT: usize = 32;
const FIRST_USABLE_AT: usize = 40;
const LAST_USABLE_AT: usize = 48;
const ENTRIES_AT: usize = 72;
const ENTRIES_CRC_AT: usize = 88;
/// Sector of the primary header; its entries follow.
const PRIMARY: u64 = 1;

/// Bytes at the end of the disk that must be zero if the backup table is not there: other formats
/// have footers there.
const FOOTER_BYTES: u64 = 1 << 20;

/// A longer partition, not yet written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    table: gpt::Whole,
    boot: mbr::BootSector,
    disk_bytes: u64,
    /// Its length now and afterwards.
    len_bytes: (u64, u64),
}

impl Growth {
    /// Looks whether partition `number` can have at least `len_bytes`.
    ///
    /// # Errors
    /// [`Error::NoPartition`], [`Error::NotGpt`], [`Error::PartitionBehind`], and those of
    /// [`super::read_table`].
    pub fn plan(device: &dyn BlockDevice, number: u32, len_bytes: u64) -> Result<Self, Error> {
        let partitions = read(device)?.partitions;
        let found = partitions
            .iter()
            .find(|partition| partition.number == number);
        let own = *found.ok_or(Error::NoPartition { number })?;
        let boot = mbr::BootSector::read(device, 0)?;
        if !boot.is_protective() {
            return Err(Error::NotGpt { number });
        }
        if boot.is_hybrid() {
            return Err(super::bad(
                "it is a hybrid one, whose MBR has partitions too",
            ));
        }
        let mut table = gpt::read_whole(device)?;
        table.check_places(device)?;
        let sector = table.sector_bytes;
        let first = partitions.iter().map(|one| one.start_bytes).min();
        if first.unwrap_or(0) / sector < PRIMARY + 1 + table.entries_sectors() {
            return Err(super::bad(
                "there is no space for it before the first partition",
            ));
        }
        let too_large = || super::bad("a partition ends past the last byte");
        let behind = partitions
            .iter()
            .filter(|other| other.start_bytes > own.start_bytes);
        let next = behind.min_by_key(|other| other.start_bytes);
        let room_bytes = next.map_or(u64::MAX, |next| next.start_bytes - own.start_bytes);
        if len_bytes > room_bytes {
            return Err(Error::PartitionBehind {
                number,
                room_bytes,
                next: next.map_or(0, |next| next.number),
            });
        }
        let len = len_bytes.checked_next_multiple_of(sector);
        let len = len.ok_or_else(too_large)?.max(own.len_bytes);
        let others = partitions.iter().filter(|one| one.number != number);
        let ends = others.map(|one| one.start_bytes + one.len_bytes);
        if ends.clone().any(|end| end > device.size_bytes()) {
            return Err(super::bad(
                "another partition ends past the end of the disk",
            ));
        }
        let own_end = own.start_bytes.checked_add(len).ok_or_else(too_large)?;
        let end = ends.max().unwrap_or(0).max(own_end);
        let behind_bytes = (table.entries_sectors() + 1) * sector;
        let least = end.checked_add(behind_bytes).ok_or_else(too_large)?;
        let disk_bytes = match device.size_bytes() / sector * sector {
            there if there >= least => there,
            _ => least
                .checked_next_multiple_of(DISK_UNIT)
                .ok_or_else(too_large)?,
        };
        let last = (own_end / sector - 1).to_le_bytes();
        table.set_last(number, last);
        Ok(Self {
            table,
            boot,
            disk_bytes,
            len_bytes: (own.len_bytes, len),
        })
    }

    /// Bytes that the disk needs.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Bytes of the partition before and afterwards.
    pub fn len_bytes(&self) -> (u64, u64) {
        self.len_bytes
    }

    /// Writes the tables of a disk that has [`Self::disk_bytes`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn write(mut self, device: &dyn BlockDevice) -> Result<(), Error> {
        let sector = self.table.sector_bytes;
        let sectors = self.disk_bytes / sector;
        let backup = sectors - 1;
        let backup_entries = backup - self.table.entries_sectors();
        self.table.set(LAST_USABLE_AT, backup_entries - 1);
        self.table.put(device, [backup, PRIMARY, backup_entries])?;
        device.flush()?;
        self.table.put(device, [PRIMARY, backup, PRIMARY + 1])?;
        self.boot.cover(sectors);
        device.write_at(0, self.boot.bytes())?;
        device.flush()
    }
}

impl gpt::Whole {
    /// Refuses a disk where the places of a longer table may hold something else.
    fn check_places(&self, device: &dyn BlockDevice) -> Result<(), Error> {
        let behind = PRIMARY + 1;
        let is_behind = match self.get(OWN_AT) {
            PRIMARY => self.get(ENTRIES_AT) == behind,
            _ => self.get(FIRST_USABLE_AT) == behind + self.entries_sectors(),
        };
        if !is_behind {
            return Err(super::bad("its entries may not follow the first header"));
        }
        let backup = self.get(OWN_AT).max(self.get(OTHER_AT));
        let end = backup.saturating_add(1).saturating_mul(self.sector_bytes);
        let size = device.size_bytes();
        let from = end.max(size.saturating_sub(FOOTER_BYTES)).min(size);
        let mut bytes = vec![0; uext4_num::clamp_usize(size - from)];
        device.read_at(from, &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(super::bad("there are data behind the backup of the table"));
        }
        Ok(())
    }

    fn get(&self, at: usize) -> u64 {
        let bytes = self.header.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    }

    fn entries_sectors(&self) -> u64 {
        u64_of(self.entries.len()).div_ceil(self.sector_bytes)
    }

    fn set(&mut self, at: usize, number: u64) {
        self.header[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }

    /// The last sector of a partition, in its entry.
    fn set_last(&mut self, number: u32, last: [u8; 8]) {
        let index = uext4_num::usize_of(number) - 1;
        if let Some(entry) = self.entries.chunks_mut(self.entry_bytes).nth(index) {
            entry[gpt::LAST_AT..gpt::LAST_AT + 8].copy_from_slice(&last);
        }
    }

    /// Writes entries and header to their places: the header's own sector, that of the other one,
    /// and the first of the entries.
    fn put(
        &mut self,
        device: &dyn BlockDevice,
        [own, other, entries]: [u64; 3],
    ) -> Result<(), Error> {
        self.set(OWN_AT, own);
        self.set(OTHER_AT, other);
        self.set(ENTRIES_AT, entries);
        let crc = gpt::crc32(&self.entries).to_le_bytes();
        self.header[ENTRIES_CRC_AT..ENTRIES_CRC_AT + 4].copy_from_slice(&crc);
        let mut sector = self.header.clone();
        let crc = gpt::crc32(&self.header).to_le_bytes();
        sector[CRC_AT..CRC_AT + 4].copy_from_slice(&crc);
        sector.resize(uext4_num::clamp_usize(self.sector_bytes), 0);
        device.write_at(entries * self.sector_bytes, &self.entries)?;
        device.write_at(own * self.sector_bytes, &sector)
    }
}
