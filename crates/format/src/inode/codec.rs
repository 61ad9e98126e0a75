//! The inode's bytes: parse, write, checksum.

use super::{GOOD_OLD_INODE_BYTES, Inode, InodeFlags, KNOWN_BYTES, fields_end};
use crate::bytes::*;
use crate::checksum::{Checksums, Seed};
use crate::times::{Timestamp, WithExtra};
use crate::{BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, FileType, Geometry, InodeNr};
use uext4_num::{high_u16, high_u32, low_u16, low_u32};

const CHECKSUM_LOW_AT: usize = 0x7C;
pub(super) const EXTRA_ISIZE_AT: usize = 0x80;
const CHECKSUM_HIGH_AT: usize = 0x82;

/// 32-bit field and extra field of each time.
const CTIME: (usize, usize) = (0xC, 0x84);
const MTIME: (usize, usize) = (0x10, 0x88);
const ATIME: (usize, usize) = (0x8, 0x8C);
const CRTIME: (usize, usize) = (0x90, 0x94);
const VERSION_HIGH_AT: usize = 0x98;
const PROJID_AT: usize = 0x9C;

/// True when a field past the first 128 bytes lies within the extra fields.
pub(super) fn fits(extra_isize: u16, at: usize, len: usize) -> bool {
    at.saturating_add(len) <= fields_end(extra_isize)
}

impl Inode {
    /// Parses the inode in the first `geometry.inode_size` bytes of `bytes`.
    ///
    /// An inode of zeroes is unused and needs no checksum.
    ///
    /// # Errors
    /// [`Corrupt`] when the checksum is wrong, `i_extra_isize` points past the end or the size is
    /// out of range.
    pub fn parse(
        bytes: &[u8],
        ino: InodeNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) -> Result<Inode, Corrupt> {
        let problem = |problem| Corrupt::new(DamageLocation::Inode(ino), "inode", problem);
        let size = usize::from(geometry.inode_size);
        let bytes = bytes
            .get(..size)
            .ok_or_else(|| problem(CorruptKind::short(bytes)))?;
        let extra_isize = if size > GOOD_OLD_INODE_BYTES {
            get_u16(bytes, EXTRA_ISIZE_AT)
        } else {
            0
        };
        if fields_end(extra_isize) > size || !extra_isize.is_multiple_of(4) {
            return Err(problem(CorruptKind::ExtraSize { found: extra_isize }));
        }
        verify(bytes, extra_isize, ino, checksums)?;
        let inode = Self::decode(bytes, extra_isize, geometry);
        if inode.size > i64::MAX.cast_unsigned() {
            return Err(problem(CorruptKind::SizeRange { found: inode.size }));
        }
        Ok(inode)
    }

    /// Checks the checksum of an unused inode: its other fields are undefined.
    ///
    /// # Errors
    /// [`Corrupt`] when `bytes` are too few, or the checksum is wrong.
    pub fn verify_unused(
        bytes: &[u8],
        ino: InodeNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) -> Result<(), Corrupt> {
        let size = usize::from(geometry.inode_size);
        let bytes = bytes.get(..size).ok_or_else(|| {
            Corrupt::new(
                DamageLocation::Inode(ino),
                "inode",
                CorruptKind::short(bytes),
            )
        })?;
        let extra_isize = if size > GOOD_OLD_INODE_BYTES {
            get_u16(bytes, EXTRA_ISIZE_AT)
        } else {
            0
        };
        verify(bytes, extra_isize, ino, checksums)
    }

    /// Writes the inode with its checksum into the first `geometry.inode_size` bytes of `out`.
    ///
    /// A shorter `out`, or a tail that does not fill the inode, is a bug of the caller.
    pub fn write_to(
        &self,
        out: &mut [u8],
        ino: InodeNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) {
        let size = usize::from(geometry.inode_size);
        assert!(out.len() >= size, "an inode needs {size} bytes");
        assert_eq!(
            self.tail_offset().saturating_add(self.tail.len()),
            size,
            "the tail must fill the inode"
        );
        let (out, _) = out.split_at_mut(size);
        out.fill(0);
        self.encode_base(out, geometry);
        if size > GOOD_OLD_INODE_BYTES {
            self.encode_extra(out);
        }
        if let Some(seed) = checksums.metadata {
            let value = checksum(out, self.extra_isize, ino, seed);
            put_u16(out, CHECKSUM_LOW_AT, low_u16(value));
            if fits(self.extra_isize, CHECKSUM_HIGH_AT, 2) {
                put_u16(out, CHECKSUM_HIGH_AT, high_u16(value));
            }
        }
    }

    fn decode(bytes: &[u8], extra_isize: u16, geometry: &Geometry) -> Inode {
        let word = |at, len| {
            if fits(extra_isize, at, len) {
                Some(get_u32(bytes, at))
            } else {
                None
            }
        };
        let time = |(low, extra)| Timestamp::decode(get_u32(bytes, low), word(extra, 4));
        let mode = get_u16(bytes, 0x0);
        let end = fields_end(extra_isize);
        let high16 = |at| u32::from(get_u16(bytes, at));
        Inode {
            mode,
            uid: u32::from(get_u16(bytes, 0x2)) | high16(0x78) << 16,
            gid: u32::from(get_u16(bytes, 0x18)) | high16(0x7A) << 16,
            size: join_u32(get_u32(bytes, 0x4), size_high(bytes, mode, geometry)),
            blocks_raw: join_u32(get_u32(bytes, 0x1C), blocks_high(bytes, geometry)),
            links: get_u16(bytes, 0x1A),
            flags: InodeFlags(get_u32(bytes, 0x20)),
            generation: get_u32(bytes, 0x64),
            dtime: get_u32(bytes, 0x14),
            atime: time(ATIME),
            mtime: time(MTIME),
            ctime: time(CTIME),
            crtime: word(CRTIME.0, 4).map_or_else(Timestamp::default, |_| time(CRTIME)),
            i_block: get_array(bytes, 0x28),
            file_acl: BlockNr(join_u32(get_u32(bytes, 0x68), high16(0x76))),
            projid: word(PROJID_AT, 4).unwrap_or(0),
            version: join_u32(get_u32(bytes, 0x24), word(VERSION_HIGH_AT, 4).unwrap_or(0)),
            extra_isize,
            tail: rest(bytes, end).into(),
            faddr: get_u32(bytes, 0x70),
            reserved: get_u16(bytes, 0x7E),
            unknown: part(bytes, KNOWN_BYTES..end).into(),
        }
    }

    fn encode_base(&self, out: &mut [u8], geometry: &Geometry) {
        put_u16(out, 0x0, self.mode);
        put_u16(out, 0x2, low_u16(self.uid));
        put_u32(out, 0x4, low_u32(self.size));
        put_u32(out, 0x14, self.dtime);
        put_u16(out, 0x18, low_u16(self.gid));
        put_u16(out, 0x1A, self.links);
        put_u32(out, 0x1C, low_u32(self.blocks_raw));
        put_u32(out, 0x20, self.flags.0);
        put_u32(out, 0x24, low_u32(self.version));
        put_slice(out, 0x28, &self.i_block);
        put_u32(out, 0x64, self.generation);
        put_u32(out, 0x68, low_u32(self.file_acl.0));
        put_u32(out, 0x6C, high_u32(self.size));
        put_u32(out, 0x70, self.faddr);
        if geometry.features.has(Feature::HUGE_FILE) {
            put_u16(out, 0x74, low_u16(self.blocks_raw >> 32));
        }
        put_u16(out, 0x76, low_u16(self.file_acl.0 >> 32));
        put_u16(out, 0x78, high_u16(self.uid));
        put_u16(out, 0x7A, high_u16(self.gid));
        put_u16(out, 0x7E, self.reserved);
        for (time, at) in [
            (self.ctime, CTIME),
            (self.mtime, MTIME),
            (self.atime, ATIME),
        ] {
            self.encode_time(out, time, at);
        }
    }

    fn encode_extra(&self, out: &mut [u8]) {
        // First, so that without extra fields `i_extra_isize` overwrites the tail's first bytes.
        put_slice(out, self.tail_offset(), &self.tail);
        put_u16(out, EXTRA_ISIZE_AT, self.extra_isize);
        if fits(self.extra_isize, CRTIME.0, 4) {
            self.encode_time(out, self.crtime, CRTIME);
        }
        if fits(self.extra_isize, VERSION_HIGH_AT, 4) {
            put_u32(out, VERSION_HIGH_AT, high_u32(self.version));
        }
        if fits(self.extra_isize, PROJID_AT, 4) {
            put_u32(out, PROJID_AT, self.projid);
        }
        put_slice(out, KNOWN_BYTES, &self.unknown);
    }

    fn encode_time(&self, out: &mut [u8], time: Timestamp, (low_at, extra_at): (usize, usize)) {
        let room = fits(self.extra_isize, extra_at, 4);
        let (low, extra) = time.encode(if room { WithExtra::Yes } else { WithExtra::No });
        put_u32(out, low_at, low);
        if room {
            put_u32(out, extra_at, extra);
        }
    }
}

/// The high half of the size: old directories store another field there.
fn size_high(bytes: &[u8], mode: u16, geometry: &Geometry) -> u32 {
    let regular = FileType::from_mode(mode) == Some(FileType::Regular);
    let has_high = regular || geometry.features.has(Feature::LARGE_DIR);
    if has_high { get_u32(bytes, 0x6C) } else { 0 }
}

fn blocks_high(bytes: &[u8], geometry: &Geometry) -> u32 {
    let has_high = geometry.features.has(Feature::HUGE_FILE);
    if has_high {
        u32::from(get_u16(bytes, 0x74))
    } else {
        0
    }
}

fn verify(
    bytes: &[u8],
    extra_isize: u16,
    ino: InodeNr,
    checksums: &Checksums,
) -> Result<(), Corrupt> {
    let seed = checksums.metadata;
    let computed = seed.map(|seed| checksum(bytes, extra_isize, ino, seed));
    match CorruptKind::compare(stored(bytes, extra_isize), computed) {
        Err(problem) if bytes.iter().any(|byte| *byte != 0) => {
            Err(Corrupt::new(DamageLocation::Inode(ino), "inode", problem))
        }
        _ => Ok(()),
    }
}

fn stored(bytes: &[u8], extra_isize: u16) -> u32 {
    let low = u32::from(get_u16(bytes, CHECKSUM_LOW_AT));
    if fits(extra_isize, CHECKSUM_HIGH_AT, 2) {
        low | u32::from(get_u16(bytes, CHECKSUM_HIGH_AT)) << 16
    } else {
        low
    }
}

/// The checksum over the inode with the checksum fields as zero, truncated to the stored width.
fn checksum(bytes: &[u8], extra_isize: u16, ino: InodeNr, seed: Seed) -> u32 {
    let seed = seed.inode(ino, get_u32(bytes, 0x64));
    let seed = seed.update(part(bytes, 0..CHECKSUM_LOW_AT)).update(&[0, 0]);
    let seed = seed.update(part(bytes, CHECKSUM_LOW_AT + 2..GOOD_OLD_INODE_BYTES));
    if !fits(extra_isize, CHECKSUM_HIGH_AT, 2) {
        return seed.update(rest(bytes, GOOD_OLD_INODE_BYTES)).value() & 0xFFFF;
    }
    let seed = seed
        .update(part(bytes, GOOD_OLD_INODE_BYTES..CHECKSUM_HIGH_AT))
        .update(&[0, 0]);
    seed.update(rest(bytes, CHECKSUM_HIGH_AT + 2)).value()
}
