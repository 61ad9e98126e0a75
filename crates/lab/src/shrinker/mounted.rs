//! The same writers on a mount: ours, and the kernel's ext4.
//!
//! They use direct I/O, since the page cache would merge their blocks to whole pages. Our server
//! has a budget and reports its shrinker's statistics. The kernel has no budget: it is put under
//! memory pressure repeatedly, and `es_shrinker_info` has its longest call, by wall clock: a call
//! that is preempted looks slow there.

use super::load::{self, BLOCK_BYTES, DISK_BYTES, Load};
use super::{Calls, Plan, Times};
use crate::cleanup::Cleanup;
use crate::stage::{Setup, Stage, WorkerAccess};
use crate::system::System;
use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use uext4_fuse::{Ask, Client};
use uext4_sync::atomic::{AtomicBool, Ordering::Relaxed};
use uext4_testkit::oracle;

/// Pause between two requests to free memory.
const PAUSE: Duration = Duration::from_millis(20);
/// Value that frees reclaimable slab objects: inodes, dentries and others (`sysctl/vm.rst`).
const FREE_OBJECTS: &str = "2";

/// An aligned block for `O_DIRECT`.
#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES as usize]);

/// Runs the writers of `load` on a mount of `system`.
pub(super) fn run(plan: &Plan, system: System, load: Load) -> Result<Calls> {
    let block = BLOCK_BYTES.to_string();
    let (dir, image) = oracle::mke2fs_image(DISK_BYTES, &["-b", &block])?;
    let mut cleanup = Cleanup::start()?;
    cleanup.watch(dir.path())?;
    let setup = Setup {
        options: if system.is_ours() {
            format!("nodelalloc,extent_cache={}", load.memory_bytes(plan))
        } else {
            "nodelalloc".to_owned()
        },
        ..Setup::default()
    };
    let stage = Stage::mount(system, &image, dir.path(), &setup, &mut cleanup)?;
    let calls = match (&stage, stage.access()) {
        (Stage::Kernel(mount), WorkerAccess::Directory(root)) => {
            under_pressure(|| write(plan, load, &root))?;
            of_kernel(mount.loop_device(), &root)
        }
        (_, WorkerAccess::Directory(root)) => {
            write(plan, load, &root).and_then(|()| of_server(&root))
        }
        (_, WorkerAccess::Library(_)) => bail!("the library is no mount"),
    };
    stage.tear_down()?;
    calls
}

/// Runs all writers; each writes its blocks and reads them back. The files are more than a process
/// may have open.
fn write(plan: &Plan, load: Load, root: &Path) -> Result<()> {
    let open = |nr: u32| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        options.custom_flags(OFlags::DIRECT.bits() as i32);
        options.open(root.join(nr.to_string()))
    };
    (0..load.files(plan)).try_for_each(|nr| open(nr).map(drop))?;
    load::in_parallel(plan, |worker| {
        let mut block = Block([0x5a; BLOCK_BYTES as usize]);
        for place in load.places(plan, worker) {
            let file = open(place.file)?;
            let at = u64::from(place.block) * BLOCK_BYTES;
            file.write_all_at(&block.0, at)?;
            file.read_exact_at(&mut block.0, at)?;
        }
        Ok(())
    })
}

/// Runs `work` under memory pressure, applied once more at the end.
fn under_pressure(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let free = || fs::write("/proc/sys/vm/drop_caches", FREE_OBJECTS);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let press = scope.spawn(|| -> std::io::Result<()> {
            while !done.load(Relaxed) {
                free()?;
                std::thread::sleep(PAUSE);
            }
            free()
        });
        let worked = work();
        done.store(true, Relaxed);
        let pressed = press.join();
        worked?;
        pressed
            .expect("it returns what fails")
            .context("drop caches")
    })
}

/// The statistics of our server.
fn of_server(root: &Path) -> Result<Calls> {
    let mut stats = Client::connect(root)?.ask(&Ask::Stats {})?;
    let stats = serde_json::from_value(stats["extent_status"].take())?;
    Ok(load::calls_of(&stats))
}

/// The statistics of the kernel; they have no count of calls, and are empty without extents.
fn of_kernel(device: &str, root: &Path) -> Result<Calls> {
    let known = fs::File::create(root.join("known"))?;
    known.write_all_at(b"known", 0)?;
    known.sync_all()?;
    let name = device.trim_start_matches("/dev/");
    let path = Path::new("/proc/fs/ext4")
        .join(name)
        .join("es_shrinker_info");
    let said = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let number = |what: &str| -> Result<f64> {
        let mut lines = said
            .lines()
            .filter_map(|line| line.trim().strip_suffix(what));
        let value = lines
            .next()
            .with_context(|| format!("no `{what}`: {said}"))?;
        Ok(value.trim().parse()?)
    };
    let wall = Times {
        worst_us: number("us max scan time")?,
        mean_us: number("us scan time")?,
        p999_us: None,
    };
    Ok(Calls {
        wall,
        of_ours: None,
    })
}
