//! Small files and directories stored in the inode.
//!
//! Layout of a file: the first 60 bytes in `i_block`, the rest in the value of the attribute
//! `system.data`, which is there even when it is empty.
//! Layout of a directory: `i_block` holds the parent (4 bytes) and an area of 56 bytes of records;
//! the attribute's value, when not empty, is a second area. There is no ".", no ".." and no
//! checksum tail. Records fill each area without gaps and never cross from one to the other.
//! References: kernel documentation, "inlinedata".

use crate::bytes::{get_u32, put_slice, put_u16, put_u32, rest_mut};
use crate::dirent::{DirEntries, DirLeaf, LeafTail, MIN_RECORD_BYTES};
use crate::{Corrupt, DamageLocation, InodeNr};
use uext4_num::clamp_u16;

/// Bytes of `i_block`, the first part of inline data.
pub const ROOT_BYTES: usize = 60;
/// Bytes of the parent's inode number in an inline directory.
pub const PARENT_BYTES: usize = 4;
/// Bytes of records in `i_block`.
pub const ROOT_AREA_BYTES: usize = ROOT_BYTES - PARENT_BYTES;

/// The bytes of an inline file of `size` bytes: `i_block`, then the attribute's value. `None` when
/// `size` is more than both hold.
pub fn read_file(i_block: &[u8; ROOT_BYTES], value: &[u8], size: u64) -> Option<Vec<u8>> {
    let mut data = [&i_block[..], value].concat();
    let size = usize::try_from(size)
        .ok()
        .filter(|size| *size <= data.len())?;
    data.truncate(size);
    Some(data)
}

/// Splits the content of an inline file into `i_block` (filled up with zeroes) and the attribute's
/// value.
pub fn split_file(data: &[u8]) -> ([u8; ROOT_BYTES], &[u8]) {
    let (head, value) = data.split_at(data.len().min(ROOT_BYTES));
    let mut i_block = [0; ROOT_BYTES];
    put_slice(&mut i_block, 0, head);
    (i_block, value)
}

/// The largest inline file, in bytes, when the attribute's value can have `value_max` bytes.
pub const fn max_file_bytes(value_max: usize) -> usize {
    ROOT_BYTES.saturating_add(value_max)
}

/// Makes an empty inline directory: the parent and one free record.
pub fn init_directory(i_block: &mut [u8; ROOT_BYTES], parent: InodeNr) {
    i_block.fill(0);
    set_parent(i_block, parent);
    init_area(&mut i_block[PARENT_BYTES..]);
}

/// The parent of an inline directory: the inode of "..".
pub fn parent(i_block: &[u8; ROOT_BYTES]) -> InodeNr {
    InodeNr(get_u32(i_block, 0))
}

/// Changes the parent (rename of a directory).
pub fn set_parent(i_block: &mut [u8; ROOT_BYTES], parent: InodeNr) {
    put_u32(i_block, 0, parent.0);
}

/// Records of an inline directory in `i_block`, after the parent's number.
pub fn root_area_mut(i_block: &mut [u8; ROOT_BYTES], place: DamageLocation) -> DirLeaf<&mut [u8]> {
    DirLeaf::new(&mut i_block[PARENT_BYTES..], LeafTail::None, place)
}

/// The records in the attribute's value.
pub fn value_area<B: AsRef<[u8]>>(value: B, place: DamageLocation) -> DirLeaf<B> {
    DirLeaf::new(value, LeafTail::None, place)
}

/// All records of an inline directory, those of `i_block` first. Offsets count in each area.
pub fn records<'a>(
    i_block: &'a [u8; ROOT_BYTES],
    value: &'a [u8],
    place: DamageLocation,
) -> impl Iterator<Item = Result<crate::dirent::DirEntry<'a>, Corrupt>> {
    let root = DirEntries::new(&i_block[PARENT_BYTES..], 0, ROOT_BYTES, place);
    root.chain(DirEntries::new(value, 0, ROOT_BYTES, place))
}

/// Lengthens the attribute's value to `len` bytes (a multiple of 4): the new bytes extend the last
/// record, or form the first one. Fails if the old records are damaged.
pub fn grow_value(value: &mut Vec<u8>, len: usize, place: DamageLocation) -> Result<(), Corrupt> {
    let old = value.len();
    let least = if old == 0 { MIN_RECORD_BYTES } else { old };
    debug_assert!(len.is_multiple_of(4) && len >= least);
    let mut last = 0;
    for record in value_area(&value[..], place).records() {
        last = record?.offset;
    }
    value.resize(len, 0);
    init_area(rest_mut(value, last));
    Ok(())
}

/// Makes the first record of `area` reach to its end.
fn init_area(area: &mut [u8]) {
    let len = clamp_u16(area.len());
    put_u16(area, 4, len);
}

#[cfg(test)]
mod tests;
