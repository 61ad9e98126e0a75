//! Quota files: initial usage of a new file system.
//!
//! Layout (version 2, revision 1): blocks of 1 KiB. Block 0 holds header and grace times, block 1
//! the root of a tree of four levels, each indexed by one byte of the identifier, highest first;
//! the lowest level points to blocks of entries. A new file system charges at most two owners, so
//! one block of entries is enough.
//!
//! References: kernel doc `filesystems/quota.rst`, man page quota formats of e2fsprogs.

use uext4_format::bytes::{get_u32, put_u16, put_u32, put_u64};

/// Bytes of a block of the quota file.
const BLOCK_BYTES: usize = 1024;
/// Bytes before the entries of a block of entries.
const ENTRIES_AT: usize = 16;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 72;
/// Grace time of soft limits in seconds.
const GRACE_SECONDS: u32 = 7 * 24 * 3600;

/// Kind of owners of a quota file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaKind {
    User,
    Group,
    Project,
}

impl QuotaKind {
    fn magic(self) -> u32 {
        match self {
            QuotaKind::User => 0xD9C0_1F11,
            QuotaKind::Group => 0xD9C0_1927,
            QuotaKind::Project => 0xD9C0_3F14,
        }
    }
}

/// Usage of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) id: u32,
    pub(super) inodes: u64,
    pub(super) bytes: u64,
}

/// Adds a file to the usage of its owner.
pub(super) fn charge(usages: &mut Vec<Usage>, id: u32, bytes: u64) {
    match usages.iter_mut().find(|usage| usage.id == id) {
        Some(usage) => {
            usage.inodes += 1;
            usage.bytes += bytes;
        }
        None => usages.push(Usage {
            id,
            inodes: 1,
            bytes,
        }),
    }
}

/// The contents of a quota file; at most 14 owners fit.
pub(super) fn render(kind: QuotaKind, usages: &[Usage]) -> Vec<u8> {
    assert!(
        usages.len() <= (BLOCK_BYTES - ENTRIES_AT) / ENTRY_BYTES,
        "one block of entries"
    );
    let mut file = QuotaFile {
        bytes: vec![0; 2 * BLOCK_BYTES],
        entries: None,
    };
    for (at, usage) in usages.iter().enumerate() {
        file.add(at, usage);
    }
    put_u32(&mut file.bytes, 0, kind.magic());
    put_u32(&mut file.bytes, 4, 1);
    put_u32(&mut file.bytes, 8, GRACE_SECONDS);
    put_u32(&mut file.bytes, 12, GRACE_SECONDS);
    let blocks = file.blocks();
    put_u32(&mut file.bytes, 20, blocks);
    put_u32(&mut file.bytes, 28, file.entries.unwrap_or(0));
    file.bytes
}

struct QuotaFile {
    bytes: Vec<u8>,
    /// The block of entries.
    entries: Option<u32>,
}

impl QuotaFile {
    fn blocks(&self) -> u32 {
        (self.bytes.len() / BLOCK_BYTES) as u32
    }

    fn grow(&mut self) -> u32 {
        let block = self.blocks();
        self.bytes.resize(self.bytes.len() + BLOCK_BYTES, 0);
        block
    }

    fn add(&mut self, at: usize, usage: &Usage) {
        let [first, second, third, last] = usage.id.to_be_bytes();
        let mut node = 1;
        for byte in [first, second, third] {
            let slot = node as usize * BLOCK_BYTES + usize::from(byte) * 4;
            node = get_u32(&self.bytes, slot);
            if node == 0 {
                node = self.grow();
                put_u32(&mut self.bytes, slot, node);
            }
        }
        let entries = match self.entries {
            Some(entries) => entries,
            None => self.grow(),
        };
        self.entries = Some(entries);
        put_u32(
            &mut self.bytes,
            node as usize * BLOCK_BYTES + usize::from(last) * 4,
            entries,
        );
        let block = entries as usize * BLOCK_BYTES;
        put_u16(&mut self.bytes, block + 8, at as u16 + 1);
        let entry = block + ENTRIES_AT + at * ENTRY_BYTES;
        put_u32(&mut self.bytes, entry, usage.id);
        put_u64(&mut self.bytes, entry + 0x18, usage.inodes);
        put_u64(&mut self.bytes, entry + 0x30, usage.bytes);
    }
}
