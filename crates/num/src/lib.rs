//! Integer conversions by name: lossless, low bits, high half, clamped, or not negative.
//!
//! `as` widens, truncates and changes the sign with the same word. Crates that deny
//! `clippy::as_conversions` use `From`, the standard `cast_signed` and `cast_unsigned`, and these.
#![forbid(unsafe_code)]
#![deny(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

/// Supported targets: a block number of a group fits in memory, and sizes in memory fit in 64 bits.
const _: () = assert!(usize::BITS >= 32 && usize::BITS <= 64);

/// A count or an offset of 32 bits as an index; lossless.
#[inline]
#[must_use]
pub const fn usize_of(value: u32) -> usize {
    value as usize
}

/// A signed distance of 32 bits in memory; lossless.
#[inline]
#[must_use]
pub const fn isize_of(value: i32) -> isize {
    value as isize
}

/// A size in memory as a number of 64 bits; lossless.
#[inline]
#[must_use]
pub const fn u64_of(value: usize) -> u64 {
    value as u64
}

/// Bits 0 to 7.
#[inline]
#[must_use]
pub fn low_u8(value: impl Into<u64>) -> u8 {
    value.into() as u8
}

/// Bits 0 to 15.
#[inline]
#[must_use]
pub fn low_u16(value: impl Into<u64>) -> u16 {
    value.into() as u16
}

/// Bits 0 to 31.
#[inline]
#[must_use]
pub const fn low_u32(value: u64) -> u32 {
    value as u32
}

/// Bits 0 to 63.
#[inline]
#[must_use]
pub const fn low_u64(value: u128) -> u64 {
    value as u64
}

/// Bits 16 to 31.
#[inline]
#[must_use]
pub const fn high_u16(value: u32) -> u16 {
    (value >> 16) as u16
}

/// Bits 32 to 63.
#[inline]
#[must_use]
pub const fn high_u32(value: u64) -> u32 {
    (value >> 32) as u32
}

/// A count that concurrent changes may show as negative for a moment, or a time before 1970: the
/// value, or 0.
#[inline]
#[must_use]
pub const fn nonnegative(value: i64) -> u64 {
    if value < 0 { 0 } else { value.cast_unsigned() }
}

macro_rules! clamps {
    ($($(#[$doc:meta])* $name:ident $int:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name(value: impl TryInto<$int>) -> $int {
            value.try_into().unwrap_or($int::MAX)
        }
    )*};
}

clamps! {
    /// The value of an unsigned number, or the largest `u8`.
    clamp_u8 u8;
    /// The value of an unsigned number, or the largest `u16`.
    clamp_u16 u16;
    /// The value of an unsigned number, or the largest `u32`.
    clamp_u32 u32;
    /// The value of an unsigned number, or the largest `u64`.
    clamp_u64 u64;
    /// The value of an unsigned number, or the largest `usize`, which is an offset past every end.
    clamp_usize usize;
    /// The value of an unsigned number, or the largest `i32`.
    clamp_i32 i32;
    /// The value of an unsigned number, or the largest `i64`.
    clamp_i64 i64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_make_the_whole() {
        let value = 0x0123_4567_89AB_CDEF_u64;
        assert_eq!(
            u64::from(high_u32(value)) << 32 | u64::from(low_u32(value)),
            value
        );
        assert_eq!(
            (high_u16(0x89AB_CDEF), low_u16(0x89AB_CDEF_u32)),
            (0x89AB, 0xCDEF)
        );
        assert_eq!(
            (low_u8(value), low_u64(u128::MAX - 1)),
            (0xEF, u64::MAX - 1)
        );
    }

    #[test]
    fn widening_keeps_and_clamping_stops_at_the_largest() {
        assert_eq!(u64_of(usize_of(u32::MAX)), u64::from(u32::MAX));
        assert_eq!((isize_of(i32::MIN), isize_of(7)), (-(1 << 31), 7));
        assert_eq!((clamp_u8(255_u64), clamp_u8(256_u64)), (255, 255));
        assert_eq!(
            (clamp_u16(65_535_usize), clamp_u16(65_536_usize)),
            (65_535, 65_535)
        );
        assert_eq!((clamp_u32(u64::MAX), clamp_usize(7_u64)), (u32::MAX, 7));
        assert_eq!((clamp_u64(7_u128), clamp_u64(u128::MAX)), (7, u64::MAX));
        assert_eq!((clamp_i32(7_u32), clamp_i32(u32::MAX)), (7, i32::MAX));
        assert_eq!((nonnegative(7), nonnegative(-7)), (7, 0));
        assert_eq!((clamp_i64(7_usize), clamp_i64(u64::MAX)), (7, i64::MAX));
    }
}
