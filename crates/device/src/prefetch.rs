//! Software prefetch of cache lines.
//!
//! An atomic read-modify-write waits for all earlier reads, so independent reads that miss the
//! cache are serialised. A prefetch delays no later instruction, and a prefetch that cannot be
//! served is dropped.

/// A cache line, in bytes.
pub const LINE_BYTES: usize = 64;

/// Prefetches the cache lines of `bytes` bytes at `from`, which need not be valid memory. A hint:
/// nothing is read, and processors other than x86-64 do nothing.
pub fn prefetch(from: *const u8, bytes: usize) {
    let skip = from.addr() % LINE_BYTES;
    for at in (0..skip + bytes).step_by(LINE_BYTES) {
        line(from.wrapping_sub(skip).wrapping_add(at));
    }
}

#[cfg(target_arch = "x86_64")]
fn line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that the program sees and never faults, whatever the
    // address; SSE, which it belongs to, is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn line(_at: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_may_be_asked_for() {
        let bytes = [7u8; 1000];
        prefetch(bytes.as_ptr(), bytes.len());
        prefetch(std::ptr::null(), 4096);
        prefetch(std::ptr::without_provenance(usize::MAX), 1);
        assert_eq!(bytes, [7; 1000]);
    }
}
