//! Copy-on-write overlay in memory over a device that is never written.
//!
//! For a read-only mount of a file system whose journal needs replay: the replay goes here.
//!
//! Layout: pages of `PAGE_BYTES`; a written page is whole in the map of its shard, all others are
//! read from the base.
//! Locking: one shard lock ([`Rank::Device`]) at a time, none while the base is read. A page is
//! loaded from the base without a lock, which is safe because the base never changes.

use crate::{BlockDevice, Error, range};
use std::collections::HashMap;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::{Arc, Rank, RwLock, io_point};

const PAGE_BYTES: u64 = 4096;
const SHARDS: usize = 64;

type Pages = HashMap<u64, Box<[u8]>>;

/// A writable view of an immutable device.
pub struct Overlay {
    base: Arc<dyn BlockDevice>,
    shards: Box<[RwLock<Pages>]>,
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
    /// An overlay without changes.
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        let shards = (0..SHARDS)
            .map(|_| RwLock::new(Rank::Device, Pages::new()))
            .collect();
        Self { base, shards }
    }

    /// Memory in use for changes, in bytes.
    pub fn changed_bytes(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| u64_of(shard.read().len()) * PAGE_BYTES)
            .sum()
    }

    /// Changed bytes as ascending disjoint ranges that cover all changes.
    pub fn changed_ranges(&self) -> Vec<std::ops::Range<u64>> {
        let pages_of = |shard: &RwLock<Pages>| shard.read().keys().copied().collect::<Vec<_>>();
        let mut pages: Vec<u64> = self.shards.iter().flat_map(pages_of).collect();
        pages.sort_unstable();
        let end = |page: u64| ((page + 1) * PAGE_BYTES).min(self.size_bytes());
        pages
            .into_iter()
            .map(|page| page * PAGE_BYTES..end(page))
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

    fn write_piece(&self, piece: &Piece, bytes: &[u8]) -> Result<(), Error> {
        let place = piece.at..piece.at + bytes.len();
        if let Some(page) = self.shard(piece.page).write().get_mut(&piece.page) {
            page[place].copy_from_slice(bytes);
            return Ok(());
        }
        let loaded = if u64_of(place.len()) == PAGE_BYTES {
            bytes.into()
        } else {
            self.load(piece.page)?
        };
        // Another thread may have inserted the page since, with changes that must stay.
        let mut pages = self.shard(piece.page).write();
        pages.entry(piece.page).or_insert(loaded)[place].copy_from_slice(bytes);
        Ok(())
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
                let len = piece.range.len();
                buf[piece.range].copy_from_slice(&page[piece.at..piece.at + len]);
            }
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        io_point();
        range::check(self.size_bytes(), offset, u64_of(buf.len()))?;
        for piece in pieces(offset, buf.len()) {
            self.write_piece(&piece, &buf[piece.range.clone()])?;
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
    fn read_ahead(&self, offset: u64, len: u64) {
        self.base.read_ahead(offset, len);
    }
    fn is_rotational(&self) -> bool {
        self.base.is_rotational()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        self.base.describe()
    }
}

#[cfg(test)]
mod tests;
