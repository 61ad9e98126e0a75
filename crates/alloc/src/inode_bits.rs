//! Lock-free inode bitmap of one group: finding a clear bit and setting it is one atomic step.
//!
//! Layout: as [`Bitmap`], in *lines* of 512 bits, a cache line each; bits past the end are always
//! set. A line may have an owner, a shard of threads that takes from it while other shards prefer
//! other lines ([`crate::InodeRuns`]). Ownership is a hint: every clear bit is available to all, so
//! nothing has to be given back.
//!
//! A line found full is marked so in place of its owner, and skipped until one of its bits is
//! cleared. This is also a hint: if no other line has space, marked lines are searched, too.
//!
//! Not here: choice of the group, meaning of a bit on disk.

use crate::{Bitmap, words};
use uext4_num::{clamp_u16, clamp_u32, usize_of};
use uext4_sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// Inodes in one line, the unit that a shard of threads owns.
pub const INODE_LINE: u32 = 512;
const WORDS: usize = words::words_for(INODE_LINE);
const UNOWNED: u16 = 0;
/// In place of an owner: the line is full.
const FULL: u16 = u16::MAX;
// Every shard has a name.
const _: () = assert!(uext4_sync::SHARDS_MAX < 0xfffe);

#[repr(align(64))]
struct Line([AtomicU64; WORDS]);

/// The inodes in use in a group. All methods are thread-safe.
pub struct InodeBits {
    lines: Box<[Line]>,
    owners: Box<[AtomicU16]>,
    bits: u32,
}

/// Word `at` of the bitmap; the bits behind its end are set, so that none is free.
fn first_word(used: &Bitmap, at: usize) -> u64 {
    let known = used.words().get(at).copied().unwrap_or(0);
    let past_end = match used.len().saturating_sub(words::first_bit(at)) {
        0 => !0,
        left if left < 64 => !0 << left,
        _ => 0,
    };
    known | past_end
}

impl InodeBits {
    /// Copies a bitmap in which a set bit is an inode in use.
    pub fn new(used: &Bitmap) -> Self {
        let count = usize_of(used.len().div_ceil(INODE_LINE));
        Self {
            lines: (0..count)
                .map(|line| {
                    let first = line * WORDS;
                    Line(std::array::from_fn(|i| first_word(used, first + i).into()))
                })
                .collect(),
            owners: (0..count).map(|_| AtomicU16::new(UNOWNED)).collect(),
            bits: used.len(),
        }
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.lines.iter().flat_map(|line| line.0.iter());
        all.map(|word| word.load(Ordering::Acquire))
    }

    fn word(&self, index: u32) -> Option<(&AtomicU64, u64)> {
        let line = self.lines.get(usize_of(index / INODE_LINE))?;
        let word = &line.0[usize_of(index % INODE_LINE / 64)];
        (index < self.bits).then_some((word, 1 << (index % 64)))
    }

    /// A copy of the bits, each read at some time during the call.
    pub fn to_bitmap(&self) -> Bitmap {
        let mut used = Bitmap::new(self.bits);
        for (at, word) in (0..words::words_for(self.bits)).zip(self.words()) {
            let left = self.bits - words::first_bit(at);
            used.fill_word(at, word & if left < 64 { !(!0 << left) } else { !0 });
        }
        used
    }

    /// Counts the clear bits; concurrent changes may be missed.
    pub fn count_clear(&self) -> u32 {
        self.words().map(u64::count_zeros).sum()
    }

    /// Whether the bit is set; true past the end.
    pub fn get(&self, index: u32) -> bool {
        self.word(index)
            .is_none_or(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    /// Sets one bit; false when it was set already.
    pub fn set(&self, index: u32) -> bool {
        self.word(index)
            .is_some_and(|(word, bit)| word.fetch_or(bit, Ordering::AcqRel) & bit == 0)
    }

    /// Clears one bit; false when it was clear already.
    pub fn clear(&self, index: u32) -> bool {
        let Some((word, bit)) = self.word(index) else {
            return false;
        };
        let was_set = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        self.change_owner(index / INODE_LINE, FULL, UNOWNED);
        was_set
    }

    /// The first clear bit at or past `from`; another thread may set it.
    pub fn first_clear(&self, from: u32) -> Option<u32> {
        let lines = from / INODE_LINE..clamp_u32(self.lines.len());
        lines.into_iter().find_map(|line| {
            let first = line * INODE_LINE;
            (0u32..)
                .zip(&self.lines[usize_of(line)].0)
                .find_map(|(at, word)| {
                    let first = first + at * 64;
                    let clear = !word.load(Ordering::Relaxed) & allowed(first, from);
                    (clear != 0).then(|| first + clear.trailing_zeros())
                })
        })
    }

    /// Sets the first clear bit of a line at or past `from`, and returns its index.
    pub fn take(&self, line: u32, from: u32) -> Option<u32> {
        let base = line * INODE_LINE;
        let words = &self.lines.get(usize_of(line))?.0;
        (0u32..).zip(words).find_map(|(at, word)| {
            let first = base + at * 64;
            take_bit(word, allowed(first, from)).map(|bit| first + bit)
        })
    }

    /// A line with a clear bit at or past `from`: the first that `shard` owns or that has no owner,
    /// which `shard` then owns; else one with another owner, else one marked full.
    pub(crate) fn line_for(&self, shard: usize, from: u32) -> Option<u32> {
        let lines = 0..clamp_u32(self.owners.len());
        let own = lines.clone().find(|&line| {
            let owner = self.owner(line);
            let may = owner == UNOWNED || owner == name(shard);
            may && self.has_clear_or_close(line, from, owner) && self.own(line, shard)
        });
        let open = lines.clone().filter(|&line| self.owner(line) != FULL);
        own.or_else(|| open.chain(lines).find(|&line| self.has_clear(line, from)))
    }

    fn owner(&self, line: u32) -> u16 {
        self.owners[usize_of(line)].load(Ordering::Relaxed)
    }

    /// Whether a line has a clear bit at or past `from`.
    pub(crate) fn has_clear(&self, line: u32, from: u32) -> bool {
        let first = line * INODE_LINE;
        self.lines.get(usize_of(line)).is_some_and(|line| {
            (0u32..).zip(&line.0).any(|(at, word)| {
                !word.load(Ordering::Relaxed) & allowed(first + at * 64, from) != 0
            })
        })
    }

    /// As [`Self::has_clear`]; marks a line of `owner` without a clear bit as full.
    fn has_clear_or_close(&self, line: u32, from: u32, owner: u16) -> bool {
        let has_clear = self.has_clear(line, from);
        if !has_clear {
            self.change_owner(line, owner, FULL);
        }
        has_clear
    }

    fn own(&self, line: u32, shard: usize) -> bool {
        let (me, relaxed) = (name(shard), Ordering::Relaxed);
        let owner = &self.owners[usize_of(line)];
        let before = owner.compare_exchange(UNOWNED, me, relaxed, relaxed);
        before.map_or_else(|owner| owner == me, |_| true)
    }

    /// Ends the ownership of a line that the shard found full.
    pub(crate) fn disown(&self, line: u32, shard: usize) {
        self.change_owner(line, name(shard), FULL);
    }

    fn change_owner(&self, line: u32, from: u16, to: u16) {
        let Some(owner) = self.owners.get(usize_of(line)) else {
            return;
        };
        if owner.load(Ordering::Relaxed) == from {
            let _ = owner.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

fn name(shard: usize) -> u16 {
    clamp_u16(shard % uext4_sync::SHARDS_MAX) + 1
}

/// The bits of the word that begins at `first` which are not before `from`.
fn allowed(first: u32, from: u32) -> u64 {
    let skip = from.saturating_sub(first);
    if skip < 64 { !0 << skip } else { 0 }
}

/// Sets the lowest clear bit of `word` among `allowed`.
fn take_bit(word: &AtomicU64, allowed: u64) -> Option<u32> {
    let mut clear = !word.load(Ordering::Relaxed) & allowed;
    while clear != 0 {
        let bit = clear & clear.wrapping_neg();
        let before = word.fetch_or(bit, Ordering::AcqRel);
        if before & bit == 0 {
            return Some(bit.trailing_zeros());
        }
        clear = !before & allowed & !bit;
    }
    None
}
