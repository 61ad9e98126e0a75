//! The loads of the writers, and their run on the library.

use super::{Calls, Plan};
use anyhow::{Result, anyhow};
use std::sync::Arc;
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{BaseLines, Caller, ExtentStatusStats, Filesystem, MountOptions, WriteContext};
use uext4_device::MemDevice;
use uext4_sync::LatencySummary;

pub(super) const BLOCK_BYTES: u64 = 1024;
const FILE_BYTES: u64 = 1 << 30;
pub(super) const DISK_BYTES: u64 = 2 << 30;
/// Blocks written in each of many files: enough extents for a deep map, which is cached.
const BLOCKS_PER_FILE: u32 = 8;

#[derive(Clone, Copy)]
pub(super) enum Load {
    ManyFiles,
    /// Each writer writes a part of one of two files.
    TwoSparse,
}

/// One block to write.
#[derive(Clone, Copy)]
pub(super) struct FileBlock {
    pub(super) file: u32,
    pub(super) block: u32,
}

impl Load {
    pub(super) fn files(self, plan: &Plan) -> u32 {
        match self {
            Self::ManyFiles => plan.workers * files_of_writer(plan),
            Self::TwoSparse => 2,
        }
    }

    /// Default memory for extents: of many files, most of the 7 entries of each fit, so that all
    /// files are listed.
    pub(super) fn memory_bytes(self, plan: &Plan) -> u64 {
        const BYTES_PER_FILE: u64 = 400;
        let own = match self {
            Self::ManyFiles => u64::from(self.files(plan)) * BYTES_PER_FILE,
            Self::TwoSparse => 1 << 20,
        };
        plan.memory_bytes.unwrap_or(own)
    }

    /// The blocks of a writer in the order of its writes; no two are adjacent.
    pub(super) fn places(
        self,
        plan: &Plan,
        worker: u32,
    ) -> impl Iterator<Item = FileBlock> + use<> {
        let part = (FILE_BYTES / BLOCK_BYTES) as u32 / plan.workers.div_ceil(2);
        let stride = (part / plan.blocks).max(2);
        let files = files_of_writer(plan);
        (0..plan.blocks).map(move |nr| match self {
            Self::ManyFiles => FileBlock {
                file: worker * files + nr % files,
                block: nr / files * 2,
            },
            Self::TwoSparse => FileBlock {
                file: worker % 2,
                block: worker / 2 * part + nr * stride % part,
            },
        })
    }
}

/// Files of each writer in the load with many.
fn files_of_writer(plan: &Plan) -> u32 {
    (plan.blocks / BLOCKS_PER_FILE).max(1)
}

/// Runs `work` for all writers in parallel.
pub(super) fn in_parallel(plan: &Plan, work: impl Fn(u32) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..plan.workers)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a writer panicked"))?)
    })
}

/// Runs the writers on the library; each writes its blocks and reads them back.
pub(super) fn in_library(plan: &Plan, load: Load, base_lines: BaseLines) -> Result<Calls> {
    let device = Arc::new(MemDevice::new(DISK_BYTES));
    let shape = MkfsOptions {
        block_size: Some(BLOCK_BYTES as u32),
        ..MkfsOptions::new(Preset::Ext4)
    };
    mkfs::format(&*device, &shape)?;
    let options = MountOptions {
        extent_cache_bytes: load.memory_bytes(plan),
        threads: uext4::Threads::Inline,
        // Delayed data have no extents yet.
        delalloc: Some(false),
        base_lines,
        ..MountOptions::default()
    };
    let filesystem = Filesystem::mount(device, options)?;
    let caller = Caller::root();
    let top = filesystem.root()?;
    let files: Vec<_> = (0..load.files(plan))
        .map(|nr| filesystem.create(&top, nr.to_string().as_bytes(), 0o600, &caller))
        .collect::<Result<_, _>>()?;
    in_parallel(plan, |worker| {
        let (data, mut back) = ([0x5a; BLOCK_BYTES as usize], [0; BLOCK_BYTES as usize]);
        for place in load.places(plan, worker) {
            let file = &files[place.file as usize];
            let at = u64::from(place.block) * BLOCK_BYTES;
            filesystem.write(file, at, &data, &WriteContext::ROOT)?;
            filesystem.read(file, at, &mut back)?;
        }
        Ok(())
    })?;
    let stats = filesystem.stats().extent_status;
    drop((files, top));
    filesystem.unmount()?;
    Ok(calls_of(&stats))
}

/// The statistics of our shrinker.
pub(super) fn calls_of(stats: &ExtentStatusStats) -> Calls {
    let wall = LatencySummary {
        count: stats.shrinker_calls,
        total_ns: stats.shrinker_ns,
        worst_ns: stats.worst_call_ns,
        p999_ns: stats.p999_call_ns,
    };
    let thread = LatencySummary {
        count: stats.shrinker_calls,
        total_ns: stats.shrinker_thread_ns,
        worst_ns: stats.worst_call_thread_ns,
        p999_ns: stats.p999_call_thread_ns,
    };
    Calls::of_ours(&wall, &thread, stats.shrinker_dropped)
}
