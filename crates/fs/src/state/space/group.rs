//! One block group: two live halves that share one descriptor.
//!
//! Layout: the *block half* owns the block bitmap, the count of free clusters and `BLOCK_UNINIT`;
//! the *inode half* owns the inode bitmap, the counts of free inodes, directories and unused table
//! entries, `INODE_UNINIT` and `INODE_ZEROED`. Each half renders its bitmap and then the
//! descriptor, with the other half's fields as last rendered.
//!
//! Concurrent creates in one group change atomics beside the inode half (`InodeMap`): inode bits
//! and the count of directories. A writer logs the half first ([`Handle::touch`]), and takes its
//! lock only to initialize more of the table. Rendering counts the free inodes.
//!
//! Invariants: `set bits = clusters - free` in the block half, likewise for inodes when they are
//! loaded (`load` checks). Patches of one descriptor are emitted under its lock, so the last one
//! contains both halves.
//! Locking: GroupInodes, GroupBitmap, then GroupDesc while rendering.

use super::layout::GroupLayout;
use uext4_alloc::{Bitmap, InodeBits};
use uext4_format::{
    GroupDescriptor, GroupNr, block_bitmap_checksum, group_flag, inode_bitmap_checksum,
};
#[cfg(doc)]
use uext4_journal::Handle;
use uext4_journal::{Live, Object, Render, Sink};
use uext4_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use uext4_sync::{Arc, Mutex, OnceLock, Rank};

/// A group in memory: its block bitmap half and its inode bitmap half.
pub(crate) struct Group {
    pub(super) blocks: Arc<BlockHalf>,
    pub(super) inodes: Arc<InodeHalf>,
}

/// The descriptor as last rendered.
type Shared = Arc<Mutex<GroupDescriptor>>;

impl Group {
    pub(super) fn new(nr: GroupNr, layout: Arc<GroupLayout>, descriptor: GroupDescriptor) -> Self {
        let shared: Shared = Arc::new(Mutex::new(Rank::GroupDesc, descriptor.clone()));
        let blocks = BlockState {
            nr,
            layout: layout.clone(),
            shared: shared.clone(),
            used: None,
            free_clusters: descriptor.free_clusters,
            uninit: descriptor.has_flag(group_flag::BLOCK_UNINIT),
        };
        let map = Arc::new(InodeMap {
            bits: OnceLock::new(),
            unusable: AtomicBool::new(false),
            ready: AtomicU32::new(0),
            used_dirs: AtomicU32::new(descriptor.used_dirs),
        });
        let inodes = InodeState {
            nr,
            layout,
            shared,
            map: map.clone(),
            itable_unused: descriptor.itable_unused,
            flags: descriptor.flags,
        };
        Self {
            blocks: Arc::new(BlockHalf {
                live: Live::new(blocks),
            }),
            inodes: Arc::new(InodeHalf {
                live: Live::new(inodes),
                map,
            }),
        }
    }
}

/// The block half as an object, in its own cache lines.
#[repr(align(128))]
pub(super) struct BlockHalf {
    live: Live<BlockState>,
}

/// State of a block half.
pub(super) struct BlockState {
    nr: GroupNr,
    layout: Arc<GroupLayout>,
    shared: Shared,
    /// Clusters in use; read from disk on first use.
    pub(super) used: Option<Bitmap>,
    pub(super) free_clusters: u32,
    pub(super) uninit: bool,
}

impl Object for BlockHalf {
    type State = BlockState;
    fn live(&self) -> &Live<BlockState> {
        &self.live
    }
}

impl BlockState {
    /// Sets the bits of free clusters; the bitmap is loaded.
    pub(super) fn take(&mut self, from: u32, len: u32) {
        let used = self
            .used
            .as_mut()
            .expect("commit loads the bitmap before it takes bits");
        used.set_range(from..from + len);
        self.free_clusters -= len;
        self.uninit = false;
    }

    /// Clears the bits of used clusters; false, without a change, if some were not set.
    pub(super) fn give(&mut self, from: u32, len: u32) -> bool {
        let used = self
            .used
            .as_mut()
            .expect("free loads the bitmap before it clears bits");
        if !used.is_set(from..from + len) {
            return false;
        }
        used.clear_range(from..from + len);
        self.free_clusters += len;
        self.uninit = false;
        true
    }

    /// The descriptor as last rendered, for its block locations.
    pub(super) fn descriptor(&self) -> GroupDescriptor {
        self.shared.lock().clone()
    }

    /// Begins again with the blocks of a group that was changed on the device.
    pub(super) fn renew(&mut self, now: GroupDescriptor) {
        self.used = None;
        self.free_clusters = now.free_clusters;
        self.uninit = now.has_flag(group_flag::BLOCK_UNINIT);
        *self.shared.lock() = now;
    }
}

impl Render for BlockState {
    const RANK: Rank = Rank::GroupBitmap;

    fn render(&mut self, out: &mut Sink<'_>) {
        let layout = self.layout.clone();
        let bytes = self.used.as_ref().map(|used| layout.bitmap_bytes(used));
        let mut descriptor = self.shared.lock();
        descriptor.free_clusters = self.free_clusters;
        set_flag(&mut descriptor, group_flag::BLOCK_UNINIT, self.uninit);
        if let (Some(bytes), Some(seed)) = (&bytes, layout.checksums.metadata) {
            let sum = block_bitmap_checksum(seed, bytes, &layout.geometry);
            descriptor.set_block_bitmap_checksum(sum, &layout.geometry);
        }
        if let Some(bytes) = bytes.filter(|_| !self.uninit) {
            out.image(descriptor.block_bitmap, bytes.into());
        }
        layout.emit(self.nr, &descriptor, out);
    }
}

/// The inode half as an object, in its own cache lines.
#[repr(align(128))]
pub(super) struct InodeHalf {
    live: Live<InodeState>,
    pub(super) map: Arc<InodeMap>,
}

/// State that changes without the half's lock, after the half is logged.
#[repr(align(128))]
pub(super) struct InodeMap {
    /// Inodes in use; read from disk on first use.
    pub(super) bits: OnceLock<InodeBits>,
    /// The bitmap could not be read or is damaged: no inode is allocated here.
    pub(super) unusable: AtomicBool,
    /// Inodes below this index have an initialized table slot.
    pub(super) ready: AtomicU32,
    pub(super) used_dirs: AtomicU32,
}

/// State of an inode half.
pub(super) struct InodeState {
    nr: GroupNr,
    layout: Arc<GroupLayout>,
    shared: Shared,
    pub(super) map: Arc<InodeMap>,
    pub(super) itable_unused: u32,
    pub(super) flags: u16,
}

impl Object for InodeHalf {
    type State = InodeState;
    fn live(&self) -> &Live<InodeState> {
        &self.live
    }
}

impl InodeState {
    /// The descriptor as last rendered, for its block locations.
    pub(super) fn descriptor(&self) -> GroupDescriptor {
        self.shared.lock().clone()
    }

    /// True when a flag of [`group_flag`] is set.
    pub(super) fn has_flag(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Render for InodeState {
    const RANK: Rank = Rank::GroupInodes;

    fn render(&mut self, out: &mut Sink<'_>) {
        let layout = self.layout.clone();
        let used = self.map.bits.get().map(InodeBits::to_bitmap);
        let bytes = used.as_ref().map(|used| layout.bitmap_bytes(used));
        let mut descriptor = self.shared.lock();
        if let Some(used) = &used {
            descriptor.free_inodes = used.count_clear();
        }
        descriptor.used_dirs = self.map.used_dirs.load(Ordering::Acquire);
        descriptor.itable_unused = self.itable_unused;
        for flag in [group_flag::INODE_UNINIT, group_flag::INODE_ZEROED] {
            set_flag(&mut descriptor, flag, self.flags & flag != 0);
        }
        if let (Some(bytes), Some(seed)) = (&bytes, layout.checksums.metadata) {
            let sum = inode_bitmap_checksum(seed, bytes, &layout.geometry);
            descriptor.set_inode_bitmap_checksum(sum, &layout.geometry);
        }
        if let Some(bytes) = bytes.filter(|_| self.flags & group_flag::INODE_UNINIT == 0) {
            out.image(descriptor.inode_bitmap, bytes.into());
        }
        layout.emit(self.nr, &descriptor, out);
    }
}

fn set_flag(descriptor: &mut GroupDescriptor, flag: u16, on: bool) {
    descriptor.flags = if on {
        descriptor.flags | flag
    } else {
        descriptor.flags & !flag
    };
}
