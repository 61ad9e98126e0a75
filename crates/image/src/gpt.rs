//! A GPT with one partition at 1 MiB: protective MBR, primary and backup tables, by the crate
//! `gpt`.
//!
//! Sectors have 512 bytes. The disk ends at a multiple of 1 MiB. The GUIDs follow from what is
//! on the disk.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use gpt::mbr::ProtectiveMBR;
use gpt::partition_types::{LINUX_FS, LINUX_ROOT_ARM_64, LINUX_ROOT_X64};
use gpt::{GptConfig, partition};
use uext4_device::BlockDevice;
use uext4_num::{clamp_u32, u64_of};
use uext4_sync::Arc;

use crate::{Partition, PartitionKind, Result, identity};

/// Start of the partition in bytes.
pub(crate) const START: u64 = 1 << 20;
const SECTOR: u64 = 512;
/// Bytes of the partition that its GUID follows from: superblock and group descriptors, which have
/// the checksums of bitmaps.
const FORM_BYTES: usize = 64 << 10;
/// Sectors of the backup: 128 entries of 128 bytes, and the header.
const BACKUP_SECTORS: u64 = 33;
/// Name of the partition.
const NAME: &str = "root";

/// Bytes of a disk with a partition of this size.
pub(crate) fn disk_bytes(partition_bytes: u64) -> u64 {
    let sectors = partition_bytes.div_ceil(SECTOR) + BACKUP_SECTORS;
    (START + sectors * SECTOR).next_multiple_of(START)
}

/// Writes the tables of a disk that is blank beside its partition.
///
/// # Errors
/// Of the device.
pub(crate) fn write(
    disk: Arc<dyn BlockDevice>,
    partition_bytes: u64,
    kind: PartitionKind,
    file_system: [u8; 16],
    root_hash: Option<[u8; 32]>,
) -> Result<Partition> {
    let size_bytes = disk_bytes(partition_bytes);
    let part_type_guid = match kind {
        PartitionKind::Linux => LINUX_FS,
        PartitionKind::RootX86_64 => LINUX_ROOT_X64,
        PartitionKind::RootArm64 => LINUX_ROOT_ARM_64,
    };
    let mut start = vec![0; uext4_num::clamp_usize(partition_bytes).min(FORM_BYTES)];
    disk.read_at(START, &mut start)?;
    let form = identity::Form {
        file_system,
        size_bytes: partition_bytes,
        kind: *part_type_guid.guid.as_bytes(),
        start: &start,
        root_hash,
    };
    let form = form.digest();
    let stream = Stream {
        disk,
        size_bytes,
        at: 0,
    };
    let (guid, disk_guid) = (
        identity::uuid("partition", form),
        identity::uuid("disk", form),
    );
    let mbr = ProtectiveMBR::with_lb_size(clamp_u32(size_bytes / SECTOR - 1));
    stream.disk.write_at(0, &mbr.to_bytes())?;
    let config = GptConfig::new().writable(true);
    let mut table = config.create_from_device(stream, Some(disk_guid))?;
    let one = partition::Partition {
        part_type_guid,
        part_guid: guid,
        first_lba: START / SECTOR,
        last_lba: (START + partition_bytes).div_ceil(SECTOR) - 1,
        flags: 0,
        name: NAME.to_owned(),
    };
    table.update_partitions(BTreeMap::from([(1, one)]))?;
    table.write()?;
    Ok(Partition {
        start_bytes: START,
        size_bytes: partition_bytes,
        guid: *guid.as_bytes(),
        disk_guid: *disk_guid.as_bytes(),
    })
}

/// A device as a stream of bytes.
struct Stream {
    disk: Arc<dyn BlockDevice>,
    size_bytes: u64,
    at: u64,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.disk.describe())
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.size_bytes.saturating_sub(self.at);
        let len = buf.len().min(uext4_num::clamp_usize(left));
        let read = self.disk.read_at(self.at, &mut buf[..len]);
        read.map_err(io::Error::other)?;
        self.at += u64_of(len);
        Ok(len)
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.disk.write_at(self.at, buf);
        written.map_err(io::Error::other)?;
        self.at += u64_of(buf.len());
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.flush().map_err(io::Error::other)
    }
}

impl Seek for Stream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(distance) => self.size_bytes.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.at.checked_add_signed(distance),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
