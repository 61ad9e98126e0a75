//! Copy-on-write overlay in memory over a device that is never written.
//!
//! For a read-only mount of a file system whose journal needs replay: the replay goes here.
//! Also for the rehearsal of a change.
//!
//! Layout: pages of `PAGE_BYTES`; a written page is whole in the map of its shard, all others are
//! read from the base. A page of zeroes takes no memory besides its entry, which counts too.
//! Locking: one shard lock ([`Rank::Device`]) at a time, none while the base is read. A page is
//! loaded from the base without a lock, which is safe because the base never changes.

use crate::{BlockDevice, Error, range};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Arc, Rank, RwLock, io_point};

const PAGE_BYTES: u64 = 4096;
const SHARDS: usize = 64;
/// Memory for the entry of a page in bytes, with the free slots of the map.
const ENTRY_BYTES: u64 = 48;

type Pages = HashMap<u64, Page>;

/// A page that was written; `None`: all zeroes.
type Page = Option<Box<[u8]>>;

/// A writable view of an immutable device.
pub struct Overlay {
    base: Arc<dyn BlockDevice>,
    shards: Box<[RwLock<Pages>]>,
    is_private: bool,
    /// Memory in bytes, and how much there may be.
    used_bytes: Arc<AtomicU64>,
    limit_bytes: u64,
}

/// A part of an access that lies in one page.
struct Piece {
    page: u64,
    /// Offset in the page, in bytes.
    at: usize,
    /// The bytes of the access that it covers.
    range: std::ops::Range<usize>,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + u64_of(done);
        let n = (len - done).min(clamp_usize(PAGE_BYTES - at % PAGE_BYTES));
        let range = done..done + n;
        done += n;
        (n > 0).then_some(Piece {
            page: at / PAGE_BYTES,
            at: clamp_usize(at % PAGE_BYTES),
            range,
        })
    })
}

impl Overlay {
    /// An overlay without changes; its size in memory is not limited.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self {
            is_private: false,
            ..Self::rehearsal(base, u64::MAX)
        }
    }

    /// An overlay for a rehearsal, which is private to its user. Its changes take up to
    /// `limit_bytes` of memory; further writes fail.
    pub fn rehearsal(base: Arc<dyn BlockDevice>, limit_bytes: u64) -> Self {
        let shards = (0..SHARDS)
            .map(|_| RwLock::new(Rank::Device, Pages::new()))
            .collect();
        Self {
            base,
            shards,
            is_private: true,
            used_bytes: Arc::default(),
            limit_bytes,
        }
    }

    /// An overlay over another device; the changes of both have one limit.
    pub fn beside(&self, base: Arc<dyn BlockDevice>) -> Self {
        Self {
            is_private: self.is_private,
            used_bytes: self.used_bytes.clone(),
            ..Self::rehearsal(base, self.limit_bytes)
        }
    }

    /// Memory in use for changes, in bytes.
    pub fn changed_bytes(&self) -> u64 {
        self.used_bytes
            .load(Ordering::Relaxed)
            .min(self.limit_bytes)
    }

    /// Whether a write failed, because the changes would take more than the limit.
    pub fn is_full(&self) -> bool {
        self.used_bytes.load(Ordering::Relaxed) > self.limit_bytes
    }

    /// Changed bytes as ascending disjoint ranges that cover all changes.
    pub fn changed_ranges(&self) -> Vec<std::ops::Range<u64>> {
        let mut pages: Vec<u64> = self
            .shards
            .iter()
            .flat_map(|shard| shard.read().keys().copied().collect::<Vec<_>>())
            .collect();
        pages.sort_unstable();
        pages
            .into_iter()
            .map(|page| page * PAGE_BYTES..((page + 1) * PAGE_BYTES).min(self.size_bytes()))
            .collect()
    }

    fn shard(&self, page: u64) -> &RwLock<Pages> {
        &self.shards[clamp_usize(page % u64_of(SHARDS))]
    }

    /// The page as it is in the base; the last one of a device may be short.
    fn load(&self, page: u64) -> Result<Box<[u8]>, Error> {
        let start = page * PAGE_BYTES;
        let len = clamp_usize(PAGE_BYTES.min(self.size_bytes() - start));
        let mut bytes = vec![0; len].into_boxed_slice();
        self.base.read_at(start, &mut bytes)?;
        Ok(bytes)
    }

    fn write_in_page(&self, piece: &Piece, bytes: &[u8]) -> Result<(), Error> {
        let place = piece.at..piece.at + bytes.len();
        let is_whole = u64_of(bytes.len()) == PAGE_BYTES;
        if is_whole && bytes.iter().all(|byte| *byte == 0) {
            return self.write_zero_page(piece.page);
        }
        if let Some(page) = self.shard(piece.page).write().get_mut(&piece.page) {
            self.filled(piece.page, page)?[place].copy_from_slice(bytes);
            return Ok(());
        }
        self.take(piece.page, ENTRY_BYTES + PAGE_BYTES)?;
        let loaded = if is_whole {
            bytes.into()
        } else {
            self.load(piece.page)?
        };
        let mut pages = self.shard(piece.page).write();
        let page = match pages.entry(piece.page) {
            Entry::Vacant(entry) => entry.insert(Some(loaded)),
            // Another thread has inserted the page since, with changes that must stay.
            Entry::Occupied(entry) => {
                self.give_back(ENTRY_BYTES + PAGE_BYTES);
                entry.into_mut()
            }
        };
        self.filled(piece.page, page)?[place].copy_from_slice(bytes);
        Ok(())
    }

    fn write_zero_page(&self, nr: u64) -> Result<(), Error> {
        let mut pages = self.shard(nr).write();
        if let Some(page) = pages.get_mut(&nr) {
            if page.take().is_some() {
                self.give_back(PAGE_BYTES);
            }
            return Ok(());
        }
        self.take(nr, ENTRY_BYTES)?;
        pages.insert(nr, None);
        Ok(())
    }

    /// The bytes of a page in the map.
    fn filled<'a>(&self, nr: u64, page: &'a mut Page) -> Result<&'a mut [u8], Error> {
        if page.is_none() {
            self.take(nr, PAGE_BYTES)?;
        }
        Ok(page.get_or_insert_with(|| vec![0; clamp_usize(PAGE_BYTES)].into_boxed_slice()))
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts memory for a page.
    fn take(&self, nr: u64, bytes: u64) -> Result<(), Error> {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) <= self.limit_bytes {
            return Ok(());
        }
        let kind = std::io::ErrorKind::OutOfMemory;
        Err(Error::io("write", nr * PAGE_BYTES, PAGE_BYTES, kind))
    }
}

impl BlockDevice for Overlay {
    fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.base.read_at(offset, buf)?;
        for piece in pieces(offset, buf.len()) {
            if let Some(page) = self.shard(piece.page).read().get(&piece.page) {
                let part = &mut buf[piece.range];
                match page {
                    Some(page) => part.copy_from_slice(&page[piece.at..piece.at + part.len()]),
                    None => part.fill(0),
                }
            }
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        io_point();
        range::check(self.size_bytes(), offset, u64_of(buf.len()))?;
        for piece in pieces(offset, buf.len()) {
            self.write_in_page(&piece, &buf[piece.range.clone()])?;
        }
        Ok(())
    }
    fn flush(&self) -> Result<(), Error> {
        io_point();
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        io_point();
        range::check(self.size_bytes(), offset, len)
    }
    fn forget_cache(&self) {
        self.base.forget_cache();
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        self.base.read_ahead(offset, len);
    }
    fn is_rotational(&self) -> bool {
        self.base.is_rotational()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn is_private(&self) -> bool {
        self.is_private
    }
    fn describe(&self) -> String {
        self.base.describe()
    }
}

#[cfg(test)]
mod tests;
