//! Bounds checks shared by all devices.

use crate::Error;
use uext4_num::u64_of;

/// Returns [`Error::OutOfRange`] unless `offset..offset + len` lies in `0..size_bytes`.
pub(crate) fn check(size_bytes: u64, offset: u64, len: u64) -> Result<(), Error> {
    match offset.checked_add(len) {
        Some(end) if end <= size_bytes => Ok(()),
        _ => Err(Error::OutOfRange {
            offset,
            len,
            size_bytes,
        }),
    }
}

/// Total length of `bufs` in bytes.
pub(crate) fn total_bytes(bufs: &[&[u8]]) -> u64 {
    bufs.iter().map(|buf| u64_of(buf.len())).sum()
}
