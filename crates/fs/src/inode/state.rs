//! The live state of an inode and how it becomes bytes.

use uext4_format::{BlockNr, Inode as DiskInode, InodeFormat, InodeNr};
use uext4_journal::{Render, Sink};
use uext4_sync::Rank;

/// Inodes up to this size are rendered on the stack.
const STACK_BYTES: usize = 512;

/// What an inode is now. `disk` holds every on-disk field; unknown bytes are kept in it.
pub struct InodeState {
    pub(crate) disk: DiskInode,
    nr: InodeNr,
    block: BlockNr,
    offset_bytes: usize,
    format: InodeFormat,
}

impl InodeState {
    pub(crate) fn new(
        nr: InodeNr,
        disk: DiskInode,
        place: (BlockNr, usize),
        format: InodeFormat,
    ) -> Self {
        Self { disk, nr, block: place.0, offset_bytes: place.1, format }
    }

    /// Seed of all checksums that belong to this inode's metadata blocks.
    pub(crate) fn seed(&self) -> u32 {
        self.format.seed.inode_seed(self.nr, self.disk.generation)
    }
}

impl Render for InodeState {
    const RANK: Rank = Rank::InodeState;

    fn render(&mut self, out: &mut Sink<'_>) {
        let size = self.format.inode_size;
        if size <= STACK_BYTES {
            let mut buf = [0u8; STACK_BYTES];
            self.disk.write_to(&mut buf[..size], self.nr, &self.format);
            out.patch(self.block, self.offset_bytes, &buf[..size]);
        } else {
            let mut buf = vec![0u8; size];
            self.disk.write_to(&mut buf, self.nr, &self.format);
            out.patch(self.block, self.offset_bytes, &buf);
        }
    }
}
