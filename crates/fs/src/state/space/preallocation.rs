//! Preallocation for files and threads, so that later writes are contiguous with earlier ones.
//!
//! A written file reserves a window around each request. The unused rest stays here, by cluster of
//! the file, and later requests inside the window are served from it. Small files share runs per
//! thread shard (locality groups), which are consumed from the front.
//!
//! Invariants: preallocated runs are reserved in the engine but not claimed: free counts include
//! them, and their use makes the claim. So a claim may succeed while the engine has no free run;
//! the request then discards all preallocations and retries. Pieces of one file do not overlap, and
//! no cluster of the file inside a piece is mapped.
//!
//! Locking: `Rank::PreallocatedFiles` (one shard of the list), then `Rank::Preallocation`; runs are
//! returned to the engine with neither held.
//!
//! Not here: the size of a window (`file::window`), the engine (`alloc`).

use std::collections::HashMap;
use uext4_alloc::{ClusterNr, Run};
use uext4_format::InodeNr;
use uext4_num::{clamp_i64, nonnegative, usize_of};
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Arc, Counter, Mutex, Rank, Sharded, shards};

/// Runs for small files per thread shard.
const LOCAL_RUNS_MAX: usize = 8;

/// A range of a file, in clusters, and the run preallocated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) logical: u32,
    pub(super) run: Run,
}

impl Piece {
    fn end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.run.len)
    }
}

/// Ascending by `logical`, without overlap.
#[derive(Default)]
struct Pieces {
    list: Vec<Piece>,
    /// Whether the list of files includes it.
    listed: bool,
}

impl Pieces {
    /// Index of the first piece that ends behind `at`.
    fn search(&self, at: u32) -> usize {
        self.list
            .partition_point(|piece| piece.end() <= u64::from(at))
    }

    fn take(&mut self, at: u32, len: u32) -> Option<Run> {
        let index = self.search(at);
        let piece = *self.list.get(index).filter(|piece| piece.logical <= at)?;
        let skip = at - piece.logical;
        let (front, rest) = split(piece.run, skip);
        let (taken, back) = split(rest.expect("the piece ends behind `at`"), len);
        let front = front.map(|run| Piece {
            logical: piece.logical,
            run,
        });
        let back = back.map(|run| Piece {
            logical: at + len,
            run,
        });
        self.list
            .splice(index..=index, front.into_iter().chain(back));
        taken
    }

    /// Inserts the piece; false if it overlaps an existing one.
    fn put(&mut self, piece: Piece) -> bool {
        let index = self.search(piece.logical);
        let free = self
            .list
            .get(index)
            .is_none_or(|next| piece.end() <= u64::from(next.logical));
        if free {
            self.list.insert(index, piece);
        }
        free
    }
}

/// The first `at` clusters of a run, and the rest.
fn split(run: Run, at: u32) -> (Option<Run>, Option<Run>) {
    let at = at.min(run.len);
    let front = (at > 0).then(|| Run::new(run.start, at));
    let start = ClusterNr(run.start.0 + u64::from(at));
    (front, (at < run.len).then(|| Run::new(start, run.len - at)))
}

/// The preallocation of one file.
pub(crate) struct FilePreallocation {
    inode: InodeNr,
    clusters: AtomicU64,
    pieces: Mutex<Pieces>,
}

impl FilePreallocation {
    pub(crate) fn new(inode: InodeNr) -> Self {
        let pieces = Mutex::new(Rank::Preallocation, Pieces::default());
        Self {
            inode,
            clusters: AtomicU64::new(0),
            pieces,
        }
    }

    /// True when nothing is preallocated; may be outdated at once.
    pub(crate) fn is_empty(&self) -> bool {
        self.clusters.load(Ordering::Relaxed) == 0
    }

    /// The end of the last piece before cluster `at`, and the start of the first piece that ends
    /// behind `at`. That start is at most `at` if the piece covers it.
    pub(super) fn gap(&self, at: u32) -> (u64, u64) {
        let pieces = self.pieces.lock();
        let index = pieces.search(at);
        let before = index
            .checked_sub(1)
            .and_then(|index| pieces.list.get(index));
        let behind = pieces.list.get(index);
        (
            before.map_or(0, Piece::end),
            behind.map_or(u64::MAX, |piece| piece.logical.into()),
        )
    }

    /// Takes all pieces of a file that the caller has taken off the list.
    fn drain(&self) -> Vec<Run> {
        let mut pieces = self.pieces.lock();
        pieces.listed = false;
        self.clusters.store(0, Ordering::Relaxed);
        std::mem::take(&mut pieces.list)
            .into_iter()
            .map(|piece| piece.run)
            .collect()
    }
}

/// Keyed by address, because an inode that left the cache and came back has another object.
type Files = HashMap<usize, Arc<FilePreallocation>>;

fn address(file: &FilePreallocation) -> usize {
    std::ptr::from_ref(file).addr()
}

/// The preallocations of all files and threads.
pub(super) struct Preallocations {
    files: Box<[Mutex<Files>]>,
    local: Sharded<Mutex<Vec<Run>>>,
    /// Clusters that are reserved in the engine but not claimed.
    clusters: Counter,
}

impl Preallocations {
    pub(super) fn new() -> Self {
        let files = |_| Mutex::new(Rank::PreallocatedFiles, Files::new());
        Self {
            files: (0..shards()).map(files).collect(),
            local: Sharded::new(|_| Mutex::new(Rank::Preallocation, Vec::new())),
            clusters: Counter::new(0),
        }
    }

    /// Clusters that are reserved but not claimed.
    pub(super) fn clusters(&self) -> u64 {
        nonnegative(self.clusters.sum())
    }

    /// Number of files in the list.
    #[cfg(test)]
    pub(super) fn listed_files(&self) -> usize {
        self.files.iter().map(|files| files.lock().len()).sum()
    }

    /// Counts clusters that are about to be reserved, or were, without a claim.
    pub(super) fn withhold(&self, clusters: u64) {
        self.clusters.add(clamp_i64(clusters));
    }

    /// Uncounts clusters that are free in the engine again, or claimed.
    pub(super) fn restore(&self, clusters: u64) {
        self.clusters.add(-clamp_i64(clusters));
    }

    /// Takes up to `len` clusters preallocated for cluster `at` of the file.
    pub(super) fn take(&self, file: &FilePreallocation, at: u32, len: u32) -> Option<Run> {
        if file.is_empty() {
            return None;
        }
        let mut pieces = file.pieces.lock();
        let run = pieces.take(at, len)?;
        file.clusters.fetch_sub(run.len.into(), Ordering::Relaxed);
        let used_up = pieces.list.is_empty();
        drop(pieces);
        if used_up {
            self.unlist_used_up(file);
        }
        Some(run)
    }

    /// Removes the file from the list if its space is used up.
    fn unlist_used_up(&self, file: &FilePreallocation) {
        let mut files = self.shard(file.inode).lock();
        let mut pieces = file.pieces.lock();
        if pieces.list.is_empty() && pieces.listed {
            pieces.listed = false;
            files.remove(&address(file));
        }
    }

    /// Adds a piece to the file; false if it overlaps an existing one.
    pub(super) fn keep(&self, file: &Arc<FilePreallocation>, piece: Piece) -> bool {
        let listed = {
            let mut pieces = file.pieces.lock();
            if !pieces.put(piece) {
                return false;
            }
            file.clusters
                .fetch_add(piece.run.len.into(), Ordering::Relaxed);
            pieces.listed
        };
        if !listed {
            self.list(file);
        }
        true
    }

    fn shard(&self, inode: InodeNr) -> &Mutex<Files> {
        &self.files[usize_of(inode.0) & (self.files.len() - 1)]
    }

    fn list(&self, file: &Arc<FilePreallocation>) {
        let mut files = self.shard(file.inode).lock();
        let mut pieces = file.pieces.lock();
        // Another thread may have listed the file, or drained it.
        if !pieces.listed && !pieces.list.is_empty() {
            pieces.listed = true;
            files.insert(address(file), file.clone());
        }
    }

    /// Removes the whole preallocation of the file; the caller owns the runs.
    pub(super) fn drain_file(&self, file: &FilePreallocation) -> Vec<Run> {
        let mut files = self.shard(file.inode).lock();
        files.remove(&address(file));
        file.drain()
    }

    /// Removes all preallocations; the caller owns the runs.
    pub(super) fn drain(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for shard in self.local.iter() {
            runs.append(&mut shard.lock());
        }
        for shard in &self.files {
            let mut files = shard.lock();
            for (_, file) in files.drain() {
                runs.append(&mut file.drain());
            }
        }
        runs
    }

    /// Takes `len` clusters, which end at or before `end`, off the front of the run nearest to
    /// `goal` in this thread's shard.
    pub(super) fn take_local(&self, goal: u64, len: u32, end: u64) -> Option<Run> {
        let mut runs = self.local.local().lock();
        let all = runs.iter().enumerate();
        let fitting = all.filter(|(_, run)| run.len >= len && run.start.0 + u64::from(len) <= end);
        let (index, run) = fitting.min_by_key(|(_, run)| run.start.0.abs_diff(goal))?;
        let (taken, rest) = split(*run, len);
        match rest {
            Some(rest) => runs[index] = rest,
            None => drop(runs.swap_remove(index)),
        }
        taken
    }

    /// Adds a run for small files to this thread's shard; returns a surplus one.
    pub(super) fn keep_local(&self, run: Run) -> Option<Run> {
        let mut runs = self.local.local().lock();
        runs.push(run);
        if runs.len() <= LOCAL_RUNS_MAX {
            return None;
        }
        let shortest = runs.iter().enumerate().min_by_key(|(_, run)| run.len)?.0;
        Some(runs.swap_remove(shortest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(start: u64, len: u32) -> Run {
        Run::new(ClusterNr(start), len)
    }

    #[test]
    fn a_piece_is_taken_from_the_middle() {
        let all = Preallocations::new();
        let file = Arc::new(FilePreallocation::new(InodeNr(12)));
        assert!(all.keep(
            &file,
            Piece {
                logical: 10,
                run: run(1000, 10)
            }
        ));
        assert!(!all.keep(
            &file,
            Piece {
                logical: 19,
                run: run(2000, 1)
            }
        ));
        assert_eq!(all.take(&file, 9, 1), None);
        assert_eq!(all.take(&file, 14, 2), Some(run(1004, 2)));
        assert_eq!(file.gap(14), (14, 16));
        assert_eq!(all.take(&file, 18, 9), Some(run(1008, 2)));
        assert_eq!(all.drain(), vec![run(1000, 4), run(1006, 2)]);
        assert!(file.is_empty());
        assert_eq!(all.listed_files(), 0);
    }

    #[test]
    fn a_shard_keeps_the_long_runs() {
        let all = Preallocations::new();
        for nr in 0..8u32 {
            assert_eq!(all.keep_local(run(u64::from(nr) * 1000, 10 + nr)), None);
        }
        assert_eq!(all.keep_local(run(9000, 50)), Some(run(0, 10)));
        assert_eq!(all.take_local(2990, 12, u64::MAX), Some(run(3000, 12)));
        assert_eq!(all.take_local(0, 20, 8000), None);
        assert_eq!(
            all.drain().iter().map(|run| run.len).sum::<u32>(),
            11 + 12 + 1 + 14 + 15 + 16 + 17 + 50
        );
    }

    proptest! {
        #[test]
        fn pieces_are_a_map_of_clusters(
            steps in prop::collection::vec((any::<bool>(), 0u32..200, 1u32..30), 1..200),
        ) {
            let (mut pieces, mut model) = (Pieces::default(), HashMap::new());
            let mut fresh = 0u64;
            for (put, at, len) in steps {
                if put {
                    fresh += 100;
                    let free = (at..at + len).all(|at| !model.contains_key(&at));
                    let piece = Piece { logical: at, run: run(fresh, len) };
                    prop_assert_eq!(pieces.put(piece), free);
                    if free {
                        model.extend((0..len).map(|i| (at + i, fresh + u64::from(i))));
                    }
                } else {
                    let taken = pieces.take(at, len);
                    prop_assert_eq!(taken.map(|run| run.start.0), model.get(&at).copied());
                    for offset in 0..taken.map_or(0, |run| run.len) {
                        let was = model.remove(&(at + offset));
                        prop_assert_eq!(was, taken.map(|run| run.start.0 + u64::from(offset)));
                    }
                }
            }
            let held: u32 = pieces.list.iter().map(|piece| piece.run.len).sum();
            prop_assert_eq!(held as usize, model.len());
        }
    }
}
