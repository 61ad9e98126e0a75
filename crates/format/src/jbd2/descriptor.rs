//! Descriptor blocks: the home blocks of the images that follow.
//!
//! Layout of a tag: block number (low 32 bits) at 0, then without checksums or with v2 a 16-bit
//! checksum at 4, flags at 6, high block bits at 8; with v3 32-bit flags at 4, high block bits at
//! 8, checksum at 12. The journal's UUID (16 bytes) follows a tag that lacks `SAME_UUID`.

use super::layout::{ChecksumKind, Layout};
use super::{BlockType, HEADER_BYTES, Header, MAGIC};
use crate::bytes::{
    get_u16_be, get_u32_be, join_u32, put_slice, put_u16_be, put_u32_be, rest, rest_mut, upto,
};
use crate::{BlockNr, Tid};
use uext4_num::{high_u32, low_u16, low_u32};

const ESCAPE: u16 = 1;
const SAME_UUID: u16 = 2;
const LAST_TAG: u16 = 8;
const UUID_BYTES: usize = 16;

/// One entry of a descriptor block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Block of the file system that the image belongs to.
    pub block: BlockNr,
    /// The image's first word was the magic and is stored as zero.
    pub escaped: bool,
    /// Checksum of the image as stored: 32 bits (v3), 16 bits (v2), else 0.
    pub checksum: u32,
}

impl Tag {
    /// True if `stored` matches this tag's checksum, or the journal has no image checksums.
    pub fn verify(&self, layout: &Layout, sequence: Tid, stored: &[u8]) -> bool {
        match layout.checksums {
            ChecksumKind::V3 => self.checksum == layout.image_checksum(sequence, stored),
            ChecksumKind::V2 => self.checksum == layout.image_checksum(sequence, stored) & 0xFFFF,
            ChecksumKind::None | ChecksumKind::V1 => true,
        }
    }
}

/// The tags of a descriptor block, in order. Ends at the last tag or at the end of the payload.
pub struct Tags<'a> {
    layout: Layout,
    /// The payload after the tags that were read.
    left: &'a [u8],
}

impl<'a> Tags<'a> {
    /// The tags of `block`, whose header marks it as a descriptor block.
    pub fn new(layout: &Layout, block: &'a [u8]) -> Self {
        Self {
            layout: *layout,
            left: rest(upto(block, layout.payload_end()), HEADER_BYTES),
        }
    }
}

impl Iterator for Tags<'_> {
    type Item = Tag;

    fn next(&mut self) -> Option<Tag> {
        let (tag, mut left) = self.left.split_at_checked(self.layout.tag_bytes())?;
        let flags = get_u16_be(tag, 6);
        let high = if self.layout.wide {
            get_u32_be(tag, 8)
        } else {
            0
        };
        let checksum = if self.layout.checksums == ChecksumKind::V3 {
            get_u32_be(tag, 12)
        } else {
            u32::from(get_u16_be(tag, 4))
        };
        if flags & SAME_UUID == 0 {
            left = rest(left, UUID_BYTES);
        }
        let is_last = flags & LAST_TAG != 0;
        self.left = if is_last { &[] } else { left };
        let block = BlockNr(join_u32(get_u32_be(tag, 0), high));
        Some(Tag {
            block,
            escaped: flags & ESCAPE != 0,
            checksum,
        })
    }
}

/// Builds one descriptor block.
pub struct DescriptorWriter {
    layout: Layout,
    block: Vec<u8>,
    at: usize,
    last_tag: Option<usize>,
    sequence: Tid,
}

impl DescriptorWriter {
    /// An empty descriptor block of transaction `sequence`.
    pub fn new(layout: &Layout, sequence: Tid) -> Self {
        let mut block = vec![0; layout.block_size];
        Header {
            block_type: BlockType::Descriptor,
            sequence,
        }
        .write(&mut block);
        Self {
            layout: *layout,
            block,
            at: HEADER_BYTES,
            last_tag: None,
            sequence,
        }
    }

    /// Adds the tag of an image that is stored as `stored`. False if the block is full.
    pub fn push(&mut self, home: BlockNr, stored: &[u8], escaped: bool, uuid: &[u8; 16]) -> bool {
        let first = self.last_tag.is_none();
        let tag_end = self.at.saturating_add(self.layout.tag_bytes());
        let end = tag_end.saturating_add(if first { UUID_BYTES } else { 0 });
        if end > self.layout.payload_end() {
            return false;
        }
        let mut flags = if escaped { ESCAPE } else { 0 };
        if first {
            put_slice(&mut self.block, tag_end, uuid);
        } else {
            flags |= SAME_UUID;
        }
        self.put_tag(home, flags, stored);
        self.last_tag = Some(self.at);
        self.at = end;
        true
    }

    fn put_tag(&mut self, home: BlockNr, flags: u16, stored: &[u8]) {
        let tag = rest_mut(&mut self.block, self.at);
        put_u32_be(tag, 0, low_u32(home.0));
        put_u16_be(tag, 6, flags);
        if self.layout.wide {
            put_u32_be(tag, 8, high_u32(home.0));
        }
        match self.layout.checksums {
            ChecksumKind::V3 => {
                let sum = self.layout.image_checksum(self.sequence, stored);
                put_u32_be(tag, 12, sum);
            }
            ChecksumKind::V2 => {
                let sum = self.layout.image_checksum(self.sequence, stored);
                put_u16_be(tag, 4, low_u16(sum));
            }
            ChecksumKind::None | ChecksumKind::V1 => {}
        }
    }

    /// The finished block: last tag marked, checksum written.
    pub fn finish(mut self) -> Vec<u8> {
        if let Some(at) = self.last_tag {
            let tag = rest_mut(&mut self.block, at);
            put_u16_be(tag, 6, get_u16_be(tag, 6) | LAST_TAG);
        }
        self.layout.seal(&mut self.block);
        self.block
    }
}

/// True when this image must be stored escaped.
pub fn is_escaped_image(image: &[u8]) -> bool {
    image.len() >= 4 && get_u32_be(image, 0) == MAGIC
}

/// Converts an image that starts with the magic to its stored form.
pub fn escape(image: &mut [u8]) {
    put_u32_be(image, 0, 0);
}

/// Converts a stored form whose tag is marked escaped to the image.
pub fn unescape(image: &mut [u8]) {
    put_u32_be(image, 0, MAGIC);
}
