//! The lock order of the whole engine, outermost first.
//!
//! Invariants: a thread that holds a lock of rank R takes only locks of a rank greater than R.
//! Two locks of one rank are taken only through the ordered acquisitions ([`crate::RwLock`] docs),
//! in ascending order of their object's number. A handle start may wait for a commit, so
//! [`Rank::Handle`] precedes every lock that a commit needs (`InodeState` and below).

/// Place of a lock in the one global order. A smaller value is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// Mount, remount, freeze, growth and unmount.
    Mount,
    /// Moves of directories between parents (cycle check); one per file system.
    Rename,
    /// Deferred freeing of objects; one thread at a time.
    Sweep,
    /// The right to split one leaf of a directory.
    LeafSplit,
    /// Structure of one directory: shared to change entries, exclusive to change its blocks.
    DirIndex,
    /// Data of one file: shared to read, exclusive to write or change the size.
    InodeIo,
    /// Allocation of the entry of a new owner in a quota file.
    QuotaPlacing,
    /// Not a lock: a handle is being started (may wait for a commit).
    Handle,
    /// One commit at a time; taken with no handle open, held over rendering (takes live objects).
    JournalCommit,
    /// Membership of the legacy orphan list.
    OrphanList,
    /// Extended attribute block sharing (the block cache by hash).
    XattrCache,
    /// State of one inode (a live object).
    InodeState,
    /// Bytes of one metadata block (a live object).
    MetaBlock,
    /// Inode bitmap half of one group (a live object).
    GroupInodes,
    /// On-disk block bitmap half of one group (a live object).
    GroupBitmap,
    /// Files that hold preallocated space, one shard of the list.
    PreallocatedFiles,
    /// Preallocated space of one file or of one shard of threads.
    Preallocation,
    /// In-memory free space of one group or flexible group.
    GroupSpace,
    /// Last rendered descriptor of one group.
    GroupDesc,
    /// Extents freed and not yet committed.
    PendingFree,
    /// Owners charged recently by the threads of one shard.
    QuotaShard,
    /// Tree of one quota file (a live object).
    QuotaFile,
    /// Reservations of one owner with limits, not charged yet.
    QuotaClaims,
    /// Usage and limits of one owner (a live object).
    QuotaOwner,
    /// Superblock state (a live object).
    Superblock,
    /// Objects logged to a transaction, one list per shard.
    JournalObjects,
    /// Images rendered for the committing transaction, one list per shard.
    JournalRendered,
    /// One checkpoint pass at a time, and the journal superblock; held across device writes.
    JournalTail,
    /// Home writes in flight; held across device writes.
    CheckpointBatch,
    /// Running and committing transaction, log head and tail.
    JournalState,
    /// Checkpoint queue and images that wait for their home write.
    Checkpoint,
    /// Extent status of one file.
    ExtentStatus,
    /// One shard of the inode, name or block cache.
    CacheShard,
    /// Queues of small work (reclaim, statistics).
    Queue,
    /// The claim of a mount on its file system (MMP); held across accesses to the device.
    Claim,
    /// The file of a device that records what is overwritten; held across accesses to the device.
    UndoFile,
    /// Locks inside a device; innermost.
    Device,
}

impl Rank {
    /// Every rank, outermost first.
    pub const ALL: [Self; 37] = [
        Self::Mount,
        Self::Rename,
        Self::Sweep,
        Self::LeafSplit,
        Self::DirIndex,
        Self::InodeIo,
        Self::QuotaPlacing,
        Self::Handle,
        Self::JournalCommit,
        Self::OrphanList,
        Self::XattrCache,
        Self::InodeState,
        Self::MetaBlock,
        Self::GroupInodes,
        Self::GroupBitmap,
        Self::PreallocatedFiles,
        Self::Preallocation,
        Self::GroupSpace,
        Self::GroupDesc,
        Self::PendingFree,
        Self::QuotaShard,
        Self::QuotaFile,
        Self::QuotaClaims,
        Self::QuotaOwner,
        Self::Superblock,
        Self::JournalObjects,
        Self::JournalRendered,
        Self::JournalTail,
        Self::CheckpointBatch,
        Self::JournalState,
        Self::Checkpoint,
        Self::ExtentStatus,
        Self::CacheShard,
        Self::Queue,
        Self::Claim,
        Self::UndoFile,
        Self::Device,
    ];

    /// True when no thread may do I/O while it holds a lock of this rank: many threads need these
    /// for a moment, and none should wait for a device because of another.
    pub const fn forbids_io(self) -> bool {
        matches!(
            self,
            Self::PreallocatedFiles
                | Self::Preallocation
                | Self::GroupSpace
                | Self::GroupDesc
                | Self::PendingFree
                | Self::JournalObjects
                | Self::JournalRendered
                | Self::ExtentStatus
                | Self::CacheShard
                | Self::Queue
        )
    }

    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

// `Rank::ALL` indexes by discriminant and leaves none out.
const _: () = {
    assert!(Rank::ALL.len() == Rank::Device.index() + 1);
    let mut i = 0;
    while i < Rank::ALL.len() {
        assert!(Rank::ALL[i].index() == i);
        i += 1;
    }
};
