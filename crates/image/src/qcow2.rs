//! qcow2, version 3, as a device: each cluster is allocated at the end of the file at its first
//! write, and stays there. The tables are in memory until the end.
//!
//! Layout of the file, in clusters of 64 KiB:
//!
//! ```text
//! | header | data, in the order of first writes | L2 tables | L1 | refcount blocks | their table |
//! ```
//!
//! With a backing file, clusters that were not written are those of that file. Its name follows the
//! header.
//!
//! Invariants: writes in the same order give the same bytes. A cluster that was never written has
//! no place. With a backing file each write covers whole clusters, up to the end of the disk.
//! Locking: `clusters` ([`Rank::Device`]) is held while places are looked up, not during
//! an access.
//!
//! References: docs/interop/qcow2 of QEMU.

use std::ops::Range;

use uext4_device::{BlockDevice, Error, NewFile};
use uext4_num::{clamp_u32, clamp_usize, u64_of};
use uext4_sync::{Mutex, Rank};

use crate::{Backing, Format};

const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// Bytes of an entry of L1, L2 and the refcount table.
const ENTRY: u64 = 8;
/// Entries of an L2 table.
const L2_ENTRIES: usize = 1 << (CLUSTER_BITS - 3);
/// Refcounts of 16 bits in a block.
const REFCOUNTS: u64 = CLUSTER / 2;
/// The binary logarithm of the bits of a refcount.
const REFCOUNT_ORDER: u32 = 4;
/// The flag of an entry: exactly one reference.
const COPIED: u64 = 1 << 63;
const HEADER_BYTES: u32 = 104;
const VERSION: u32 = 3;
/// The extension of the header with the format of the backing file.
pub(crate) const BACKING_FORMAT: u32 = 0xe279_2aca;

/// A qcow2 file that is written as a block device; see the module.
pub struct Qcow2 {
    file: NewFile,
    backing: Option<Backing>,
    clusters: Mutex<Clusters>,
}

/// Places of clusters in the file.
struct Clusters {
    /// By number in the disk; 0: not allocated.
    places: Vec<u32>,
    /// The end of the file, in clusters.
    next: u32,
}

/// Neighbouring bytes of the disk, which are neighbours in the file as well.
struct Piece {
    /// In the buffer of the access.
    range: Range<usize>,
    /// In the file; `None`: they read as zeroes.
    at: Option<u64>,
}

impl Clusters {
    /// The cluster of the file, or 0.
    fn lookup(&self, cluster: u64) -> u32 {
        let place = self.places.get(clamp_usize(cluster));
        place.copied().unwrap_or(0)
    }

    fn allocate(&mut self, cluster: u64) -> u32 {
        let index = clamp_usize(cluster);
        if index >= self.places.len() {
            self.places.resize(index + 1, 0);
        }
        if self.places[index] == 0 {
            self.places[index] = self.next;
            self.next += 1;
        }
        self.places[index]
    }

    /// The pieces of an access, with places from `place`.
    fn pieces(
        &mut self,
        offset: u64,
        len: usize,
        mut place: impl FnMut(&mut Self, u64) -> u32,
    ) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut done = 0;
        while done < len {
            let at = offset + u64_of(done);
            let inside = at % CLUSTER;
            let end = len.min(done + clamp_usize(CLUSTER - inside));
            let place = match place(self, at / CLUSTER) {
                0 => None,
                place => Some(u64::from(place) * CLUSTER + inside),
            };
            match pieces.last_mut() {
                Some(last) if last.at.map(|at| at + u64_of(last.range.len())) == place => {
                    last.range.end = end;
                }
                _ => pieces.push(Piece {
                    range: done..end,
                    at: place,
                }),
            }
            done = end;
        }
        pieces
    }
}

/// The entry of a table that points to a cluster of the file.
fn entry(cluster: u64) -> u64 {
    (cluster * CLUSTER) | COPIED
}

impl Qcow2 {
    /// An empty disk in this file, which is new. It grows up to the limit of the file.
    pub fn new(file: NewFile) -> Qcow2 {
        Qcow2::over(file, None)
    }

    /// The same over another image, which has what is not written.
    pub(crate) fn over(file: NewFile, backing: Option<Backing>) -> Qcow2 {
        let clusters = Clusters {
            places: Vec::new(),
            next: 1,
        };
        Qcow2 {
            file,
            backing,
            clusters: Mutex::new(Rank::Device, clusters),
        }
    }

    /// Device and inode number of the file.
    ///
    /// # Errors
    /// Of the system.
    pub fn identity(&self) -> std::io::Result<(u64, u64)> {
        self.file.identity()
    }

    /// Writes the tables of a disk of `size_bytes`, a multiple of 512, and gives the file its name.
    /// The disk is not used afterwards.
    ///
    /// # Errors
    /// Of the file.
    pub fn keep(&self, size_bytes: u64) -> crate::Result<()> {
        let (mut places, next) = {
            let mut clusters = self.clusters.lock();
            (std::mem::take(&mut clusters.places), clusters.next)
        };
        let needed = clamp_usize(size_bytes.div_ceil(CLUSTER));
        places.truncate(needed);
        let mut next = u64::from(next);
        let mut l1 = vec![0; needed.div_ceil(L2_ENTRIES).max(1)];
        for (pointer, places) in l1.iter_mut().zip(places.chunks(L2_ENTRIES)) {
            if places.iter().any(|place| *place != 0) {
                let table = places.iter().map(|place| match place {
                    0 => 0,
                    place => entry(u64::from(*place)),
                });
                self.write_table(next, table)?;
                *pointer = entry(next);
                next += 1;
            }
        }
        let header = Header::after(next, size_bytes, clamp_u32(l1.len()));
        self.write_table(header.l1, l1.into_iter())?;
        self.write_refcounts(&header)?;
        self.file
            .write_at(0, &header.bytes(self.backing.as_ref()))?;
        let kept = self.file.keep(header.end * CLUSTER);
        kept.map_err(|error| crate::Error::File {
            path: self.file.describe(),
            error,
        })
    }

    /// Writes big-endian words from a cluster on.
    fn write_table(&self, cluster: u64, words: impl Iterator<Item = u64>) -> Result<(), Error> {
        let bytes: Vec<u8> = words.flat_map(u64::to_be_bytes).collect();
        self.file.write_at(cluster * CLUSTER, &bytes)
    }

    /// Every cluster of the file has one reference.
    fn write_refcounts(&self, header: &Header) -> Result<(), Error> {
        let blocks = header.refcounts..header.refcount_table;
        let ones = 1u16.to_be_bytes().repeat(clamp_usize(REFCOUNTS));
        let mut left = header.end;
        for block in blocks.clone() {
            let count = left.min(REFCOUNTS);
            let bytes = &ones[..clamp_usize(count * 2)];
            self.file.write_at(block * CLUSTER, bytes)?;
            left -= count;
        }
        let table = blocks.map(|block| block * CLUSTER);
        self.write_table(header.refcount_table, table)
    }
}

/// Places of the tables, as clusters of the file.
struct Header {
    size_bytes: u64,
    l1: u64,
    l1_entries: u32,
    refcounts: u64,
    refcount_table: u64,
    end: u64,
}

impl Header {
    /// Tables from cluster `next` on.
    fn after(next: u64, size_bytes: u64, l1_entries: u32) -> Header {
        let refcounts = next + (u64::from(l1_entries) * ENTRY).div_ceil(CLUSTER);
        // Blocks and their table count themselves.
        let (mut blocks, mut table) = (1, 1);
        loop {
            let end = refcounts + blocks + table;
            let needed = end.div_ceil(REFCOUNTS);
            let needed = (needed, (needed * ENTRY).div_ceil(CLUSTER));
            if needed == (blocks, table) {
                break;
            }
            (blocks, table) = needed;
        }
        Header {
            size_bytes,
            l1: next,
            l1_entries,
            refcounts,
            refcount_table: refcounts + blocks,
            end: refcounts + blocks + table,
        }
    }

    /// The header, its extensions, an end of those, which is zero, and the name of the backing
    /// file.
    fn bytes(&self, backing: Option<&Backing>) -> Vec<u8> {
        let mut extensions = Vec::new();
        if let Some(backing) = backing {
            let format: &[u8] = match backing.format {
                Format::Qcow2 => b"qcow2",
                Format::Raw | Format::AndroidSparse => b"raw",
            };
            extensions.extend(BACKING_FORMAT.to_be_bytes());
            extensions.extend(clamp_u32(format.len()).to_be_bytes());
            extensions.extend(format);
            extensions.resize(extensions.len().next_multiple_of(8), 0);
        }
        extensions.extend([0; 8]);
        let name = backing.map_or("", |backing| &backing.name);
        let name_at = match backing {
            Some(_) => u64::from(HEADER_BYTES) + u64_of(extensions.len()),
            None => 0,
        };
        let mut bytes = b"QFI\xFB".to_vec();
        let word = |bytes: &mut Vec<u8>, word: u32| bytes.extend(word.to_be_bytes());
        let long = |bytes: &mut Vec<u8>, long: u64| bytes.extend(long.to_be_bytes());
        word(&mut bytes, VERSION);
        long(&mut bytes, name_at);
        word(&mut bytes, clamp_u32(name.len()));
        word(&mut bytes, CLUSTER_BITS);
        long(&mut bytes, self.size_bytes);
        word(&mut bytes, 0); // not encrypted
        word(&mut bytes, self.l1_entries);
        long(&mut bytes, self.l1 * CLUSTER);
        long(&mut bytes, self.refcount_table * CLUSTER);
        word(&mut bytes, clamp_u32(self.end - self.refcount_table));
        word(&mut bytes, 0); // no snapshots
        long(&mut bytes, 0);
        bytes.extend([0; 24]); // no feature bits
        word(&mut bytes, REFCOUNT_ORDER);
        word(&mut bytes, HEADER_BYTES);
        bytes.extend(extensions);
        bytes.extend(name.as_bytes());
        bytes
    }
}

impl BlockDevice for Qcow2 {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let pieces = {
            let mut clusters = self.clusters.lock();
            clusters.pieces(offset, buf.len(), |clusters, nr| clusters.lookup(nr))
        };
        for piece in pieces {
            let part = &mut buf[piece.range];
            match piece.at {
                Some(at) => self.file.read_at(at, part)?,
                None => part.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        // The rest of a cluster would be zero, and not as it is in the backing file.
        let is_whole = offset.is_multiple_of(CLUSTER) && u64_of(buf.len()).is_multiple_of(CLUSTER);
        assert!(self.backing.is_none() || is_whole, "a part of a cluster");
        let pieces = {
            let mut clusters = self.clusters.lock();
            clusters.pieces(offset, buf.len(), Clusters::allocate)
        };
        for piece in pieces {
            if let Some(at) = piece.at {
                self.file.write_at(at, &buf[piece.range])?;
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(()) // the file has no name yet; `keep` syncs it before it gets one
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn forget_cache(&self) {
        self.file.forget_cache();
    }
    fn describe(&self) -> String {
        self.file.describe()
    }
}
