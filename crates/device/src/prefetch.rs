//! Asking for memory before it is needed.
//!
//! A processor that comes to an atomic change waits for all reads before it, so that reads which
//! miss the caches follow each other however independent they are. A prefetch is waited for by
//! nobody, and what cannot be had is not fetched.

/// A cache line, in bytes.
pub const LINE_BYTES: usize = 64;

/// Asks for the cache lines of `bytes` bytes at `from`, which need not be memory of anybody. A
/// hint: nothing is read, and on processors other than x86-64 nothing is done.
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
