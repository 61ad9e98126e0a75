//! Joins neighbouring blocks of metadata into large writes.

use std::sync::Arc;

use uext4_device::Error;
use uext4_format::BlockNr;
use uext4_num::u64_of;

use crate::content::output::{Output, Write};

/// Bytes of metadata that are written together.
const GATHER_BYTES: usize = 1 << 20;

/// Gathers neighbouring blocks, so that writes are large.
pub(crate) struct Gather {
    block_bits: u32,
    at: u64,
    bytes: Vec<u8>,
}

impl Gather {
    pub(crate) fn new(block_bits: u32) -> Gather {
        Gather {
            block_bits,
            at: 0,
            bytes: Vec::new(),
        }
    }

    /// Adds a block. Writes the blocks before it if it does not follow them, or if they are many.
    pub(crate) fn append(
        &mut self,
        nr: BlockNr,
        block: &[u8],
        output: &mut Output,
    ) -> Result<(), Error> {
        let at = nr.0 << self.block_bits;
        if self.at + u64_of(self.bytes.len()) != at || self.bytes.len() >= GATHER_BYTES {
            self.finish(output)?;
            self.at = at;
        }
        self.bytes.extend_from_slice(block);
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(&mut self, output: &mut Output) -> Result<(), Error> {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        let whole = 0..bytes.len();
        output.write(Write {
            at: self.at,
            bytes: Arc::new(bytes),
            ranges: vec![whole],
        })
    }
}
