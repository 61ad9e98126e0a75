//! Blocks that one transaction changes.

use std::collections::BTreeMap;
use uext4_format::BlockNr;
use uext4_num::u64_of;
use uext4_volume::Result;
use uext4_volume::Volume;

/// Changed blocks below the old end; those behind it are written at once.
pub(crate) struct Changes<'a> {
    volume: &'a Volume,
    blocks: BTreeMap<BlockNr, Vec<u8>>,
}

impl<'a> Changes<'a> {
    pub(crate) fn new(volume: &'a Volume) -> Self {
        Self {
            volume,
            blocks: BTreeMap::new(),
        }
    }

    /// The block as it will be.
    pub(crate) fn get(&self, nr: BlockNr) -> Result<Vec<u8>> {
        match self.blocks.get(&nr) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.volume.read(nr),
        }
    }

    pub(crate) fn has(&self, nr: BlockNr) -> bool {
        self.blocks.contains_key(&nr)
    }

    pub(crate) fn put(&mut self, nr: BlockNr, bytes: Vec<u8>) -> Result<()> {
        if nr.0 >= self.volume.geometry().blocks_count {
            return self.volume.write(nr, &bytes);
        }
        self.blocks.insert(nr, bytes);
        Ok(())
    }

    /// How many blocks change.
    pub(crate) fn len(&self) -> u64 {
        u64_of(self.blocks.len())
    }

    pub(crate) fn into_blocks(self) -> BTreeMap<BlockNr, Vec<u8>> {
        self.blocks
    }
}
