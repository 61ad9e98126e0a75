//! The bitmaps "on disk", as the file system would keep them, behind a `Loader`.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use uext4_alloc::{Affinity, Summary, TreeEngine, Volume};
use uext4_alloc::{Bitmap, BuddyEngine, Config, Engine, LoadError, Loader, Run, ScanOrder};
use uext4_format::{BlockNr, GroupNr};

/// An engine and its tuning.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Linear,
    Optimized,
    Trees { aggression: u32, memory: u64 },
}

/// Every engine, the trees with and without a shortage of memory.
pub(crate) const CHOICES: [Choice; 5] = [
    Choice::Linear,
    Choice::Optimized,
    Choice::Trees {
        aggression: 0,
        memory: 0,
    },
    Choice::Trees {
        aggression: 1,
        memory: 400,
    },
    Choice::Trees {
        aggression: 3,
        memory: 1,
    },
];

pub(crate) struct Disk {
    pub(crate) volume: Volume,
    pub(crate) bitmaps: Vec<Mutex<Bitmap>>,
    pub(crate) loads: AtomicU32,
    /// Clusters of groups that cannot be used.
    pub(crate) lost: AtomicU32,
    pub(crate) unreadable: Option<GroupNr>,
    pub(crate) asked_ahead: Mutex<Vec<Range<u32>>>,
}

pub(crate) fn volume(groups: u32, per_group: u32, last: u32, flex: u32) -> Volume {
    Volume {
        groups,
        groups_max: groups,
        clusters_per_group: per_group,
        clusters_in_last_group: last,
        first_block: BlockNr(0),
        cluster_bits: 0,
        groups_per_flex: flex,
    }
}

impl Disk {
    pub(crate) fn new(volume: Volume) -> Self {
        let bitmap = |nr| Mutex::new(Bitmap::new(volume.clusters_in(GroupNr(nr))));
        let bitmaps = (0..volume.groups).map(bitmap).collect();
        Self {
            volume,
            bitmaps,
            loads: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            unreadable: None,
            asked_ahead: Mutex::default(),
        }
    }

    pub(crate) fn change(&self, run: Run, change: impl Fn(&mut Bitmap, Range<u32>)) {
        for (nr, offset, len) in self.volume.split(run) {
            change(
                &mut self.bitmaps[nr.0 as usize].lock().unwrap(),
                offset..offset + len,
            );
        }
    }

    pub(crate) fn set(&self, run: Run) {
        self.change(run, Bitmap::set_range);
    }

    pub(crate) fn clear(&self, run: Run) {
        self.change(run, Bitmap::clear_range);
    }

    pub(crate) fn clear_all(&self) {
        for bitmap in &self.bitmaps {
            let mut bitmap = bitmap.lock().unwrap();
            *bitmap = Bitmap::new(bitmap.len());
        }
    }

    pub(crate) fn free(&self) -> u64 {
        self.bitmaps
            .iter()
            .map(|bitmap| u64::from(bitmap.lock().unwrap().count_clear()))
            .sum()
    }

    /// A new engine over the current bitmaps, as after a mount.
    pub(crate) fn engine(&self, choice: Choice, affinity: Affinity) -> Box<dyn Engine> {
        let config = Config {
            volume: self.volume.clone(),
            affinity,
        };
        let summary = |nr| self.summary(nr);
        let (aggression, memory) = match choice {
            Choice::Linear => {
                return Box::new(BuddyEngine::new(config, ScanOrder::Linear, &summary));
            }
            Choice::Optimized => {
                return Box::new(BuddyEngine::new(config, ScanOrder::Optimized, &summary));
            }
            Choice::Trees { aggression, memory } => (aggression, memory),
        };
        let engine = TreeEngine::new(config, &summary);
        engine
            .tunables()
            .cache_aggression
            .store(aggression, Ordering::Relaxed);
        engine
            .tunables()
            .freespace_memory_bytes
            .store(memory, Ordering::Relaxed);
        Box::new(engine)
    }

    pub(crate) fn summary(&self, nr: GroupNr) -> Summary {
        let bitmap = self.bitmaps[nr.0 as usize].lock().unwrap();
        let free_clusters = bitmap.count_clear();
        // As mke2fs does: groups that nothing was allocated in are uninitialised.
        Summary {
            free_clusters,
            uninit: nr.0 % 3 == 1 && free_clusters == bitmap.len(),
        }
    }
}

impl Loader for Disk {
    fn load(&self, nr: GroupNr, used: &mut Bitmap) -> Result<(), LoadError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        if self.unreadable == Some(nr) {
            return Err(LoadError);
        }
        used.copy_from(&self.bitmaps[nr.0 as usize].lock().unwrap());
        Ok(())
    }

    fn lost(&self, _group: GroupNr, clusters: u32) {
        self.lost.fetch_add(clusters, Ordering::Relaxed);
    }

    fn prefetch(&self, groups: Range<u32>) {
        self.asked_ahead.lock().unwrap().push(groups);
    }

    fn scan(&self, groups: &[GroupNr], each: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>)) {
        for nr in groups {
            let mut used = Bitmap::new(self.volume.clusters_in(*nr));
            let loaded = self.load(*nr, &mut used);
            each(*nr, loaded.map(|()| &used));
        }
    }
}
