//! Data-parallel loop over a slice, for the parts of a commit that grow with its size.

use crate::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use uext4_sync::thread;

/// Cuts `items` into at most `threads` parts of at least `least` items and calls `work` on each in
/// parallel, with the index of its first item. Answers are in order; the caller runs one part.
///
/// # Errors
/// [`Error::Panicked`] when `work` panicked.
pub(crate) fn by_parts<T: Sync, R: Send>(
    threads: usize,
    least: usize,
    items: &[T],
    work: impl Fn(usize, &[T]) -> R + Sync,
) -> Result<Vec<R>, Error> {
    let work =
        |at, some| catch_unwind(AssertUnwindSafe(|| work(at, some))).map_err(|_| Error::Panicked);
    let threads = threads.min(items.len() / least.max(1));
    if threads < 2 {
        return Ok(vec![work(0, items)?]);
    }
    let share = items.len().div_ceil(threads);
    thread::scope(|scope| {
        let work = &work;
        let mut shares = items.chunks(share).enumerate();
        let first = shares.next();
        let others: Vec<_> = shares
            .map(|(nr, some)| scope.spawn(move || work(nr * share, some)))
            .collect();
        let here = first.map(|(_, some)| work(0, some));
        here.into_iter()
            .chain(
                others
                    .into_iter()
                    .map(|thread| thread.join().map_err(|_| Error::Panicked)?),
            )
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_met_once_and_answers_are_in_order() {
        for (threads, least, len) in [(1, 1, 10), (4, 1, 10), (3, 4, 11), (8, 100, 50), (4, 1, 0)] {
            let items: Vec<usize> = (0..len).collect();
            let same = |at: usize, some: &[usize]| {
                assert!(some.iter().enumerate().all(|(nr, item)| at + nr == *item));
                some.to_vec()
            };
            let answers = by_parts(threads, least, &items, same).unwrap();
            assert!(answers.len() <= threads);
            assert_eq!(answers.concat(), items);
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        let refuse = |_: usize, some: &[u32]| assert!(!some.contains(&7));
        let items: Vec<u32> = (0..9).collect();
        for threads in [1, 3] {
            let answer = by_parts(threads, 1, &items, refuse);
            assert!(matches!(answer, Err(Error::Panicked)));
        }
    }
}
