//! A device that keeps in an undo file what each write replaces.
//!
//! Locking: one lock for the file, held until what is recorded is durable, before the write.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use uext4_device::{Backing, BlockDevice, Claimant, Error};
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::undo_file::{
    BLOCK_BYTES, FIRST_KEY_BLOCK, Header, KEYS_PER_BLOCK, Key, SUPERBLOCK_BLOCK, SUPERBLOCK_MAGIC,
    checksum, encode_keys, key_of,
};
use uext4_num::{clamp_u32, clamp_usize, u64_of};
use uext4_sync::{Arc, Mutex, Rank};

/// Another device, whose replaced blocks are recorded.
pub struct UndoRecorder {
    device: Arc<dyn BlockDevice>,
    offset: u64,
    recorded: Mutex<Recorded>,
}

struct Recorded {
    file: File,
    blocks: BTreeSet<u64>,
    keys: Vec<Key>,
    key_block: u64,
    next_block: u64,
    n_keys: u64,
    /// What was written to the device is in the file.
    is_whole: bool,
}

impl UndoRecorder {
    /// Records changes of `device`, on which the file system begins at byte `offset` of the disk,
    /// in `file`, which is empty.
    pub fn new(device: Arc<dyn BlockDevice>, offset: u64, file: File) -> Self {
        let recorded = Recorded {
            file,
            blocks: BTreeSet::new(),
            keys: Vec::new(),
            key_block: FIRST_KEY_BLOCK,
            next_block: FIRST_KEY_BLOCK + 1,
            n_keys: 0,
            is_whole: true,
        };
        Self {
            device,
            offset,
            recorded: Mutex::new(Rank::UndoFile, recorded),
        }
    }

    /// Marks the file as complete.
    ///
    /// # Errors
    /// Those of the device and of the file.
    pub fn finish(&self) -> Result<(), Error> {
        let mut recorded = self.recorded.lock();
        recorded.check_whole()?;
        recorded.write_index(&*self.device, self.offset, true)
    }

    /// Records the blocks of a range that are not recorded yet.
    fn record(&self, offset: u64, len: u64) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        let unit = u64_of(BLOCK_BYTES);
        let mut recorded = self.recorded.lock();
        recorded.check_whole()?;
        // Until everything is recorded; an error on the way leaves it so.
        recorded.is_whole = false;
        let mut is_new = false;
        for block in offset / unit..=(offset + len - 1) / unit {
            if !recorded.blocks.contains(&block) {
                recorded.append(&*self.device, block)?;
                recorded.blocks.insert(block);
                is_new = true;
            }
        }
        if is_new {
            recorded.write_index(&*self.device, self.offset, false)?;
        }
        recorded.is_whole = true;
        Ok(())
    }
}

impl Recorded {
    /// Refuses to go on after an error of the file.
    fn check_whole(&self) -> Result<(), Error> {
        if self.is_whole {
            return Ok(());
        }
        let source = std::io::Error::other("an earlier write to it failed");
        Err(failed("write to the undo file", 0, 0, source))
    }

    fn append(&mut self, device: &dyn BlockDevice, block: u64) -> Result<(), Error> {
        let start = block * u64_of(BLOCK_BYTES);
        let len = device.size_bytes().saturating_sub(start);
        let mut bytes = vec![0; BLOCK_BYTES.min(clamp_usize(len))];
        device.read_at(start, &mut bytes)?;
        if self.keys.len() == KEYS_PER_BLOCK {
            self.write_keys()?;
            self.keys.clear();
            self.key_block = self.next_block;
            self.next_block += 1;
        }
        self.write(self.next_block, &bytes)?;
        self.keys.push(key_of(block, &bytes));
        self.next_block += 1;
        self.n_keys += 1;
        Ok(())
    }

    fn write(&self, block: u64, bytes: &[u8]) -> Result<(), Error> {
        let offset = block * u64_of(BLOCK_BYTES);
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|source| failed("write to the undo file", offset, bytes.len(), source))
    }

    fn write_keys(&self) -> Result<(), Error> {
        self.write(self.key_block, &encode_keys(&self.keys))
    }

    /// Makes what is recorded durable.
    fn write_index(
        &mut self,
        device: &dyn BlockDevice,
        offset: u64,
        is_finished: bool,
    ) -> Result<(), Error> {
        self.write_keys()?;
        let mut superblock = [0; SUPERBLOCK_BYTES];
        device.read_at(SUPERBLOCK_OFFSET, &mut superblock)?;
        let header = Header {
            n_keys: self.n_keys,
            superblock_block: SUPERBLOCK_BLOCK,
            first_key_block: FIRST_KEY_BLOCK,
            block_bytes: clamp_u32(BLOCK_BYTES),
            unit_bytes: clamp_u32(BLOCK_BYTES),
            superblock_checksum: checksum(&superblock),
            is_finished,
            offset,
        };
        superblock[SUPERBLOCK_MAGIC]
            .iter_mut()
            .for_each(|byte| *byte = !*byte);
        self.write(SUPERBLOCK_BLOCK, &superblock)?;
        self.write(0, &header.encode())?;
        let synced = self.file.sync_data();
        synced.map_err(|source| failed("flush of the undo file", 0, 0, source))
    }
}

fn failed(op: &'static str, offset: u64, len: usize, source: std::io::Error) -> Error {
    Error::Io {
        op,
        offset,
        len: u64_of(len),
        source: Arc::new(source),
    }
}

impl BlockDevice for UndoRecorder {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.device.read_at(offset, buf)
    }
    fn read_past_cache_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.device.read_past_cache_at(offset, buf)
    }
    fn backing(&self, _offset: u64, _len: u64) -> Option<Backing<'_>> {
        None
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.record(offset, u64_of(buf.len()))?;
        self.device.write_at(offset, buf)
    }
    fn write_past_cache_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.record(offset, u64_of(buf.len()))?;
        self.device.write_past_cache_at(offset, buf)
    }
    fn write_out(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.device.write_out(offset, len)
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.record(offset, len)?;
        self.device.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.record(offset, len)?;
        self.device.write_zeroes(offset, len)
    }
    fn flush(&self) -> Result<(), Error> {
        self.device.flush()
    }
    fn forget_cache(&self) {
        self.device.forget_cache();
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        self.device.read_ahead(offset, len);
    }
    fn is_rotational(&self) -> bool {
        self.device.is_rotational()
    }
    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }
    fn is_private(&self) -> bool {
        self.device.is_private()
    }
    fn claim_for(&self, claimant: Claimant) -> Result<(), Error> {
        self.device.claim_for(claimant)
    }
    fn release(&self) {
        self.device.release();
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
}
