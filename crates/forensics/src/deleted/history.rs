//! The images in a log by the block that they belong to.
//!
//! Invariant: an image whose bytes are not those that its transaction wrote is not listed.

use crate::map::NodeSource;
use crate::visit::{Entry, ImageState, Logged};
use crate::{Image, Memory, Result, Ring, TransactionState};
use std::cell::RefCell;
use std::ops::Range;
use uext4_format::{Tid, Timestamp};
use uext4_num::{clamp_i64, clamp_u32, u64_of};

/// Images of a block that are tried on each side.
const TRIES: usize = 16;

/// An image, with the place of its transaction in the order of transactions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    pub(crate) order: u32,
    pub(crate) logged: Logged,
}

/// A transaction, by its place in the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Era {
    pub(crate) tid: Tid,
    pub(crate) committed: Option<Timestamp>,
}

/// The nodes of maps as they were in a transaction, or as they are.
pub(crate) struct AsOf<'a, 'h> {
    pub(crate) history: &'a History<'h>,
    pub(crate) order: Option<u32>,
}

impl NodeSource for AsOf<'_, '_> {
    fn node(&self, block: u64, test: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        self.history.block_as_of(block, self.order, test)
    }
}

/// See the module.
pub(crate) struct History<'h> {
    pub(crate) image: &'h Image,
    ring: Option<RefCell<&'h mut Ring>>,
    /// By block, then by order.
    past: Vec<Past>,
    /// Blocks that a transaction revoked, with its order.
    revoked: Vec<(u64, u32)>,
    eras: Vec<Era>,
}

impl<'h> History<'h> {
    pub(crate) fn new(
        image: &'h Image,
        ring: Option<&'h mut Ring>,
        memory: &Memory,
    ) -> Result<Self> {
        let (mut past, mut eras, mut revoked) = (Vec::new(), Vec::new(), Vec::new());
        let Some(ring) = ring else {
            let ring = None;
            return Ok(Self {
                image,
                ring,
                past,
                revoked,
                eras,
            });
        };
        let is_proven = ring.layout.has_block_checksums();
        for one in ring.transactions().to_vec() {
            let order = clamp_u32(eras.len());
            memory.take(u64_of(size_of::<Era>()))?;
            let committed = one.commit.map(|commit| {
                let nanoseconds = commit.nanoseconds.min(999_999_999);
                Timestamp::new(clamp_i64(commit.seconds), nanoseconds)
            });
            let tid = one.tid;
            eras.push(Era { tid, committed });
            if one.state == TransactionState::Torn && !is_proven {
                continue;
            }
            ring.visit::<crate::Error>(&one, &mut |_, entry| {
                match entry {
                    Entry::Image(logged) if logged.state == ImageState::Sound => {
                        memory.take(u64_of(size_of::<Past>()))?;
                        past.push(Past { order, logged });
                    }
                    Entry::Revoked { block } => {
                        memory.take(u64_of(size_of::<(u64, u32)>()))?;
                        revoked.push((block, order));
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        past.sort_unstable_by_key(|one| (one.logged.block, one.order, one.logged.at));
        revoked.sort_unstable();
        Ok(Self {
            image,
            ring: Some(RefCell::new(ring)),
            past,
            revoked,
            eras,
        })
    }

    /// Whether a transaction of a range of the order revoked a block.
    pub(crate) fn is_revoked(&self, block: u64, orders: std::ops::RangeInclusive<u32>) -> bool {
        let from = (block, *orders.start());
        let at = self.revoked.partition_point(|one| *one < from);
        let next = self.revoked.get(at);
        next.is_some_and(|(revoked, order)| *revoked == block && orders.contains(order))
    }

    /// All images, by block and then by order.
    pub(crate) fn all(&self) -> &[Past] {
        &self.past
    }

    /// The images of the blocks of a range.
    pub(crate) fn of(&self, blocks: Range<u64>) -> &[Past] {
        let from = self
            .past
            .partition_point(|one| one.logged.block < blocks.start);
        let to = self
            .past
            .partition_point(|one| one.logged.block < blocks.end);
        self.past.get(from..to).unwrap_or_default()
    }

    /// The transaction at a place in the order.
    pub(crate) fn era(&self, order: u32) -> Option<Era> {
        self.eras.get(uext4_num::usize_of(order)).copied()
    }

    /// The last transaction that was committed up to a time.
    pub(crate) fn order_at(&self, time: Timestamp) -> Option<u32> {
        let mut eras = self.eras.iter();
        let last = eras.rposition(|era| era.committed.is_some_and(|committed| committed <= time));
        last.map(|at| clamp_u32(u64_of(at)))
    }

    /// The bytes of an image.
    pub(crate) fn bytes(&self, past: &Past) -> Option<Vec<u8>> {
        let mut ring = self.ring.as_ref()?.try_borrow_mut().ok()?;
        ring.image(past.logged).ok()
    }

    /// The bytes of the newest image of a block, up to `order`, for which the test is true.
    pub(crate) fn logged_up_to(
        &self,
        block: u64,
        order: Option<u32>,
        test: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let all = self.of(block..block.saturating_add(1));
        let end = all.partition_point(|past| Some(past.order) <= order);
        let before = all.iter().take(end).rev().take(TRIES);
        before
            .filter_map(|past| self.bytes(past))
            .find(|bytes| test(bytes))
    }

    /// The bytes of a block for which the test is true: those of its newest image up to `order`,
    /// else those in its place, else those of a later image.
    pub(crate) fn block_as_of(
        &self,
        block: u64,
        order: Option<u32>,
        test: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let all = self.of(block..block.saturating_add(1));
        let (before, after) = match order {
            Some(order) => all.split_at(all.partition_point(|past| past.order <= order)),
            None => all.split_at(0),
        };
        let older = before
            .iter()
            .rev()
            .take(TRIES)
            .filter_map(|past| self.bytes(past));
        let here = self.image.block(block).into_iter();
        let newer = after
            .iter()
            .rev()
            .take(TRIES)
            .filter_map(|past| self.bytes(past));
        older.chain(here).chain(newer).find(|bytes| test(bytes))
    }
}
