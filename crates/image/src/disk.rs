//! The partitions of a disk: where the file system goes, and what is made around it.
//!
//! ```text
//! open      files of the table are opened; the start of the file system's partition follows
//! place     all places, when the size of the file system is known
//! finish    files are copied, then the tables are written
//! ```
//!
//! Partitions behind that of the file system move with its size.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use uext4_device::BlockDevice;

use crate::content::Content;
use crate::identity::{Form, Other};
use crate::progress::Meter;
use crate::table::{Contents, Extent, Fault, Label, Problem, SECTOR, Table};
use crate::{Partition, Result, gpt, mbr};

/// Bytes of the partition that its GUID follows from: superblock and group descriptors, which have
/// the checksums of bitmaps.
const FORM_BYTES: usize = 64 << 10;

/// A table with its files.
pub(crate) struct Disk {
    table: Table,
    /// The file of each partition, if it has one.
    files: Vec<Option<Content>>,
    /// The place of the file system's partition, as far as the table tells it.
    own: Extent,
    /// Bytes of the disk with the smallest file system.
    least_bytes: u64,
}

/// What is known of a file system that is complete.
pub(crate) struct FileSystem {
    /// Its size in bytes, with what is behind it.
    pub(crate) bytes: u64,
    pub(crate) uuid: [u8; 16],
    /// The root hash of its hash tree.
    pub(crate) root_hash: Option<[u8; 32]>,
}

impl Disk {
    /// Opens the files of a table. They are none of `outputs`.
    ///
    /// # Errors
    /// A partition without a place, a file that cannot be read or does not fit.
    pub(crate) fn open(table: Table, outputs: &[&Path]) -> std::result::Result<Disk, Fault> {
        let outputs = outputs
            .iter()
            .filter_map(|path| std::fs::metadata(path).ok());
        let outputs: Vec<_> = outputs.map(|there| (there.dev(), there.ino())).collect();
        let mut files = Vec::new();
        for line in &table.lines {
            let Contents::File(path) = &line.contents else {
                files.push(None);
                continue;
            };
            let file = Content::open(path).and_then(|file| {
                if outputs.contains(&file.identity()) {
                    Err(Problem::ContentIsOutput)
                } else {
                    Ok(file)
                }
            });
            let key = format!("content={}", path.display());
            files.push(Some(
                file.map_err(|problem| table.fault(line.line, &key, problem))?,
            ));
        }
        let mut disk = Disk {
            table,
            files,
            own: Extent {
                start: 0,
                sectors: 1,
            },
            least_bytes: 0,
        };
        let placed = disk.lay_out(SECTOR)?;
        disk.least_bytes = disk.bytes(&placed);
        disk.own = placed[disk.table.own()];
        if !disk.table.has_own_size() {
            disk.own.sectors = disk.table.room(&placed);
        }
        Ok(disk)
    }

    /// Start and size in bytes of the space for the file system.
    pub(crate) fn own_bytes(&self) -> (u64, u64) {
        (self.own.start * SECTOR, self.own.sectors * SECTOR)
    }

    /// The size in bytes of the file system's partition, if the table gives it.
    pub(crate) fn given_bytes(&self) -> Option<u64> {
        let is_given = self.table.has_own_size();
        is_given.then_some(self.own.sectors * SECTOR)
    }

    /// Bytes of the disk with the smallest file system.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.least_bytes
    }

    /// Bytes that [`Disk::finish`] copies.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.files.iter().flatten().map(Content::len).sum()
    }

    /// The extents of all partitions, with a file system of this size and what is behind it.
    ///
    /// # Errors
    /// A partition without a place, or that is too small.
    pub(crate) fn lay_out(
        &self,
        file_system_bytes: u64,
    ) -> std::result::Result<Vec<Extent>, Fault> {
        let own = self.table.own();
        let bytes = |nr: usize| match &self.files[nr] {
            Some(file) => file.len(),
            None if nr == own => file_system_bytes,
            None => 0,
        };
        let sectors = (0..self.files.len()).map(|nr| bytes(nr).div_ceil(SECTOR));
        let placed = self.table.lay_out(&sectors.collect::<Vec<u64>>())?;
        for (nr, (line, extent)) in self.table.lines.iter().zip(&placed).enumerate() {
            let (bytes, partition_bytes) = (bytes(nr), extent.sectors * SECTOR);
            let (key, problem) = match &line.contents {
                _ if bytes <= partition_bytes => continue,
                Contents::File(path) => (
                    format!("content={}", path.display()),
                    Problem::ContentTooLong {
                        bytes,
                        partition_bytes,
                    },
                ),
                _ => (
                    "size".to_owned(),
                    Problem::FileSystemTooLong {
                        bytes,
                        partition_bytes,
                    },
                ),
            };
            return Err(self.table.fault(line.line, &key, problem));
        }
        Ok(placed)
    }

    /// Bytes of the disk with these partitions: of the size that the table gives, or as long as
    /// its partitions, up to a whole MiB.
    pub(crate) fn bytes(&self, placed: &[Extent]) -> u64 {
        let behind = match self.table.label {
            Label::Gpt(_) => gpt::BACKUP_SECTORS,
            Label::Dos(_) => 0,
        };
        match self.table.last {
            Some(last) => (last + 1 + behind) * SECTOR,
            None => {
                let end = placed.iter().map(|extent| extent.end()).max();
                ((end.unwrap_or(0) + behind) * SECTOR).next_multiple_of(1 << 20)
            }
        }
    }

    /// Copies the files, and writes the tables of a disk that is blank beside the file system.
    /// Returns the partitions in the order of the table, and the identity of the disk.
    ///
    /// # Errors
    /// Of the disk and the files, or cancelled.
    pub(crate) fn finish(
        &self,
        disk: &dyn BlockDevice,
        file_system: &FileSystem,
        placed: &[Extent],
        meter: &mut Meter<'_>,
    ) -> Result<(Vec<Partition>, String)> {
        let mut hashes = Vec::new();
        for ((line, file), extent) in self.table.lines.iter().zip(&self.files).zip(placed) {
            let copied = match file {
                Some(file) => file.copy(disk, extent.start * SECTOR, meter)?,
                None => Ok([0; 32]),
            };
            hashes.push(copied.map_err(|problem| {
                let key = match &line.contents {
                    Contents::File(path) => format!("content={}", path.display()),
                    _ => String::new(),
                };
                self.table.fault(line.line, &key, problem)
            })?);
        }
        let form = self.form(disk, file_system, placed, &hashes)?;
        let bytes = self.bytes(placed);
        match self.table.label {
            Label::Gpt(given) => gpt::write(disk, bytes, &self.table, given, placed, form),
            Label::Dos(given) => mbr::write(disk, &self.table, given, placed, form),
        }
    }

    /// What the identities of the disk follow from.
    fn form(
        &self,
        disk: &dyn BlockDevice,
        file_system: &FileSystem,
        placed: &[Extent],
        hashes: &[[u8; 32]],
    ) -> Result<[u8; 16]> {
        let own = self.table.own();
        let extent = placed[own];
        let mut start = vec![0; uext4_num::clamp_usize(file_system.bytes).min(FORM_BYTES)];
        disk.read_at(extent.start * SECTOR, &mut start)?;
        let others = (0..placed.len()).filter(|nr| *nr != own).map(|nr| Other {
            number: self.table.lines[nr].number,
            start: placed[nr].start,
            sectors: placed[nr].sectors,
            kind: self.table.lines[nr].kind,
            hash: hashes[nr],
        });
        let others: Vec<Other> = others.collect();
        let form = Form {
            file_system: file_system.uuid,
            size_bytes: if self.table.has_own_size() {
                extent.sectors * SECTOR
            } else {
                file_system.bytes
            },
            kind: self.table.lines[own].kind,
            start: &start,
            root_hash: file_system.root_hash,
            others: &others,
        };
        Ok(form.digest())
    }
}
