//! The bytes of an image, with a log of the changes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Replaced bytes of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// First replaced byte of the image.
    pub offset_bytes: u64,
    /// The bytes that were there.
    pub before: Vec<u8>,
    /// The bytes that replace them.
    pub after: Vec<u8>,
}

pub(super) struct Image {
    file: File,
    changes: Vec<Change>,
}

impl Image {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        Ok(Self {
            file,
            changes: Vec::new(),
        })
    }

    pub(super) fn len_bytes(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(super) fn read(&self, offset_bytes: u64, len_bytes: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len_bytes];
        self.file
            .read_exact_at(&mut bytes, offset_bytes)
            .with_context(|| format!("read {len_bytes} bytes at {offset_bytes}"))?;
        Ok(bytes)
    }

    pub(super) fn u16(&self, offset_bytes: u64) -> Result<u16> {
        Ok(u16_at(&self.read(offset_bytes, 2)?, 0))
    }

    pub(super) fn u32(&self, offset_bytes: u64) -> Result<u32> {
        Ok(u32_at(&self.read(offset_bytes, 4)?, 0))
    }

    pub(super) fn write(&mut self, offset_bytes: u64, after: &[u8]) -> Result<()> {
        let before = self.read(offset_bytes, after.len())?;
        self.file.write_all_at(after, offset_bytes)?;
        self.changes.push(Change {
            offset_bytes,
            before,
            after: after.to_vec(),
        });
        Ok(())
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}

/// Little-endian number at `at`, 0 past the end.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    u16::from_le_bytes(two.unwrap_or_default())
}

/// Little-endian number at `at`, 0 past the end.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_le_bytes(four.unwrap_or_default())
}
