//! Which parts of a device were written since some moment, for copies of what changed.
//!
//! Layout: a bit for each granule, a power of two of 64 KiB or more, so that the bits of the
//! largest device take 16 MiB.
//! Invariants: a writer sets its bits before it writes, while it passes the barrier of the layer.
//! So all that was written between the begin and a later snapshot has its bits when that snapshot
//! is taken. Bits of later writes do no harm: the snapshot has the same bytes there.
//! Locking: none; the barrier orders the accesses.

use super::layer::Snapshots;
use std::ops::Range;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Smallest granule: that of qcow2.
const GRANULE_BITS_MIN: u32 = 16;
/// Largest number of granules.
const GRANULES_MAX: u64 = 1 << 27;

/// The bits of one device.
pub(super) struct Bits {
    granule_bits: u32,
    words: Box<[AtomicU64]>,
    /// Later writes may pass no layer: the device was given back, or others may write it.
    is_closed: AtomicBool,
}

impl Bits {
    pub(super) fn new(size_bytes: u64) -> Self {
        let mut granule_bits = GRANULE_BITS_MIN;
        while size_bytes >> granule_bits >= GRANULES_MAX {
            granule_bits += 1;
        }
        let granules = size_bytes.div_ceil(1 << granule_bits);
        let words = (0..granules.div_ceil(64)).map(|_| AtomicU64::new(0));
        Self {
            granule_bits,
            words: words.collect(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Sets the bits of a range in bytes. What is behind the size at the begin has none.
    pub(super) fn mark(&self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = range.start >> self.granule_bits;
        let last = (range.end - 1) >> self.granule_bits;
        let words = (first / 64)..(last / 64 + 1).min(u64_of(self.words.len()));
        for nr in words {
            let from = if nr == first / 64 { first % 64 } else { 0 };
            let to = if nr == last / 64 { last % 64 } else { 63 };
            let mask = (u64::MAX << from) & (u64::MAX >> (63 - to));
            let word = &self.words[clamp_usize(nr)];
            // Most writes find their bits set, and take no cache line from other cores.
            if word.load(Relaxed) & mask != mask {
                word.fetch_or(mask, Relaxed);
            }
        }
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, SeqCst);
    }
}

/// What was written to a device since [`Snapshots::track`]; it ends when it is dropped.
pub struct Changes {
    bits: Arc<Bits>,
    layer: Arc<Snapshots>,
}

impl Changes {
    pub(super) fn new(bits: Arc<Bits>, layer: Arc<Snapshots>) -> Self {
        Self { bits, layer }
    }

    /// Bytes of a granule, a power of two.
    pub fn granule_bytes(&self) -> u64 {
        1 << self.bits.granule_bits
    }

    /// Bytes of the bits, which is the memory for them.
    pub fn bitmap_bytes(&self) -> u64 {
        u64_of(self.bits.words.len()) * 8
    }

    /// Number of granules that were written.
    pub fn changed(&self) -> u64 {
        let words = self.bits.words.iter();
        words
            .map(|word| u64::from(word.load(Relaxed).count_ones()))
            .sum()
    }

    /// Whether all writes were seen: the same file system has it to itself.
    pub fn is_complete(&self) -> bool {
        !self.bits.is_closed.load(SeqCst)
    }

    /// Reads bits from a byte on: bit 0 of byte 0 is the first granule. False outside of them.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        let end = offset.checked_add(u64_of(buf.len()));
        if end.is_none_or(|end| end > self.bitmap_bytes()) {
            return false;
        }
        for (at, byte) in (offset..).zip(buf) {
            let word = self.bits.words[clamp_usize(at / 8)].load(Relaxed);
            *byte = u8::try_from(word >> (at % 8 * 8) & 0xFF).unwrap_or_default();
        }
        true
    }

    /// Counts a granule as written.
    pub fn mark(&self, granule: u64) {
        let start = granule.checked_mul(self.granule_bytes());
        if let Some(start) = start {
            self.bits.mark(&(start..start.saturating_add(1)));
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.layer.forget(&self.bits);
    }
}
