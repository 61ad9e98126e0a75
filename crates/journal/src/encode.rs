//! Encodes a closed transaction as log blocks.

use crate::closed::Closed;
use crate::parallel::by_parts;
use crate::{Error, Image};
use uext4_format::jbd2::{DescriptorWriter, Layout, RevokeWriter, escape, is_escaped_image};
use uext4_format::{BlockNr, Tid};

/// One block of the log.
pub(crate) enum LogBlock {
    /// Descriptor, revoke block, or an escaped image.
    Own(Vec<u8>),
    /// An image as it was logged, without a copy.
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

/// Fewest images per thread that computes checksums.
const IMAGES_PER_THREAD: usize = 1024;

/// The transaction's blocks in log order, computed by up to `threads` threads. The last block is
/// zero and holds the place of the commit block.
///
/// All sectors of a commit block but the first are zero. Once these zeros are durable, a torn write
/// of the commit block leaves either none or a whole one. Over older log contents a torn commit
/// block would count as corruption for e2fsck and Linux.
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
    let parts = by_parts(threads, least, &described, |_, described| {
        let mut out = Vec::new();
        for some in described {
            encode_images(layout, uuid, closed.tid, some, &mut out);
        }
        out
    })?;
    for part in parts {
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
