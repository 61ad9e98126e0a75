//! Sizes, holes and preallocation: the modes of `fallocate` that FUSE passes on.

use anyhow::{Result, ensure};
use rustix::fs::{self as sys, FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::{Files, SCALES};

impl Files {
    pub(super) fn resize(&mut self, at: usize) -> Result<()> {
        let scale = *self.rng.pick(&SCALES);
        let size = self.rng.below(scale as u64);
        let file = &mut self.files[at];
        file.open()?.buffered.set_len(size)?;
        file.bytes.resize(size as usize, 0);
        file.attributes.content_changed();
        Ok(())
    }

    pub(super) fn punch(&mut self, at: usize) -> Result<()> {
        let (from, len) = self.range();
        self.fallocate(
            at,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            from,
            len,
        )?;
        self.clear(at, from, len);
        Ok(())
    }

    pub(super) fn zero(&mut self, at: usize) -> Result<()> {
        let (from, len) = self.range();
        let keep = self.keep_size();
        self.fallocate(at, FallocateFlags::ZERO_RANGE | keep, from, len)?;
        self.clear(at, from, len);
        Ok(())
    }

    pub(super) fn allocate(&mut self, at: usize) -> Result<()> {
        let (from, len) = self.range();
        let keep = self.keep_size();
        self.fallocate(at, keep, from, len)
    }

    fn keep_size(&mut self) -> FallocateFlags {
        if self.rng.chance(50) {
            FallocateFlags::KEEP_SIZE
        } else {
            FallocateFlags::empty()
        }
    }

    fn fallocate(&mut self, at: usize, how: FallocateFlags, from: usize, len: usize) -> Result<()> {
        let file = &mut self.files[at];
        sys::fallocate(&file.open()?.buffered, how, from as u64, len as u64)?;
        if !how.contains(FallocateFlags::KEEP_SIZE) {
            file.grow(from + len);
        }
        file.attributes.content_changed();
        Ok(())
    }

    fn clear(&mut self, at: usize, from: usize, len: usize) {
        let bytes = &mut self.files[at].bytes;
        let end = bytes.len().min(from + len);
        bytes.get_mut(from..end).unwrap_or_default().fill(0);
    }

    /// Checks that a reported hole has no data.
    pub(super) fn seek(&mut self, at: usize) -> Result<()> {
        let from = self.range().0;
        let file = &mut self.files[at];
        let found = sys::seek(&file.open()?.buffered, SeekFrom::Data(from as u64));
        let size = file.bytes.len();
        let data = match found {
            Err(Errno::NXIO) => size,
            found => found? as usize,
        };
        ensure!(
            from >= size || (from..=size).contains(&data),
            "data from {from} on at {data}"
        );
        let hole = file.bytes.get(from..data).unwrap_or_default();
        let at = hole.iter().position(|byte| *byte != 0);
        ensure!(at.is_none(), "no data from {from} to {data}, but at {at:?}");
        if data < size {
            let hole = sys::seek(&file.open()?.buffered, SeekFrom::Hole(data as u64))? as usize;
            ensure!(
                hole > data && hole <= size,
                "a hole at {hole} after data at {data} of {size}"
            );
        }
        Ok(())
    }
}
