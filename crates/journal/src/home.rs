//! The file system's device in blocks, with coalesced reads and writes.

use crate::{Error, Image};
use uext4_device::BlockDevice;
use uext4_format::BlockNr;
use uext4_num::{u64_of, usize_of};
use uext4_sync::Arc;

/// Attempts of a read that a commit needs: a commit cannot skip the block without losing the
/// transaction.
const READS_MAX: u32 = 3;
/// Blocks in one access: large enough for sequential speed, small enough for the stack of buffers.
const MAX_ACCESS_BLOCKS: usize = 256;

/// A device addressed in blocks.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) block_size: u32,
    barrier: Barrier,
}

/// Flush barrier: a flush or a durable write counts only if none of the device failed since the
/// barrier was made.
#[derive(Clone)]
pub(crate) struct Barrier {
    failed_before: u64,
}

impl Barrier {
    pub(crate) fn new(device: &dyn BlockDevice) -> Self {
        let failed_before = device.failed_flushes();
        Self { failed_before }
    }

    /// Makes durable what was written since the barrier was made.
    ///
    /// # Errors
    /// The device's error, or [`Error::Lost`] after any failed flush.
    pub(crate) fn flush(&self, device: &dyn BlockDevice) -> Result<(), Error> {
        device.flush()?;
        self.check(device)
    }

    /// Writes bytes, durably; says nothing about earlier writes.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub(crate) fn write_durable(
        &self,
        device: &dyn BlockDevice,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        device.write_durable_at(offset, bytes)?;
        self.check(device)
    }

    fn check(&self, device: &dyn BlockDevice) -> Result<(), Error> {
        if device.failed_flushes() == self.failed_before {
            Ok(())
        } else {
            Err(Error::Lost)
        }
    }
}

impl Home {
    pub(crate) fn new(device: Arc<dyn BlockDevice>, block_size: u32) -> Self {
        let barrier = Barrier::new(&*device);
        Self {
            device,
            block_size,
            barrier,
        }
    }

    fn offset(&self, block: BlockNr) -> u64 {
        block.0.saturating_mul(u64::from(self.block_size))
    }

    pub(crate) fn read(&self, block: BlockNr) -> Result<Image, Error> {
        let mut image: Image = std::iter::repeat_n(0, usize_of(self.block_size)).collect();
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
        let at = self.offset(block).saturating_add(u64_of(offset));
        Ok(self.device.read_at(at, out)?)
    }

    /// Reads ascending blocks, neighbours in one access, and passes each to `take` with its index.
    /// A failed access is repeated.
    pub(crate) fn read_many(
        &self,
        blocks: &[BlockNr],
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), Error> {
        let (mut buf, mut places) = (Vec::new(), 0..);
        for run in runs(blocks, |block| *block) {
            buf.resize(run.len() * usize_of(self.block_size), 0);
            self.read_repeatedly(run[0], &mut buf)?;
            let found = buf.chunks_exact(usize_of(self.block_size));
            found
                .zip(&mut places)
                .for_each(|(bytes, at)| take(at, bytes));
        }
        Ok(())
    }

    fn read_repeatedly(&self, start: BlockNr, buf: &mut [u8]) -> Result<(), Error> {
        let mut reads = 1;
        loop {
            match self.device.read_at(self.offset(start), buf) {
                Err(_) if reads < READS_MAX => reads += 1,
                read => return Ok(read?),
            }
        }
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

    /// The barrier made when the journal was opened.
    pub(crate) fn barrier(&self) -> Barrier {
        self.barrier.clone()
    }

    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.barrier.flush(&*self.device)
    }
}

/// Cuts an ascending list into runs of neighbours.
fn runs<T>(list: &[T], block: impl Fn(&T) -> BlockNr) -> impl Iterator<Item = &[T]> {
    list.chunk_by(move |a, b| block(a).0.checked_add(1) == Some(block(b).0))
        .flat_map(|run| run.chunks(MAX_ACCESS_BLOCKS))
}
