//! Iterator over the records of a leaf: checks each record before use, and ends at the first bad
//! one.

use super::{DirEntryType, FIXED_BYTES, MIN_RECORD_BYTES, NAME_MAX, decode_rec_len, space_needed};
use crate::bytes::{get_u8, get_u16, get_u32, rest, upto};
use crate::{Corrupt, CorruptKind, DamageLocation, InodeNr};
use uext4_num::clamp_u32;

/// One record of a leaf, which may be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Offset of the record, in bytes from the start of the area.
    pub offset: usize,
    /// Length of the record in bytes, slack included.
    pub rec_len: usize,
    /// The file; 0 when the record is free.
    pub inode: InodeNr,
    /// The name; undefined in a free record.
    pub name: &'a [u8],
    /// The type; unknown without the feature `filetype`.
    pub kind: DirEntryType,
    /// The type byte as stored, which may be undefined.
    pub code: u8,
}

impl DirEntry<'_> {
    /// True when the record holds no entry.
    pub fn is_free(&self) -> bool {
        self.inode.0 == 0
    }

    /// Bytes that the entry itself takes: 0 when the record is free.
    pub fn used_bytes(&self) -> usize {
        if self.is_free() {
            0
        } else {
            space_needed(self.name.len())
        }
    }

    /// Bytes of the record that a new entry could take.
    pub fn slack_bytes(&self) -> usize {
        self.rec_len.saturating_sub(self.used_bytes())
    }
}

/// The fields of a record, whatever they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The file; 0 when the record is free.
    pub inode: InodeNr,
    /// Length of the record in bytes.
    pub rec_len: usize,
    /// Length of the name in bytes.
    pub name_len: usize,
    /// The type byte.
    pub code: u8,
}

impl RecordHeader {
    /// Bytes of the fields; the name follows.
    pub const BYTES: usize = FIXED_BYTES;

    /// Reads the fields at the start of `bytes`; `None` if these are too few. `block_size` says how
    /// lengths are stored.
    pub fn read(bytes: &[u8], block_size: usize) -> Option<Self> {
        let fixed: &[u8; FIXED_BYTES] = bytes.first_chunk()?;
        Some(Self {
            inode: InodeNr(get_u32(fixed, 0)),
            rec_len: decode_rec_len(get_u16(fixed, 4), block_size),
            name_len: get_u8(fixed, 6).into(),
            code: get_u8(fixed, 7),
        })
    }
}

/// The records of an area, in order, free ones included. Ends after an error.
#[derive(Clone, Debug)]
pub struct DirEntries<'a> {
    area: &'a [u8],
    at: usize,
    block_size: usize,
    place: DamageLocation,
}

impl<'a> DirEntries<'a> {
    /// Walks `area`, part of a block of `block_size` bytes, which determines the encoding of
    /// lengths. `at` is the first record.
    pub fn new(area: &'a [u8], at: usize, block_size: usize, place: DamageLocation) -> Self {
        Self {
            area,
            at,
            block_size,
            place,
        }
    }

    fn parse(&self) -> Result<DirEntry<'a>, CorruptKind> {
        let left = rest(self.area, self.at);
        if left.len() < MIN_RECORD_BYTES {
            return Err(CorruptKind::RecordAtEnd {
                left: clamp_u32(left.len()),
            });
        }
        let rec_len = decode_rec_len(get_u16(left, 4), self.block_size);
        let name_len = usize::from(get_u8(left, 6));
        let bytes = clamp_u32(rec_len);
        if rec_len < MIN_RECORD_BYTES {
            return Err(CorruptKind::RecordShort { bytes });
        }
        if !rec_len.is_multiple_of(4) {
            return Err(CorruptKind::RecordUneven { bytes });
        }
        if rec_len > left.len() {
            let left = clamp_u32(left.len());
            return Err(CorruptKind::RecordLong { bytes, left });
        }
        if rec_len < space_needed(name_len) {
            let name = clamp_u32(name_len);
            return Err(CorruptKind::NameLong {
                name,
                record: bytes,
            });
        }
        let inode = InodeNr(get_u32(left, 0));
        if inode.0 != 0 && name_len == 0 {
            return Err(CorruptKind::NameEmpty);
        }
        debug_assert!(name_len <= NAME_MAX);
        let name = upto(rest(left, FIXED_BYTES), name_len);
        let code = get_u8(left, 7);
        Ok(DirEntry {
            offset: self.at,
            rec_len,
            inode,
            name,
            kind: DirEntryType::from_code(code),
            code,
        })
    }
}

impl<'a> Iterator for DirEntries<'a> {
    type Item = Result<DirEntry<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.area.len() {
            return None;
        }
        match self.parse() {
            Ok(entry) => {
                self.at = self.at.saturating_add(entry.rec_len);
                Some(Ok(entry))
            }
            Err(problem) => {
                self.at = self.area.len();
                Some(Err(Corrupt::new(self.place, "directory entry", problem)))
            }
        }
    }
}
