//! What a transaction holds: images, revokes and its end, one after the other.

use crate::ring::{HeaderAt, Ring, Transaction, TransactionState};
use crate::{Commit, Memory, Result};
use std::collections::BTreeMap;
use uext4_format::Tid;
use uext4_format::jbd2::{BlockType, Revoked, Tag, Tags, unescape};
use uext4_num::{clamp_u32, u64_of};

/// Memory for each newest image, and for each revoked block, in bytes.
const NEWEST_BYTES: u64 = 96;

/// Whether the bytes of an image are those that its transaction wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// Its checksum is right, or the log has none.
    Sound,
    /// Its checksum is wrong, or that of the descriptor which names its block.
    Damaged,
    /// A newer block of the log is there.
    Overwritten,
}

/// An image in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its position in the log.
    pub at: u32,
    /// The block of the file system that it belongs to.
    pub block: u64,
    /// Its first word is stored as zero.
    pub escaped: bool,
    /// Whether its bytes are there.
    pub state: ImageState,
}

/// A part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A descriptor block.
    Descriptor {
        /// Its position in the log.
        at: u32,
        /// Images that it lists.
        tags: u32,
        /// Whether its checksum is right.
        is_sound: bool,
    },
    /// An image.
    Image(Logged),
    /// A revoke block.
    Revokes {
        /// Its position in the log.
        at: u32,
        /// Blocks that it lists; none if it is damaged.
        blocks: u32,
        /// Whether its checksum and its count are right.
        is_sound: bool,
    },
    /// A block whose older images are not replayed.
    Revoked {
        /// The block of the file system.
        block: u64,
    },
    /// The end.
    Commit(Commit),
}

impl Ring {
    /// Calls `take` for all parts of a transaction, in their order.
    ///
    /// # Errors
    /// Those of the device, and of `take`.
    pub fn visit<E: From<crate::Error>>(
        &mut self,
        one: &Transaction,
        take: &mut dyn FnMut(&mut Self, Entry) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for index in one.headers.clone() {
            let Some(header) = self.headers.get(index).copied() else {
                continue;
            };
            match header.block_type {
                BlockType::Descriptor => self.visit_images(index, header, take)?,
                BlockType::Revoke => self.visit_revokes(header, take)?,
                BlockType::Commit => {
                    if let Some(commit) = one.commit {
                        take(self, Entry::Commit(commit))?;
                    }
                }
                BlockType::SuperblockV1 | BlockType::SuperblockV2 => {}
            }
        }
        Ok(())
    }

    fn visit_images<E: From<crate::Error>>(
        &mut self,
        index: usize,
        header: HeaderAt,
        take: &mut dyn FnMut(&mut Self, Entry) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let bytes = self.blocks.read(header.at)?.to_vec();
        let (tags, is_sound) = (self.tags(&bytes), self.layout.verify_seal(&bytes));
        let at = header.at;
        take(self, Entry::Descriptor { at, tags, is_sound })?;
        let room = self.images_behind(index, at);
        let layout = self.layout;
        for (number, tag) in (1..).zip(Tags::new(&layout, &bytes)) {
            let Some(at) = self.skip(header.at, number) else {
                break;
            };
            let state = if number > room {
                ImageState::Overwritten
            } else if !is_sound {
                ImageState::Damaged
            } else {
                self.state_of(&tag, header.tid, at)
            };
            let logged = Logged {
                at,
                block: tag.block.0,
                escaped: tag.escaped,
                state,
            };
            take(self, Entry::Image(logged))?;
        }
        Ok(())
    }

    /// Blocks behind a descriptor before the next block that is not an image.
    fn images_behind(&self, index: usize, at: u32) -> u32 {
        let len = self.superblock.end().saturating_sub(self.superblock.first);
        let next = index.checked_add(1).and_then(|next| self.headers.get(next));
        let next = next.or_else(|| self.headers.first());
        let distance = next.map_or(0, |next| self.distance(at, next.at));
        let distance = if distance == 0 { len } else { distance };
        distance.saturating_sub(1)
    }

    fn state_of(&mut self, tag: &Tag, tid: Tid, at: u32) -> ImageState {
        let layout = self.layout;
        match self.blocks.read(at) {
            Ok(stored) if tag.verify(&layout, tid, stored) => ImageState::Sound,
            _ => ImageState::Damaged,
        }
    }

    fn visit_revokes<E: From<crate::Error>>(
        &mut self,
        header: HeaderAt,
        take: &mut dyn FnMut(&mut Self, Entry) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (at, layout) = (header.at, self.layout);
        let bytes = self.blocks.read(at)?.to_vec();
        let parsed = Revoked::parse(&layout, &bytes, at).ok();
        let parsed = parsed.filter(|_| layout.verify_seal(&bytes));
        let blocks = parsed.as_ref().map_or(0, |list| list.iter().count());
        let is_sound = parsed.is_some();
        let blocks = clamp_u32(blocks);
        take(
            self,
            Entry::Revokes {
                at,
                blocks,
                is_sound,
            },
        )?;
        for block in parsed.iter().flat_map(Revoked::iter) {
            take(self, Entry::Revoked { block: block.0 })?;
        }
        Ok(())
    }

    /// The bytes of an image.
    ///
    /// # Errors
    /// Those of the device.
    pub fn image(&mut self, logged: Logged) -> Result<Vec<u8>> {
        let mut bytes = self.blocks.read(logged.at)?.to_vec();
        if logged.escaped {
            unescape(&mut bytes);
        }
        Ok(bytes)
    }

    /// The newest image of each block that a replay writes, in ascending order.
    pub(crate) fn newest(&mut self, memory: &Memory) -> Result<Vec<(u64, Logged)>> {
        let mut newest = BTreeMap::new();
        let live: Vec<Transaction> = self
            .transactions()
            .iter()
            .filter(|one| one.state == TransactionState::Live)
            .cloned()
            .collect();
        for one in &live {
            let mut revoked = Vec::new();
            self.visit::<crate::Error>(one, &mut |_, entry| {
                match entry {
                    Entry::Image(logged) if logged.state == ImageState::Sound => {
                        let known = newest.insert(logged.block, logged);
                        memory.take(known.map_or(NEWEST_BYTES, |_| 0))?;
                    }
                    Entry::Revoked { block } => {
                        memory.take(NEWEST_BYTES)?;
                        revoked.push(block);
                    }
                    _ => {}
                }
                Ok(())
            })?;
            // A revoke counts for the images of its own transaction as well.
            for block in &revoked {
                newest.remove(block);
            }
            memory.give_back(u64_of(revoked.len()).saturating_mul(NEWEST_BYTES));
        }
        Ok(newest.into_iter().collect())
    }
}
