//! Contents get their blocks and go to the device, batch by batch.
//!
//! Small files are gathered, so that writes are large.

use std::sync::Arc;

use uext4_format::{BlockNr, Geometry};
use uext4_num::{clamp_u32, u64_of, usize_of};

use crate::content::batch::Batch;
use crate::content::chunks::{digest, whole_clusters};
use crate::content::gather::Gather;
use crate::content::output::{Output, Write};
use crate::content::streams::Stream;
use crate::error::{Error, Result, shown};
use crate::layout::block_allocator::BlockAllocator;
use crate::layout::part::{PartRequest, PlacedRun};
use crate::progress::Reporter;
use crate::tree::arena::Tree;
use crate::tree::file::MappedRun;
use crate::tree::ids::FileId;

/// Allocates blocks for contents, and hands them to the output.
pub(crate) struct ContentWriter {
    pub(crate) allocator: BlockAllocator,
    pub(crate) output: Output,
    pub(crate) reporter: Reporter,
    gathered: Batch,
    block_bits: u32,
    cluster_blocks: u32,
}

impl ContentWriter {
    /// Writes to `output`, in blocks that `places` gives.
    pub(crate) fn new(
        allocator: BlockAllocator,
        output: Output,
        geometry: &Geometry,
    ) -> ContentWriter {
        ContentWriter {
            allocator,
            output,
            reporter: Reporter::new(),
            gathered: Batch::default(),
            block_bits: geometry.block_bits,
            cluster_blocks: 1 << geometry.cluster_bits,
        }
    }

    pub(crate) fn block_size(&self) -> u32 {
        1 << self.block_bits
    }

    /// Reads a stream to its end, and writes what is enough for a batch.
    pub(crate) fn write_stream(
        &mut self,
        tree: &mut Tree,
        path: &[u8],
        mut stream: Stream<'_>,
    ) -> Result<()> {
        let block_size = self.block_size();
        let chunks = stream.chunk_offsets();
        for (at, offset) in chunks.iter().enumerate() {
            let is_last = at + 1 == chunks.len();
            let read = stream.read(&mut self.gathered, *offset, block_size, is_last);
            read.map_err(|error| Error::Source {
                source_name: shown(path),
                error,
            })?;
            if self.gathered.is_full() {
                self.flush(tree)?;
            }
        }
        Ok(())
    }

    /// Writes the small files that were gathered.
    pub(crate) fn flush(&mut self, tree: &mut Tree) -> Result<()> {
        let next = Batch::with_buffer(self.output.spent().unwrap_or_default());
        let batch = std::mem::replace(&mut self.gathered, next);
        self.write_batch(tree, batch)
    }

    /// Allocates the blocks of a batch and hands it to the output.
    pub(crate) fn write_batch(&mut self, tree: &mut Tree, batch: Batch) -> Result<()> {
        let bits = self.block_bits;
        let Batch { bytes, parts, .. } = batch;
        let bytes = Arc::new(bytes);
        let mut write = Write {
            at: 0,
            bytes: bytes.clone(),
            ranges: Vec::new(),
        };
        let mut next = 0;
        for part in &parts {
            let file = tree.file_mut(part.file);
            if let Some(crc) = part.crc {
                file.digest = digest(file.digest, part.offset, crc);
            }
            let progress = &mut self.reporter.progress;
            progress.bytes += u64_of(part.range.len());
            progress.files += u64::from(part.is_last);
            if tree.is_inline(part.file) {
                if part.crc.is_some() {
                    let location = tree.keep(&bytes[part.range.clone()])?;
                    tree.file_mut(part.file).location = location;
                }
                continue;
            }
            let request = PartRequest {
                key: tree.keys.get(part.file),
                file_blocks: tree.file(part.file).size.div_ceil(1 << bits),
                first: clamp_u32(part.offset >> bits),
                blocks: clamp_u32(u64_of(part.range.len()).div_ceil(1 << bits)),
            };
            let start = clamp_u32(part.range.start >> bits);
            let data = whole_clusters(&part.data, self.cluster_blocks, request.blocks);
            for PlacedRun { at, run } in self.allocator.allocate(&request, &data)? {
                let mapped = MappedRun {
                    logical: request.first + at,
                    blocks: run.len_blocks,
                    start: run.start,
                };
                tree.append(part.file, mapped);
                if next != run.start.0 {
                    self.hand_over(&mut write, run.start.0 << bits)?;
                }
                let (from, to) = (start + at, start + at + run.len_blocks);
                write.push(usize_of(from) << bits..usize_of(to) << bits);
                next = run.start.0 + u64::from(run.len_blocks);
            }
        }
        self.hand_over(&mut write, 0)?;
        self.reporter.report()
    }

    /// Hands over what a write has, and begins the next one at an offset.
    fn hand_over(&mut self, write: &mut Write, at: u64) -> Result<()> {
        let bytes = write.bytes.clone();
        let done = std::mem::replace(
            write,
            Write {
                at,
                bytes,
                ranges: Vec::new(),
            },
        );
        if done.ranges.is_empty() {
            return Ok(());
        }
        Ok(self.output.write(done)?)
    }

    /// Places and writes all blocks of a file.
    pub(crate) fn write_blocks(
        &mut self,
        tree: &mut Tree,
        id: FileId,
        bytes: &[u8],
        gather: &mut Gather,
    ) -> Result<()> {
        let count = clamp_u32(bytes.len() >> self.block_bits);
        let mut left = bytes;
        for PlacedRun { at, run } in self.allocator.allocate_file(tree.keys.get(id), count)? {
            let mapped = MappedRun {
                logical: at,
                blocks: run.len_blocks,
                start: run.start,
            };
            tree.append(id, mapped);
            for nr in (run.start.0..).take(usize_of(run.len_blocks)) {
                let (block, rest) = left.split_at(1 << self.block_bits);
                gather.append(BlockNr(nr), block, &mut self.output)?;
                left = rest;
            }
        }
        Ok(())
    }
}
