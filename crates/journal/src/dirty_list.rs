//! List of the objects that a shard logged, in fixed-size pieces.
//!
//! A growing array would be copied while a handle waits, and its ever larger allocations would
//! leave memory in each thread's allocator cache that is not used again.

use crate::live::Dirty;
use uext4_sync::Arc;

/// Objects of a piece.
const PIECE: usize = 256;

/// List of logged objects; see the module.
#[derive(Default)]
pub(crate) struct DirtyList {
    /// All pieces but the last are full.
    pieces: Vec<Vec<Arc<dyn Dirty>>>,
}

impl DirtyList {
    pub(crate) fn push(&mut self, object: Arc<dyn Dirty>) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(object),
            // Most lists are short.
            None => self.pieces.push(vec![object]),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(object);
                self.pieces.push(piece);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        let full = self.pieces.len().saturating_sub(1) * PIECE;
        full + self.pieces.last().map_or(0, Vec::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[Arc<dyn Dirty>]> {
        self.pieces.iter().map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::objects::Slot;

    #[test]
    fn pieces_have_all_objects_in_their_order() {
        let objects: Vec<_> = (0..1000).map(|nr| Slot::new(nr, 0)).collect();
        let mut list = DirtyList::default();
        for (count, object) in objects.iter().enumerate() {
            assert_eq!((list.len(), list.is_empty()), (count, count == 0));
            list.push(Arc::clone(object) as _);
        }
        let listed = list
            .pieces()
            .flatten()
            .map(|object| Arc::as_ptr(object).addr());
        let pushed = objects.iter().map(|object| Arc::as_ptr(object).addr());
        assert!(listed.eq(pushed));
        assert!(list.pieces().all(|piece| piece.len() <= PIECE));
    }
}
