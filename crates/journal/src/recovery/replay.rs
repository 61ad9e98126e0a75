//! Passes two and three: collect the revokes and the newest images, then write these home.

use super::cursor::{Cursor, Found};
use super::{Amend, RecoveryMode, RecoveryReport, corrupt};
use crate::home::Home;
use crate::log_file::LogFile;
use crate::{Error, Image};
use std::collections::{BTreeMap, HashMap};
use uext4_device::BlockDevice;
use uext4_format::jbd2::{BlockType, Revoked, Superblock, Tag, Tags, unescape};
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::{BlockNr, CorruptKind, Tid};
use uext4_num::{low_u32, u64_of, usize_of};
use uext4_sync::Arc;

/// Blocks per batch of reads and home writes.
const BATCH_BLOCKS: usize = 256;

/// Location of an image in the log.
#[derive(Clone, Copy)]
struct Stored {
    at: u32,
    escaped: bool,
}

pub(super) struct Replay<'a> {
    file: &'a LogFile,
    superblock: &'a Superblock,
    home: Home,
    home_blocks: u64,
    mode: RecoveryMode,
    /// The newest transaction that revoked each block.
    revokes: HashMap<BlockNr, Tid>,
    newest: BTreeMap<BlockNr, Stored>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        file: &'a LogFile,
        superblock: &'a Superblock,
        home: &Arc<dyn BlockDevice>,
        mode: RecoveryMode,
    ) -> Self {
        let block_size = superblock.block_size;
        Self {
            file,
            superblock,
            home_blocks: home.size_bytes() / u64::from(block_size),
            home: Home::new(Arc::clone(home), block_size),
            mode,
            revokes: HashMap::new(),
            newest: BTreeMap::new(),
        }
    }

    /// Collects the images to write home.
    pub(super) fn collect(&mut self, report: &mut RecoveryReport) -> Result<(), Error> {
        let mut cursor = Cursor::new(self.file, self.superblock);
        while let Some(found) = next_before(&mut cursor, report.end)? {
            match found.block_type {
                BlockType::Descriptor => _ = cursor.skip_images(&found),
                BlockType::Revoke => self.collect_revokes(&cursor, &found)?,
                _ => {}
            }
        }
        let mut cursor = Cursor::new(self.file, self.superblock);
        while let Some(found) = next_before(&mut cursor, report.end)? {
            if found.block_type == BlockType::Descriptor {
                self.collect_images(&mut cursor, &found, report)?;
            }
        }
        Ok(())
    }

    fn collect_revokes(&mut self, cursor: &Cursor<'_>, found: &Found) -> Result<(), Error> {
        let revoked = Revoked::parse(&cursor.layout, &found.bytes, found.at)?;
        for block in revoked.iter() {
            self.revokes.insert(block, found.sequence); // transactions come in ascending order
        }
        Ok(())
    }

    fn collect_images(
        &mut self,
        cursor: &mut Cursor<'_>,
        found: &Found,
        report: &mut RecoveryReport,
    ) -> Result<(), Error> {
        let layout = cursor.layout;
        for tag in Tags::new(&layout, &found.bytes) {
            let Some(at) = cursor.step() else { break };
            report.images += 1;
            if self.is_revoked(tag.block, found.sequence) {
                report.revoked += 1;
                continue;
            }
            let intact = tag.verify(&layout, found.sequence, cursor.read(at)?);
            self.collect_image(&tag, at, intact, report)?;
        }
        Ok(())
    }

    fn is_revoked(&self, block: BlockNr, sequence: Tid) -> bool {
        self.revokes
            .get(&block)
            .is_some_and(|revoked| !sequence.is_after(*revoked))
    }

    fn collect_image(
        &mut self,
        tag: &Tag,
        at: u32,
        intact: bool,
        report: &mut RecoveryReport,
    ) -> Result<(), Error> {
        let problem = if tag.block.0 >= self.home_blocks {
            Some(CorruptKind::HomeOutside { block: tag.block.0 })
        } else if !intact {
            Some(CorruptKind::BlockChecksum)
        } else {
            None
        };
        match problem {
            None => {
                _ = self.newest.insert(
                    tag.block,
                    Stored {
                        at,
                        escaped: tag.escaped,
                    },
                )
            }
            Some(_) if self.mode == RecoveryMode::Salvage => report.damaged += 1,
            Some(problem) => return Err(corrupt(at, "journalled image", problem)),
        }
        Ok(())
    }

    /// Writes the newest images home and flushes them. The superblock follows the others, unless
    /// the file system becomes smaller: it announces descriptors, which Linux reads before it
    /// replays, and the log is found by its sizes and checksums if this replay ends in a crash.
    pub(super) fn write_home(
        &self,
        report: &mut RecoveryReport,
        amend: Amend<'_>,
    ) -> Result<(), Error> {
        let newest: Vec<(BlockNr, Stored)> = self
            .newest
            .iter()
            .map(|(block, stored)| (*block, *stored))
            .collect();
        let superblock = SUPERBLOCK_OFFSET / u64::from(self.home.block_size);
        let (last, others): (Vec<_>, Vec<_>) = newest
            .iter()
            .copied()
            .partition(|(block, _)| block.0 == superblock);
        let goes_last = match last.first() {
            Some((block, stored)) => self.has_all_blocks(*block, *stored)?,
            None => false,
        };
        if !goes_last {
            return self.write_images(&newest, report, amend);
        }
        self.write_images(&others, report, amend)?;
        self.write_images(&last, report, amend)
    }

    /// Whether the superblock in the log has no fewer blocks than the one at home.
    fn has_all_blocks(&self, block: BlockNr, stored: Stored) -> Result<bool, Error> {
        let logged = self.load(block, stored, &|_, _| ())?;
        let there = self.home.read(block)?;
        Ok(blocks_count(&logged) >= blocks_count(&there))
    }

    fn write_images(
        &self,
        stored: &[(BlockNr, Stored)],
        report: &mut RecoveryReport,
        amend: Amend<'_>,
    ) -> Result<(), Error> {
        for batch in stored.chunks(BATCH_BLOCKS) {
            let images = batch
                .iter()
                .map(|(block, stored)| Ok((*block, self.load(*block, *stored, amend)?)))
                .collect::<Result<Vec<_>, Error>>()?;
            self.home.write_many(&images)?;
            report.written_blocks += u64_of(images.len());
        }
        self.home.flush()
    }

    fn load(&self, block: BlockNr, stored: Stored, amend: Amend<'_>) -> Result<Image, Error> {
        let mut bytes = vec![0; usize_of(self.home.block_size)];
        self.file.read(stored.at, &mut bytes)?;
        if stored.escaped {
            unescape(&mut bytes);
        }
        amend(block, &mut bytes);
        Ok(bytes.into())
    }
}

/// The number of blocks in the superblock that this block has; 0 if it has none.
fn blocks_count(block: &[u8]) -> u64 {
    let at = usize_of(low_u32(SUPERBLOCK_OFFSET)) % block.len();
    let bytes = block.get(at..at + SUPERBLOCK_BYTES);
    let found = bytes.and_then(|bytes| uext4_format::Superblock::parse_unverified(bytes).ok());
    found.map_or(0, |found| found.blocks_count)
}

/// The next header block of a transaction before `end`.
fn next_before(cursor: &mut Cursor<'_>, end: Tid) -> Result<Option<Found>, Error> {
    if cursor.expected == end {
        Ok(None)
    } else {
        cursor.next()
    }
}
