//! Workers that add extents to files whose cached extents fill their memory: calls of the shrinker.
//!
//! The files are made before virtual time begins. Each has a map too deep for its inode, which is
//! cached.

use super::calls::{Calls, Run};
use anyhow::{Context, Result, anyhow};
use std::sync::Arc;
use std::time::Duration;
use uext4::mkfs::{self, InodeCount, MkfsOptions, Preset};
use uext4::{Caller, FallocateMode, Filesystem, InodeRef, MountOptions, Threads, WriteContext};
use uext4_device::MemDevice;
use uext4_sync::{simulation, thread};

const BLOCK_BYTES: u64 = 1024;
/// Extents of each file before the run.
const EXTENTS: u64 = 8;
/// Extents that each worker adds.
const ADDED: u64 = 256;

/// The calls of the shrinker while the workers add extents.
pub(super) fn run(run: &Run<'_>) -> Result<Calls> {
    let filesystem = mounted(run)?;
    let files = filled(&filesystem, run)?;
    let before = filesystem.stats().extent_status;
    filesystem.set_tunable("extent_cache", before.used_bytes)?;
    let cores = run.host.cores.max(run.workers as usize);
    simulation::run(&run.host.machine, cores, || {
        run.work.set();
        let (filesystem, files) = (&filesystem, &files);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..run.workers)
                .map(|worker| scope.spawn(move || add(filesystem, files, run.workers, worker)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a worker panicked"))?)
        })
    })?;
    let after = filesystem.stats().extent_status;
    drop(files);
    filesystem.unmount()?;
    Ok(Calls {
        count: after.shrinker_calls,
        total: Duration::from_nanos(after.shrinker_ns),
        worst: Duration::from_nanos(after.worst_call_ns),
    })
}

fn mounted(run: &Run<'_>) -> Result<Filesystem> {
    let device = MemDevice::new((1 << 30) + run.size * (EXTENTS + ADDED) * BLOCK_BYTES);
    let options = MkfsOptions {
        block_size: Some(BLOCK_BYTES as u32),
        inodes: InodeCount::AtLeast(u32::try_from(run.size + 100)?),
        // Fixed, so that runs repeat.
        uuid: Some([0x5a; 16]),
        hash_seed: Some([0xa5; 16]),
        time: Some(1_700_000_000),
        ..MkfsOptions::new(Preset::Ext4)
    };
    mkfs::format(&device, &options)?;
    let options = MountOptions {
        threads: Threads::Inline,
        extent_cache_bytes: u64::MAX,
        metadata_cache_bytes: Some(4 << 30),
        base_lines: run.base_lines,
        ..MountOptions::default()
    };
    Ok(Filesystem::mount(Arc::new(device), options)?)
}

fn filled(filesystem: &Filesystem, run: &Run<'_>) -> Result<Vec<InodeRef>> {
    let (root, caller) = (filesystem.root()?, Caller::root());
    (0..run.size)
        .map(|nr| -> Result<InodeRef> {
            let file = filesystem.create(&root, nr.to_string().as_bytes(), 0o600, &caller)?;
            (0..EXTENTS).try_for_each(|place| allocate(filesystem, &file, place))?;
            (0..EXTENTS).try_for_each(|place| read_block(filesystem, &file, place))?;
            Ok(file)
        })
        .collect()
}

/// Every second block, so that no two extents are merged.
fn offset_of(place: u64) -> u64 {
    place * 2 * BLOCK_BYTES
}

fn allocate(filesystem: &Filesystem, file: &InodeRef, place: u64) -> Result<()> {
    let bytes = offset_of(place)..offset_of(place) + BLOCK_BYTES;
    let (mode, context) = (FallocateMode::Allocate, &WriteContext::ROOT);
    Ok(filesystem.fallocate(file, mode, bytes, context)?)
}

fn read_block(filesystem: &Filesystem, file: &InodeRef, place: u64) -> Result<()> {
    let mut block = [0; BLOCK_BYTES as usize];
    filesystem.read(file, offset_of(place), &mut block)?;
    Ok(())
}

/// The work of one worker: extents for its files in turn.
fn add(filesystem: &Filesystem, files: &[InodeRef], workers: u32, worker: u32) -> Result<()> {
    let own: Vec<&InodeRef> = files
        .iter()
        .skip(worker as usize)
        .step_by(workers as usize)
        .collect();
    for nr in 0..ADDED {
        let at = (nr as usize)
            .checked_rem(own.len())
            .context("too few files")?;
        let place = EXTENTS + nr / own.len() as u64;
        allocate(filesystem, own[at], place)?;
        read_block(filesystem, own[at], place)?;
    }
    Ok(())
}
