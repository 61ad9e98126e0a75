//! The file system's device in blocks: coalesced reads and writes.

use crate::{Error, Image};
use std::sync::Arc;
use uext4_device::BlockDevice;
use uext4_format::BlockNr;

/// Blocks in one access: large enough for sequential speed, small enough for the stack of buffers.
const MAX_ACCESS_BLOCKS: usize = 256;

/// A device addressed in blocks.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) block_size: u32,
}

impl Home {
    fn offset(&self, block: BlockNr) -> u64 {
        block.0.saturating_mul(u64::from(self.block_size))
    }

    pub(crate) fn read(&self, block: BlockNr) -> Result<Image, Error> {
        let mut image: Image = std::iter::repeat_n(0, self.block_size as usize).collect();
        let out = Image::get_mut(&mut image).expect("just made, not shared");
        self.device.read_at(self.offset(block), out)?;
        Ok(image)
    }

    /// Reads from byte `offset` of a block on.
    pub(crate) fn read_part(
        &self,
        block: BlockNr,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let at = self.offset(block).saturating_add(offset as u64);
        Ok(self.device.read_at(at, out)?)
    }

    /// Reads ascending blocks, neighbours in one access, and hands out each with its place.
    pub(crate) fn read_many(
        &self,
        blocks: &[BlockNr],
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Error> {
        let (mut buf, mut places) = (Vec::new(), 0..);
        for run in runs(blocks, |block| *block) {
            buf.resize(run.len() * self.block_size as usize, 0);
            self.device.read_at(self.offset(run[0]), &mut buf)?;
            let found = buf.chunks_exact(self.block_size as usize);
            found
                .zip(&mut places)
                .for_each(|(bytes, at)| take(at, bytes));
        }
        Ok(())
    }

    /// Writes ascending blocks, neighbours in one access.
    pub(crate) fn write_many(&self, blocks: &[(BlockNr, Image)]) -> Result<(), Error> {
        for run in runs(blocks, |(block, _)| *block) {
            let bufs: Vec<&[u8]> = run.iter().map(|(_, image)| &image[..]).collect();
            self.device
                .write_vectored_at(self.offset(run[0].0), &bufs)?;
        }
        Ok(())
    }

    pub(crate) fn flush(&self) -> Result<(), Error> {
        Ok(self.device.flush()?)
    }
}

/// Cuts an ascending list into runs of neighbours.
fn runs<T>(list: &[T], block: impl Fn(&T) -> BlockNr) -> impl Iterator<Item = &[T]> {
    list.chunk_by(move |a, b| block(a).0.checked_add(1) == Some(block(b).0))
        .flat_map(|run| run.chunks(MAX_ACCESS_BLOCKS))
}
