//! A closed transaction as the blocks that go to the log.

use crate::Image;
use crate::commit::Closed;
use uext4_format::BlockNr;
use uext4_format::jbd2::{DescriptorWriter, Layout, RevokeWriter, escape, is_escaped_image};

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

/// Everything of a transaction but its commit block, in the order of the log.
pub(crate) fn encode(layout: &Layout, uuid: &[u8; 16], closed: &Closed) -> Vec<LogBlock> {
    let mut out = Vec::with_capacity(closed.images.len() + 2);
    for some in closed.revokes.chunks(RevokeWriter::capacity(layout)) {
        let mut writer = RevokeWriter::new(layout, closed.tid);
        let all_fit = some.iter().all(|block| writer.push(*block));
        assert!(all_fit, "a chunk has the capacity of a revoke block");
        out.push(LogBlock::Own(writer.finish()));
    }
    for some in closed.images.chunks(layout.tags_per_descriptor()) {
        encode_images(layout, uuid, closed, some, &mut out);
    }
    out
}

fn encode_images(
    layout: &Layout,
    uuid: &[u8; 16],
    closed: &Closed,
    images: &[(BlockNr, Image)],
    out: &mut Vec<LogBlock>,
) {
    let mut writer = DescriptorWriter::new(layout, closed.tid);
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
