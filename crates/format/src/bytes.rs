//! Integers in byte buffers, at byte offsets, without panics.
//!
//! Reading past the end gives 0 and writing past the end does nothing. Parsers check lengths once
//! where they start; these functions keep a mistake there from panicking on hostile bytes.
//! ext4 is little-endian; jbd2 is big-endian (the `_be` twins).

use std::ops::Range;

macro_rules! integers {
    ($($int:ident: $get:ident $put:ident $get_be:ident $put_be:ident;)*) => {$(
        #[doc = concat!("The little-endian `", stringify!($int), "` at byte `at`; 0 past the end.")]
        #[inline]
        pub(crate) fn $get(buf: &[u8], at: usize) -> $int {
            rest(buf, at).first_chunk().map_or(0, |bytes| $int::from_le_bytes(*bytes))
        }
        #[doc = concat!("Writes `", stringify!($int), "` little-endian at byte `at`, if it fits.")]
        #[inline]
        pub(crate) fn $put(buf: &mut [u8], at: usize, value: $int) {
            if let Some(bytes) = buf.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                *bytes = value.to_le_bytes();
            }
        }
        #[doc = concat!("The big-endian `", stringify!($int), "` at byte `at`; 0 past the end.")]
        #[inline]
        pub(crate) fn $get_be(buf: &[u8], at: usize) -> $int {
            rest(buf, at).first_chunk().map_or(0, |bytes| $int::from_be_bytes(*bytes))
        }
        #[doc = concat!("Writes `", stringify!($int), "` big-endian at byte `at`, if it fits.")]
        #[inline]
        pub(crate) fn $put_be(buf: &mut [u8], at: usize, value: $int) {
            if let Some(bytes) = buf.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                *bytes = value.to_be_bytes();
            }
        }
    )*};
}

integers! {
    u16: get_u16 put_u16 get_u16_be put_u16_be;
    u32: get_u32 put_u32 get_u32_be put_u32_be;
    u64: get_u64 put_u64 get_u64_be put_u64_be;
}

/// The byte at `at`; 0 past the end.
#[inline]
pub(crate) fn get_u8(buf: &[u8], at: usize) -> u8 {
    buf.get(at).copied().unwrap_or(0)
}

/// Writes the byte at `at`, if it fits.
#[inline]
pub(crate) fn put_u8(buf: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = buf.get_mut(at) {
        *byte = value;
    }
}

/// The `N` bytes at `at`; zeroes past the end.
#[inline]
pub(crate) fn get_array<const N: usize>(buf: &[u8], at: usize) -> [u8; N] {
    rest(buf, at).first_chunk().copied().unwrap_or([0; N])
}

/// Writes `value` at `at`, if all of it fits.
#[inline]
pub(crate) fn put_slice(buf: &mut [u8], at: usize, value: &[u8]) {
    let end = at.saturating_add(value.len());
    if let Some(bytes) = buf.get_mut(at..end) {
        bytes.copy_from_slice(value);
    }
}

/// A 48- or 64-bit number kept as low and high half.
#[inline]
pub(crate) fn join_u32(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The bytes from `at` on; none past the end.
#[inline]
pub(crate) fn rest(buf: &[u8], at: usize) -> &[u8] {
    buf.get(at..).unwrap_or_default()
}

/// The bytes from `at` on, to change them; none past the end.
#[inline]
pub(crate) fn rest_mut(buf: &mut [u8], at: usize) -> &mut [u8] {
    buf.get_mut(at..).unwrap_or_default()
}

/// The bytes before `end`; all of them if there are fewer.
#[inline]
pub(crate) fn upto(buf: &[u8], end: usize) -> &[u8] {
    buf.get(..end).unwrap_or(buf)
}

/// The bytes of a range; none if they are not all there.
#[inline]
pub(crate) fn part(buf: &[u8], range: Range<usize>) -> &[u8] {
    buf.get(range).unwrap_or_default()
}

/// Zeroes the bytes of a range, if they are all there.
#[inline]
pub(crate) fn clear(buf: &mut [u8], range: Range<usize>) {
    buf.get_mut(range).unwrap_or_default().fill(0);
}

/// Moves the bytes of a range to `to`, if both places are there.
#[inline]
pub(crate) fn shift(buf: &mut [u8], range: Range<usize>, to: usize) {
    let fits = range.start <= range.end
        && range.end <= buf.len()
        && range.len() <= buf.len().saturating_sub(to);
    if fits {
        buf.copy_within(range, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_both_orders() {
        let mut buf = [0u8; 8];
        put_u32(&mut buf, 1, 0x1122_3344);
        assert_eq!(buf, [0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0]);
        assert_eq!(get_u32(&buf, 1), 0x1122_3344);
        put_u16_be(&mut buf, 0, 0xABCD);
        assert_eq!(get_u16_be(&buf, 0), 0xABCD);
        assert_eq!(get_u16(&buf, 0), 0xCDAB);
        put_u64_be(&mut buf, 0, 7);
        assert_eq!(buf[7], 7);
        assert_eq!(get_u64(&buf, 0), 7 << 56);
    }

    #[test]
    fn past_the_end_is_zero_and_ignored() {
        let mut buf = [0xFFu8; 4];
        put_u32(&mut buf, 1, 0);
        put_u64(&mut buf, usize::MAX, 0);
        put_slice(&mut buf, usize::MAX, &[1, 2]);
        put_u8(&mut buf, 4, 1);
        assert_eq!(buf, [0xFF; 4]);
        assert_eq!(get_u32(&buf, 1), 0);
        assert_eq!(get_u16(&buf, usize::MAX), 0);
        assert_eq!(get_u8(&buf, 4), 0);
        assert_eq!(get_array::<3>(&buf, 2), [0; 3]);
    }

    #[test]
    fn ranges_past_the_end_are_empty_and_unchanged() {
        let mut buf = [1, 2, 3, 4];
        assert_eq!((rest(&buf, 3), rest(&buf, 5)), (&[4][..], &[][..]));
        assert_eq!((upto(&buf, 2), upto(&buf, 9)), (&[1, 2][..], &buf[..]));
        assert_eq!((part(&buf, 1..3), part(&buf, 2..5)), (&[2, 3][..], &[][..]));
        clear(&mut buf, 2..5);
        shift(&mut buf, 0..3, 2);
        shift(&mut buf, 0..2, usize::MAX);
        assert_eq!(buf, [1, 2, 3, 4]);
        shift(&mut buf, 0..2, 2);
        clear(&mut buf, 0..1);
        rest_mut(&mut buf, 3).fill(9);
        rest_mut(&mut buf, 5).fill(8);
        assert_eq!(buf, [0, 2, 1, 9]);
    }
}
