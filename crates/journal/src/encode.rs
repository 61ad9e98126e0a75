//! A closed transaction as the blocks that go to the log.

use crate::commit::Closed;
use crate::parallel::stretches;
use crate::{Error, Image};
use uext4_format::jbd2::{DescriptorWriter, Layout, RevokeWriter, escape, is_escaped_image};
use uext4_format::{BlockNr, Tid};

/// One block of the log.
pub(crate) enum LogBlock {
    /// Descriptor, revoke block, or an escaped image.
    Own(Vec<u8>),
    /// An image as it is.
    Shared(Image),
}

impl LogBlock {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            LogBlock::Own(bytes) => bytes,
            LogBlock::Shared(image) => image,
        }
    }
}

/// Images whose checksums are worth a thread of their own.
const IMAGES_PER_THREAD: usize = 1024;

/// Everything of a transaction in the order of the log, by up to `threads` threads; the last block
/// is zeros in place of its commit block.
///
/// All of a commit block but its first sector is zero. Once these zeros are durable, a commit block
/// that is cut short is none or a whole one; over what the log held before, e2fsck and Linux would
/// take it for corruption.
///
/// # Errors
/// [`Error::Panicked`].
pub(crate) fn encode(
    layout: &Layout,
    uuid: &[u8; 16],
    closed: &Closed,
    threads: usize,
) -> Result<Vec<LogBlock>, Error> {
    let mut out = Vec::with_capacity(closed.images.len() + 3);
    for some in closed.revokes.chunks(RevokeWriter::capacity(layout)) {
        let mut writer = RevokeWriter::new(layout, closed.tid);
        let all_fit = some.iter().all(|block| writer.push(*block));
        assert!(all_fit, "a chunk has the capacity of a revoke block");
        out.push(LogBlock::Own(writer.finish()));
    }
    let per_descriptor = layout.tags_per_descriptor();
    let described: Vec<_> = closed.images.chunks(per_descriptor).collect();
    let least = IMAGES_PER_THREAD.div_ceil(per_descriptor);
    let encode = |_: usize, described: &[&[(BlockNr, Image)]]| {
        let mut out = Vec::new();
        for some in described {
            encode_images(layout, uuid, closed.tid, some, &mut out);
        }
        out
    };
    for part in stretches(threads, least, &described, encode)? {
        out.extend(part);
    }
    out.push(LogBlock::Own(vec![0; layout.block_size]));
    Ok(out)
}

fn encode_images(
    layout: &Layout,
    uuid: &[u8; 16],
    tid: Tid,
    images: &[(BlockNr, Image)],
    out: &mut Vec<LogBlock>,
) {
    let mut writer = DescriptorWriter::new(layout, tid);
    let stored: Vec<LogBlock> = images.iter().map(|(_, image)| stored_form(image)).collect();
    for ((block, image), stored) in images.iter().zip(&stored) {
        let fits = writer.push(*block, stored.bytes(), is_escaped_image(image), uuid);
        assert!(fits, "a chunk has the capacity of a descriptor block");
    }
    out.push(LogBlock::Own(writer.finish()));
    out.extend(stored);
}

fn stored_form(image: &Image) -> LogBlock {
    if !is_escaped_image(image) {
        return LogBlock::Shared(image.clone());
    }
    let mut bytes = image.to_vec();
    escape(&mut bytes);
    LogBlock::Own(bytes)
}
