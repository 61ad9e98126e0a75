//! Fields of a tar header: one block of 512 bytes.
//!
//! Layout: name 100, mode 8, uid 8, gid 8, size 12, mtime 12, checksum 8, type 1, link name 100,
//! magic 8, owner names 64, device numbers 16; then, by dialect, a prefix of the name (ustar: 155
//! bytes, star: 131) or a sparse map (GNU). Numbers are octal text, or binary with the top bit of
//! the field set.
//! References: POSIX.1-2017, pax, "ustar Interchange Format"; tar(5) of libarchive; the GNU tar
//! manual, "Basic Tar Format".

use crate::fault::{Checked, DAMAGED, Fault};
use std::ops::Range;
use uext4_num::clamp_i64;

/// Bytes of a tar block, the unit of headers and contents.
pub(crate) const BLOCK: usize = 512;

pub(crate) type Block = [u8; BLOCK];

const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MTIME: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const LINK_NAME: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..265;
const MAJOR: Range<usize> = 329..337;
const MINOR: Range<usize> = 337..345;
const USTAR_PREFIX: Range<usize> = 345..500;
const STAR_PREFIX: Range<usize> = 345..476;
const STAR_MAGIC: Range<usize> = 508..512;
const REAL_SIZE: Range<usize> = 483..495;

/// Dialects that use the end of the block differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Old,
    Ustar,
    Star,
    Gnu,
}

/// A header with a right checksum.
pub(crate) struct Header<'a>(&'a Block);

impl<'a> Header<'a> {
    /// Checks the sum: unsigned, or signed as some old programs made it.
    pub(crate) fn new(block: &'a Block) -> Checked<Header<'a>> {
        let stored = number(&block[CHECKSUM], "checksum")?;
        let bytes = || block.iter().enumerate().map(summand);
        let unsigned: i64 = bytes().map(i64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        if stored != unsigned && stored != signed {
            return Err(Fault::refused("has a wrong checksum", DAMAGED));
        }
        Ok(Header(block))
    }

    fn dialect(&self) -> Dialect {
        match &self.0[MAGIC] {
            b"ustar  \0" => Dialect::Gnu,
            magic if !magic.starts_with(b"ustar") => Dialect::Old,
            _ if &self.0[STAR_MAGIC] == b"tar\0" => Dialect::Star,
            _ => Dialect::Ustar,
        }
    }

    /// Letter of the type (`typeflag`).
    pub(crate) fn kind(&self) -> u8 {
        self.0[TYPE]
    }

    /// Name with its prefix.
    pub(crate) fn name(&self) -> Vec<u8> {
        let prefix = match self.dialect() {
            Dialect::Ustar => text(&self.0[USTAR_PREFIX]),
            Dialect::Star => text(&self.0[STAR_PREFIX]),
            Dialect::Old | Dialect::Gnu => &[],
        };
        let name = text(&self.0[..100]);
        match prefix {
            [] => name.to_vec(),
            _ => [prefix, b"/", name].concat(),
        }
    }

    /// Target of a link, up to the first zero byte.
    pub(crate) fn link_name(&self) -> &'a [u8] {
        text(&self.0[LINK_NAME])
    }

    /// Low 12 bits of the mode.
    pub(crate) fn permissions(&self) -> Checked<u16> {
        let mode = number(&self.0[MODE], "mode")?;
        Ok(uext4_num::low_u16(mode.cast_unsigned()) & 0o7777)
    }

    pub(crate) fn uid(&self) -> Checked<i64> {
        number(&self.0[UID], "owner")
    }

    pub(crate) fn gid(&self) -> Checked<i64> {
        number(&self.0[GID], "group")
    }

    /// Bytes that follow the header.
    pub(crate) fn size(&self) -> Checked<u64> {
        unsigned(&self.0[SIZE], "size")
    }

    /// Modification time in seconds since 1970; negative before.
    pub(crate) fn mtime(&self) -> Checked<i64> {
        number(&self.0[MTIME], "time")
    }

    /// Major and minor number of a device.
    pub(crate) fn device(&self) -> Checked<(u64, u64)> {
        if self.dialect() == Dialect::Old {
            return Ok((0, 0));
        }
        Ok((
            unsigned(&self.0[MAJOR], "device number")?,
            unsigned(&self.0[MINOR], "device number")?,
        ))
    }

    /// Size of a sparse file of the old GNU form, with its holes.
    pub(crate) fn real_size(&self) -> Checked<u64> {
        unsigned(&self.0[REAL_SIZE], "size of the sparse file")
    }
}

/// The byte as the checksum counts it: the field itself counts as spaces.
fn summand((index, byte): (usize, &u8)) -> u8 {
    if CHECKSUM.contains(&index) {
        b' '
    } else {
        *byte
    }
}

/// A text field up to its first zero byte.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// A number that cannot be negative.
pub(crate) fn unsigned(field: &[u8], what: &str) -> Checked<u64> {
    u64::try_from(number(field, what)?).map_err(|_| bad(what))
}

/// A number: octal text after spaces, or none of it for 0, ended by a space, a zero byte or the
/// field; or binary.
pub(crate) fn number(field: &[u8], what: &str) -> Checked<i64> {
    match field.first() {
        Some(0x80..) => binary(field).ok_or_else(|| bad(what)),
        _ => octal(field).ok_or_else(|| bad(what)),
    }
}

fn octal(field: &[u8]) -> Option<i64> {
    let start = field.iter().position(|byte| *byte != b' ');
    let digits = &field[start.unwrap_or(field.len())..];
    let end = digits.iter().position(|byte| matches!(byte, b' ' | 0));
    let digits = &digits[..end.unwrap_or(digits.len())];
    let value = digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => Some(value << 3 | u64::from(digit - b'0')),
        _ => None,
    })?;
    Some(clamp_i64(value))
}

/// Two's complement, big endian; the top bit of the first byte is the mark.
fn binary(field: &[u8]) -> Option<i64> {
    let (first, rest) = field.split_first()?;
    let sign_bit = first & 0x40 != 0;
    let start = if sign_bit {
        i128::from(first | 0x80) - 0x100
    } else {
        i128::from(first & 0x7F)
    };
    let value = rest.iter().try_fold(start, |value, byte| {
        value.checked_mul(0x100)?.checked_add(i128::from(*byte))
    })?;
    i64::try_from(value).ok()
}

fn bad(what: &str) -> Fault {
    Fault::refused(format!("has a {what} that is no number"), DAMAGED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        let cases: [(&[u8], Option<i64>); 10] = [
            (b"0000644\0", Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"77777777", Some(0o7777_7777)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"0000648\0", None),
            (b"\x80\0\0\0\0\0\0\0\x02\0\0\0", Some(1 << 25)),
            (b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE", Some(-2)),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"-1\0", None),
        ];
        for (field, value) in cases {
            assert_eq!(number(field, "x").ok(), value, "{field:?}");
        }
        assert!(unsigned(b"\xFF\xFF\xFF\xFF", "x").is_err());
    }
}
