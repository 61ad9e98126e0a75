//! Integers in byte buffers, at byte offsets, without panics.
//!
//! Reading past the end gives 0 and writing past the end does nothing. Parsers check lengths once
//! where they start; these functions keep a mistake there from panicking on hostile bytes.
//! ext4 is little-endian; jbd2 is big-endian (the `_be` twins).

macro_rules! integers {
    ($($int:ident: $get:ident $put:ident $get_be:ident $put_be:ident;)*) => {$(
        #[doc = concat!("The little-endian `", stringify!($int), "` at byte `at`; 0 past the end.")]
        #[inline]
        pub fn $get(buf: &[u8], at: usize) -> $int {
            tail(buf, at).first_chunk().map_or(0, |bytes| $int::from_le_bytes(*bytes))
        }
        #[doc = concat!("Writes `", stringify!($int), "` little-endian at byte `at`, if it fits.")]
        #[inline]
        pub fn $put(buf: &mut [u8], at: usize, value: $int) {
            if let Some(bytes) = buf.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                *bytes = value.to_le_bytes();
            }
        }
        #[doc = concat!("The big-endian `", stringify!($int), "` at byte `at`; 0 past the end.")]
        #[inline]
        pub fn $get_be(buf: &[u8], at: usize) -> $int {
            tail(buf, at).first_chunk().map_or(0, |bytes| $int::from_be_bytes(*bytes))
        }
        #[doc = concat!("Writes `", stringify!($int), "` big-endian at byte `at`, if it fits.")]
        #[inline]
        pub fn $put_be(buf: &mut [u8], at: usize, value: $int) {
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
pub fn get_u8(buf: &[u8], at: usize) -> u8 {
    buf.get(at).copied().unwrap_or(0)
}

/// Writes the byte at `at`, if it fits.
#[inline]
pub fn put_u8(buf: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = buf.get_mut(at) {
        *byte = value;
    }
}

/// The `N` bytes at `at`; zeroes past the end.
#[inline]
pub fn get_array<const N: usize>(buf: &[u8], at: usize) -> [u8; N] {
    tail(buf, at).first_chunk().copied().unwrap_or([0; N])
}

/// Writes `value` at `at`, if all of it fits.
#[inline]
pub fn put_slice(buf: &mut [u8], at: usize, value: &[u8]) {
    let end = at.saturating_add(value.len());
    if let Some(bytes) = buf.get_mut(at..end) {
        bytes.copy_from_slice(value);
    }
}

/// A 48- or 64-bit number kept as low and high half.
#[inline]
pub fn join_u32(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn tail(buf: &[u8], at: usize) -> &[u8] {
    buf.get(at..).unwrap_or(&[])
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
}
