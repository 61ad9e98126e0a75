//! Where in an image the file system is: `--offset`, `--partition`, and the same as mount options.

use crate::failure::{Failure, Result};
use std::path::Path;
use uext4::device::{self, BlockDevice, FileDevice, partition};
use uext4_sync::Arc;

/// Where in an image the file system is.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Location {
    /// Start of the file system in the image, in bytes or with suffix K, M, G or T
    #[arg(long, value_name = "BYTES", help_heading = "Image", value_parser = crate::numbers::size)]
    pub(crate) offset: Option<u64>,
    /// Partition of the disk image (GPT or MBR) with the file system, counted from 1
    #[arg(
        long,
        value_name = "N",
        help_heading = "Image",
        conflicts_with = "offset"
    )]
    pub(crate) partition: Option<u32>,
}

/// A mount option: name, placeholder of its value in help, purpose, setter.
type Word = (
    &'static str,
    &'static str,
    &'static str,
    fn(&mut Location, &str) -> std::result::Result<(), String>,
);

const WORDS: [Word; 2] = [
    (
        "offset",
        "BYTES",
        "start of the file system in the image; with suffix K, M, G or T",
        |place, value| {
            place.offset = Some(crate::numbers::size(value)?);
            Ok(())
        },
    ),
    (
        "partition",
        "N",
        "partition of the disk image (GPT or MBR), counted from 1",
        |place, value| {
            let number = value.parse().map_err(|_| "not a number".to_owned())?;
            place.partition = Some(number);
            Ok(())
        },
    ),
];

impl Location {
    /// Name, placeholder and purpose of the options that [`Self::take`] accepts.
    pub(crate) fn words() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        WORDS
            .iter()
            .map(|(name, value, about, _)| (*name, *value, *about))
    }

    /// Removes `offset=` and `partition=` from a list of mount options and returns the rest.
    pub(crate) fn take(&mut self, list: &str) -> Result<String> {
        let mut rest = Vec::new();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let named = word.split_once('=').and_then(|(name, value)| {
                let known = WORDS.iter().find(|(known, ..)| *known == name)?;
                Some((known.3, value))
            });
            match named {
                Some((set, value)) => set(self, value)
                    .map_err(|problem| Failure::usage(format!("-o {word}: {problem}")))?,
                None => rest.push(word),
            }
        }
        match self {
            Self {
                offset: Some(_),
                partition: Some(_),
            } => Err(Failure::usage("offset= and partition= cannot both be")),
            _ => Ok(rest.join(",")),
        }
    }

    /// True if the file system is only a part of the file.
    pub(crate) fn is_part(&self) -> bool {
        self.offset.is_some() || self.partition.is_some()
    }

    /// Opens the file or the selected part of it. What `--offset` names ends where its partition
    /// does.
    pub(crate) fn open(
        &self,
        path: &Path,
        access: device::Access,
    ) -> std::result::Result<Arc<dyn BlockDevice>, device::Error> {
        self.open_up_to(path, access, room)
    }

    /// As [`Self::open`], but a file system that ends behind its partition is there up to its end:
    /// for checks, and to make it smaller. Its size is the word of what is in the partition; by it
    /// a mount would read and write the next partition.
    pub(crate) fn open_whole(
        &self,
        path: &Path,
        access: device::Access,
    ) -> std::result::Result<Arc<dyn BlockDevice>, device::Error> {
        self.open_up_to(path, access, |path, offset| {
            let bytes = room(path, offset)?;
            Some(bytes.max(claimed(path, offset)))
        })
    }

    fn open_up_to(
        &self,
        path: &Path,
        access: device::Access,
        len: impl FnOnce(&Path, u64) -> Option<u64>,
    ) -> std::result::Result<Arc<dyn BlockDevice>, device::Error> {
        let offset = self.offset.unwrap_or(0);
        let len = self.offset.and_then(|offset| len(path, offset));
        let file: Arc<dyn BlockDevice> =
            Arc::new(FileDevice::open_window(path, access, offset, len)?);
        match self.partition {
            Some(number) => Ok(Arc::new(partition::open(file, number)?)),
            None => Ok(file),
        }
    }
}

/// Bytes from `offset` on that belong to its partition, so that a growth ends there. `None` up to
/// the end of the file; also where the table is damaged, since `--offset` is the way to read the
/// disk then.
fn room(path: &Path, offset: u64) -> Option<u64> {
    let whole = FileDevice::open(path, device::Access::ReadOnly).ok()?;
    let (bytes, _) = partition::room_behind(&whole, offset).ok()??;
    let rest = whole.size_bytes().saturating_sub(offset);
    (bytes <= rest).then_some(bytes)
}

/// Bytes of the file system at `offset` by its superblock, as far as the file goes; 0 without one.
fn claimed(path: &Path, offset: u64) -> u64 {
    let window = FileDevice::open_window(path, device::Access::ReadOnly, offset, None);
    window
        .ok()
        .and_then(|window| {
            let superblock = uext4::read_superblock(&window, None).ok()?;
            let size_bytes = superblock.geometry().ok()?.size_bytes();
            Some(size_bytes.min(window.size_bytes()))
        })
        .unwrap_or(0)
}
