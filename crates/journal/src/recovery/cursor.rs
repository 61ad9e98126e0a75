//! Cursor over the header blocks of a log (descriptor, revoke, commit); it skips images.

use crate::Error;
use crate::log_file::LogFile;
use uext4_format::Tid;
use uext4_format::jbd2::{BlockType, Header, Layout, Superblock, Tags};
use uext4_num::{clamp_u32, usize_of};

/// Blocks that one read of the log takes at most.
const WINDOW_BLOCKS: u32 = 64;

/// A header block of the log, with its position and contents.
pub(super) struct Found {
    pub(super) at: u32,
    pub(super) block_type: BlockType,
    pub(super) sequence: Tid,
    pub(super) bytes: Vec<u8>,
}

pub(super) struct Cursor<'a> {
    file: &'a LogFile,
    pub(super) layout: Layout,
    first: u32,
    end: u32,
    at: u32,
    /// The transaction that the next block must belong to.
    pub(super) expected: Tid,
    /// Blocks left to visit; ends the walk of a cyclic log.
    budget: u32,
    window: Vec<u8>,
    window_start: u32,
}

impl<'a> Cursor<'a> {
    /// A cursor at the tail of the log.
    pub(super) fn new(file: &'a LogFile, superblock: &Superblock) -> Self {
        let (first, end) = (superblock.first, superblock.end());
        Self {
            file,
            layout: superblock.layout(),
            first,
            end,
            at: superblock.start,
            expected: superblock.sequence,
            budget: end - first,
            window: Vec::new(),
            window_start: 0,
        }
    }

    /// Position of the next block.
    pub(super) fn position(&self) -> u32 {
        self.at
    }

    /// The next header block of the expected transaction; `None` at the end of the log.
    pub(super) fn next(&mut self) -> Result<Option<Found>, Error> {
        let Some(at) = self.step() else {
            return Ok(None);
        };
        let expected = self.expected;
        let bytes = self.read(at)?;
        let header = Header::parse(bytes).filter(|header| header.sequence == expected);
        let Some(Header {
            block_type,
            sequence,
        }) = header
        else {
            return Ok(None);
        };
        let bytes = bytes.to_vec();
        if block_type == BlockType::Commit {
            self.expected = self.expected.next();
        }
        Ok(Some(Found {
            at,
            block_type,
            sequence,
            bytes,
        }))
    }

    /// The position of the next block, moving past it; `None` when the log is used up.
    pub(super) fn step(&mut self) -> Option<u32> {
        self.budget = self.budget.checked_sub(1)?;
        let at = self.at;
        self.at = if at + 1 >= self.end {
            self.first
        } else {
            at + 1
        };
        Some(at)
    }

    /// Moves past the images of a descriptor; false when the log is used up.
    pub(super) fn skip_images(&mut self, descriptor: &Found) -> bool {
        Tags::new(&self.layout, &descriptor.bytes).all(|_| self.step().is_some())
    }

    /// Block `at` of the log, from the window or read with those after it.
    pub(super) fn read(&mut self, at: u32) -> Result<&[u8], Error> {
        let size = self.layout.block_size;
        let held = clamp_u32(self.window.len() / size);
        if at < self.window_start || at >= self.window_start + held {
            let blocks = WINDOW_BLOCKS.min(self.end - at);
            self.window.resize(usize_of(blocks) * size, 0);
            self.window_start = at;
            if let Err(error) = self.file.read(at, &mut self.window) {
                self.window.clear();
                return Err(error);
            }
        }
        let from = usize_of(at - self.window_start) * size;
        Ok(&self.window[from..from + size])
    }
}
