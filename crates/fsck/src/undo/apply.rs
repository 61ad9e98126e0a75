//! Brings back what an undo file has.

use std::fs::File;
use std::os::unix::fs::FileExt;
use uext4_device::BlockDevice;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::undo_file::{
    HEADER_BYTES, Header, Key, SUPERBLOCK_UUID, checksum, decode_keys, keys_per_block,
};
use uext4_num::{clamp_usize, usize_of};

/// Longest run of one key, in blocks of the file.
const KEY_BLOCKS_MAX: u64 = 512;
/// The same with the usual blocks, in bytes.
const KEY_BYTES_MAX: u32 = 16 << 20;

/// Why an undo file was not applied, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The file cannot be read.
    #[error("the undo file: {0}")]
    File(#[from] std::io::Error),
    /// The file is damaged, or no undo file. Nothing was written.
    #[error("the undo file: {0}")]
    Damaged(&'static str),
    /// The image was changed after the repair. Nothing was written.
    #[error("the image was changed after the undo file was written")]
    Changed,
    /// The device failed.
    #[error("{0}")]
    Device(#[from] uext4_device::Error),
}

/// How an undo file is applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct UndoOptions {
    /// Also to an image that was changed since.
    pub force: bool,
    /// Reads and compares everything, and writes nothing.
    pub dry_run: bool,
}

/// What an undo file brought back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Bytes of old contents.
    pub bytes: u64,
    /// Whether the repair that wrote the file came to its end.
    pub was_finished: bool,
}

/// A key, and the block of the file where its contents begin.
struct Stored {
    key: Key,
    block: u64,
}

/// Writes the old contents in `file` back to `device`, whose first byte is that of the file system.
/// All of the file is read and compared with its checksums before the first write.
///
/// # Errors
/// [`UndoError`].
pub fn undo(
    file: &File,
    device: &dyn BlockDevice,
    options: UndoOptions,
) -> Result<Undone, UndoError> {
    let mut bytes = [0; HEADER_BYTES];
    read(file, 0, &mut bytes)?;
    let header = Header::decode(&bytes).map_err(UndoError::Damaged)?;
    if !options.force {
        compare_superblock(file, &header, device)?;
    }
    let stored = read_keys(file, &header)?;
    let mut done = Undone {
        bytes: 0,
        was_finished: header.is_finished,
    };
    for one in &stored {
        let contents = contents_of(file, &header, one)?;
        if checksum(&contents) != one.key.checksum {
            return Err(UndoError::Damaged(
                "the checksum of old contents does not match",
            ));
        }
        let start = byte_of(&header, &one.key)?;
        if start.saturating_add(u64::from(one.key.len_bytes)) > device.size_bytes() {
            return Err(UndoError::Damaged("it is of a larger image"));
        }
    }
    for one in &stored {
        let contents = contents_of(file, &header, one)?;
        if checksum(&contents) != one.key.checksum {
            return Err(UndoError::Damaged("it changes while it is read"));
        }
        if !options.dry_run {
            device.write_at(byte_of(&header, &one.key)?, &contents)?;
        }
        done.bytes += u64::from(one.key.len_bytes);
    }
    if !options.dry_run {
        device.flush()?;
    }
    Ok(done)
}

/// The superblock is the one that the repair has left. While it was on its way, the UUIDs are
/// compared: the other fields may be what it was about to repair.
fn compare_superblock(
    file: &File,
    header: &Header,
    device: &dyn BlockDevice,
) -> Result<(), UndoError> {
    let mut there = [0; SUPERBLOCK_BYTES];
    device.read_at(SUPERBLOCK_OFFSET, &mut there)?;
    let is_same = if header.is_finished {
        checksum(&there) == header.superblock_checksum
    } else {
        let mut copy = [0; SUPERBLOCK_BYTES];
        let at = header
            .superblock_block
            .saturating_mul(header.block_bytes.into());
        read(file, at, &mut copy)?;
        copy.get(SUPERBLOCK_UUID) == there.get(SUPERBLOCK_UUID)
    };
    if is_same {
        Ok(())
    } else {
        Err(UndoError::Changed)
    }
}

/// All keys. Their number is bounded by the size of the file.
fn read_keys(file: &File, header: &Header) -> Result<Vec<Stored>, UndoError> {
    let block_bytes = u64::from(header.block_bytes);
    let mut stored = Vec::new();
    let mut at = header.first_key_block;
    let mut left = header.n_keys;
    while left > 0 {
        let mut bytes = vec![0; usize_of(header.block_bytes)];
        read(file, at.saturating_mul(block_bytes), &mut bytes)?;
        let count = left.min(keys_per_block(header.block_bytes));
        let keys = decode_keys(bytes, clamp_usize(count)).map_err(UndoError::Damaged)?;
        at = at.saturating_add(1);
        for key in keys {
            let blocks = u64::from(key.len_bytes).div_ceil(block_bytes);
            if blocks > KEY_BLOCKS_MAX || !(1..=KEY_BYTES_MAX).contains(&key.len_bytes) {
                return Err(UndoError::Damaged("a key has a wrong length"));
            }
            stored.push(Stored { key, block: at });
            at = at.saturating_add(blocks);
        }
        left -= count;
    }
    Ok(stored)
}

fn contents_of(file: &File, header: &Header, stored: &Stored) -> Result<Vec<u8>, UndoError> {
    let mut bytes = vec![0; usize_of(stored.key.len_bytes)];
    let at = stored.block.saturating_mul(header.block_bytes.into());
    read(file, at, &mut bytes)?;
    Ok(bytes)
}

/// Where the contents of a key belong, in bytes of the file system.
fn byte_of(header: &Header, key: &Key) -> Result<u64, UndoError> {
    let place = key.at.checked_mul(header.unit_bytes.into());
    place.ok_or(UndoError::Damaged("a key is out of range"))
}

fn read(file: &File, at: u64, bytes: &mut [u8]) -> Result<(), UndoError> {
    file.read_exact_at(bytes, at)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => UndoError::Damaged("it is cut short"),
            _ => UndoError::File(error),
        })
}
