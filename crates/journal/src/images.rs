//! The newest committed image of every block that is not at home yet, and whose it is.
//!
//! An entry names its transaction by number only. Who replaces or removes entries gets them: to
//! lower the counters of their transactions in one go ([`crate::records`]), and to free the images
//! where nobody waits.
//!
//! Locking: one map shard ([`Rank::Checkpoint`]) at a time. What a commit or a checkpoint does to
//! many blocks it does shard by shard and row by row, and it looks for all blocks of a shard before
//! it changes any: entries of a long queue lie in memory and not in a cache, and are fetched side
//! by side so.

use crate::Image;
use crate::newest::{Entry, Newest, ROW_BITS, row_of};
use std::ops::Range;
use uext4_format::{BlockNr, Tid};
use uext4_sync::{Mutex, Rank, stretch_shard};

const SHARDS: usize = 16;

/// A block to bring home, if its newest image is of this transaction.
pub(crate) type Wanted = (BlockNr, Tid);

/// The part of a list of ascending blocks that lies in one row.
#[derive(Clone, Copy)]
struct Span {
    first: BlockNr,
    from: u32,
    until: u32,
}

impl Span {
    fn places(&self) -> Range<usize> {
        self.from as usize..self.until as usize
    }
    fn shard(&self) -> usize {
        shard_of(self.first)
    }
}

fn shard_of(block: BlockNr) -> usize {
    stretch_shard::<ROW_BITS>(block.0, SHARDS)
}

/// Cuts a list of ascending blocks into spans; those of one shard follow each other. A few rarely
/// meet in a shard: they stay as they are.
fn spans_of<T>(list: &[T], nr: impl Fn(&T) -> BlockNr) -> Vec<Span> {
    let mut until = 0;
    let span = |part: &[T]| {
        let (first, from) = (nr(&part[0]), until);
        until += part.len() as u32;
        Span { first, from, until }
    };
    let parts = list.chunk_by(|a, b| row_of(nr(a)) == row_of(nr(b)));
    let mut spans = Vec::with_capacity(list.len());
    spans.extend(parts.map(span));
    if spans.len() < SHARDS {
        spans
    } else {
        by_shard(&spans)
    }
}

/// In time that grows with their number only.
fn by_shard(spans: &[Span]) -> Vec<Span> {
    let mut next = [0; SHARDS];
    spans.iter().for_each(|span| next[span.shard()] += 1);
    let mut sum = 0;
    for count in &mut next {
        (sum, *count) = (sum + *count, sum);
    }
    let mut sorted = spans.to_vec();
    for span in spans {
        let next = &mut next[span.shard()];
        sorted[*next] = *span;
        *next += 1;
    }
    sorted
}

pub(crate) struct Images {
    shards: Box<[Mutex<Newest>]>,
}

impl Images {
    pub(crate) fn new() -> Self {
        let shard = |_| Mutex::new(Rank::Checkpoint, Newest::default());
        Self {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    fn shard(&self, block: BlockNr) -> &Mutex<Newest> {
        &self.shards[shard_of(block)]
    }

    /// Images held.
    pub(crate) fn len(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.lock().len() as u64)
            .sum()
    }

    /// The newest committed image of `block`; `None`: the device has it.
    pub(crate) fn get(&self, block: BlockNr) -> Option<Image> {
        let shard = self.shard(block).lock();
        let (image, _) = shard.row(block)?.get(block)?;
        Some(image.clone())
    }

    /// The newest images of these ascending blocks, where they are of the transactions named.
    pub(crate) fn newest_of(&self, wanted: &[Wanted]) -> Vec<(BlockNr, Image)> {
        let mut found: Vec<Option<Image>> = vec![None; wanted.len()];
        self.visit(
            wanted,
            |(block, _)| *block,
            |shard, first, places| {
                let Some(row) = shard.row(first) else {
                    return;
                };
                for ((block, tid), found) in wanted[places.clone()].iter().zip(&mut found[places]) {
                    let newest = row.get(*block).filter(|(_, owner)| owner == tid);
                    *found = newest.map(|(image, _)| image.clone());
                }
            },
        );
        let found = wanted.iter().zip(found);
        found
            .filter_map(|((block, _), image)| Some((*block, image?)))
            .collect()
    }

    /// These images of the ascending `blocks`, all that `tid` committed, are now the newest.
    /// Answers those that they replace.
    pub(crate) fn insert(
        &self,
        blocks: &[BlockNr],
        images: Vec<(BlockNr, Image)>,
        tid: Tid,
    ) -> Vec<Entry> {
        let mut retired = Vec::with_capacity(images.len());
        let mut images: Vec<(BlockNr, Option<Image>)> = images
            .into_iter()
            .map(|(block, image)| (block, Some(image)))
            .collect();
        self.visit(
            blocks,
            |block| *block,
            |shard, first, places| {
                let row = shard.row_to_fill(first);
                for (block, image) in &mut images[places] {
                    let image = image.take().expect("every place comes once");
                    retired.extend(row.put(*block, image, tid));
                }
            },
        );
        retired
    }

    /// These images of ascending blocks were written home: they are forgotten unless there are
    /// newer ones. Answers what is forgotten.
    pub(crate) fn written(&self, images: &[(BlockNr, Image)]) -> Vec<Entry> {
        let mut retired = Vec::with_capacity(images.len());
        self.visit(
            images,
            |(block, _)| *block,
            |shard, first, places| {
                shard.take_from(first, |row| {
                    for (block, image) in &images[places] {
                        let taken = row.take_if(*block, |newest| Image::ptr_eq(newest, image));
                        retired.extend(taken);
                    }
                });
            },
        );
        retired
    }

    /// Hands out the places of a list of ascending blocks row by row, each with its first block,
    /// and with its shard locked.
    fn visit<T>(
        &self,
        list: &[T],
        nr: impl Fn(&T) -> BlockNr,
        mut work: impl FnMut(&mut Newest, BlockNr, Range<usize>),
    ) {
        for spans in spans_of(list, &nr).chunk_by(|a, b| a.shard() == b.shard()) {
            let shard = &mut *self.shard(spans[0].first).lock();
            let parts = spans.iter().map(|span| (span.first, span.places()));
            if spans.len() > 1 {
                shard.fetch(parts.clone(), |place| nr(&list[place]));
            }
            parts.for_each(|(first, places)| work(shard, first, places));
        }
    }

    /// True when some image of `block` waits for its home write.
    pub(crate) fn contains(&self, block: BlockNr) -> bool {
        let shard = self.shard(block).lock();
        shard.row(block).is_some_and(|row| row.get(block).is_some())
    }

    /// These blocks were freed: no image of them must go home. Answers what is forgotten.
    pub(crate) fn revoke(&self, blocks: &[BlockNr]) -> Vec<Entry> {
        let mut retired = Vec::new();
        for block in blocks {
            self.shard(*block).lock().take_from(*block, |row| {
                let taken = row.take_if(*block, |_| true);
                retired.extend(taken);
            });
        }
        retired
    }
}
