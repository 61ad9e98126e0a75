//! Three ways to recover an image, each followed by a clean e2fsck.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;
use uext4::Filesystem;
use uext4::device::{BlockDevice, MemDevice};
use uext4_testkit::manifest::{HostDir, Manifest};
use uext4_testkit::oracle::{
    KernelMount, LoopDevice, Repair, Verdict, e2fsck, e2fsck_of_pair, e2fsck_repair, scratch_dir,
};

use super::config::Config;
use super::disk::{Disk, Recorders};
use super::event_log::EventLog;
use super::record::{clock, options};
use crate::EngineTarget;

/// Unit of copying between memory and files.
const CHUNK_BYTES: usize = 64 << 10;

/// Whether the kernel can mount here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Available,
    Missing,
}

impl Kernel {
    fn here(config: &Config) -> Self {
        let can_mount = !config.has_quota() || KernelMount::has_quota();
        if KernelMount::is_available() && can_mount {
            Self::Available
        } else {
            Self::Missing
        }
    }
}

/// Scratch files for the external checks, rewritten for every image.
pub(super) struct Scratch {
    config: Config,
    kernel: Kernel,
    /// Created for the first image.
    bench: Option<Bench>,
}

/// A device of a [`Disk`] as a file. Where the kernel can mount, also as a loop device, which an
/// external journal needs in any case.
struct Slot {
    path: PathBuf,
    device: Option<LoopDevice>,
}

struct Bench {
    main: Slot,
    journal: Option<Slot>,
    _dir: TempDir,
}

impl Slot {
    fn new(path: PathBuf, image: &MemDevice, kernel: Kernel) -> Result<Self> {
        File::create(&path)?.set_len(image.size_bytes())?;
        let device = match kernel {
            Kernel::Available => Some(LoopDevice::attach(&path)?),
            Kernel::Missing => None,
        };
        Ok(Self { path, device })
    }

    fn fill(&self, image: &MemDevice) -> Result<()> {
        let file = File::create(&self.path)?;
        file.set_len(image.size_bytes())?;
        let (mut chunk, zeroes) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        for at in (0..image.size_bytes()).step_by(CHUNK_BYTES) {
            let len = (image.size_bytes() - at).min(CHUNK_BYTES as u64) as usize;
            image.read_at(at, &mut chunk[..len])?;
            if chunk[..len] != zeroes[..len] {
                file.write_all_at(&chunk[..len], at)?;
            }
        }
        self.device.iter().try_for_each(LoopDevice::forget)
    }

    fn take(&self) -> Result<Arc<MemDevice>> {
        Ok(Arc::new(MemDevice::from_bytes(&std::fs::read(&self.path)?)))
    }

    fn device(&self) -> Result<&LoopDevice> {
        self.device.as_ref().context("loop devices are available")
    }
}

impl Bench {
    fn new(disk: &Disk, kernel: Kernel) -> Result<Self> {
        let dir = scratch_dir()?;
        let slot = |name, image| Slot::new(dir.path().join(name), image, kernel);
        let journal = disk.journal.as_ref();
        Ok(Self {
            main: slot("image", &disk.main)?,
            journal: journal.map(|image| slot("journal", image)).transpose()?,
            _dir: dir,
        })
    }

    fn fill(&self, disk: &Disk) -> Result<()> {
        self.main.fill(&disk.main)?;
        match (&self.journal, &disk.journal) {
            (Some(slot), Some(image)) => slot.fill(image),
            _ => Ok(()),
        }
    }

    fn e2fsck(&self, repair: Option<Repair>) -> Result<Verdict> {
        match (&self.journal, repair) {
            (Some(journal), _) => {
                let journal = Path::new(journal.device()?.path());
                e2fsck_of_pair(&self.main.path, journal, repair)
            }
            (None, None) => e2fsck(&self.main.path),
            (None, Some(repair)) => e2fsck_repair(&self.main.path, repair),
        }
    }

    /// Answers false for a log that e2fsck refuses wrongly.
    fn repair(&self, how: Repair) -> Result<bool> {
        let mut verdict = self.e2fsck(Some(how))?;
        if refuses_stale_area(&verdict) {
            return Ok(false);
        }
        if !verdict.is_repaired() && stopped_at_attribute_count(&verdict) {
            verdict = self.e2fsck(Some(Repair::Everything))?;
        }
        ensure!(verdict.is_repaired(), "e2fsck {how:?}: {verdict}");
        self.must_be_clean("e2fsck repaired")?;
        Ok(true)
    }

    fn must_be_clean(&self, after: &str) -> Result<()> {
        let verdict = self.e2fsck(None)?;
        ensure!(verdict.is_clean(), "e2fsck -fn after {after}: {verdict}");
        Ok(())
    }

    fn kernel_options(&self) -> Result<String> {
        Ok(match &self.journal {
            Some(journal) => format!("journal_path={}", journal.device()?.path()),
            None => String::new(),
        })
    }
}

/// Whether e2fsck refused the log because its area has fast commits of another transaction, as
/// after each full commit until they are overwritten. e2fsck 1.47 discards such a log, the kernel
/// ignores the area.
fn refuses_stale_area(verdict: &Verdict) -> bool {
    verdict
        .output
        .contains("Invalid argument while recovering journal")
}

/// Whether `e2fsck -p` stopped at the reference count of an attribute block after it had freed an
/// orphan. e2fsck 1.47 frees an orphan with inline data without its reference to a shared block;
/// the kernel and our recovery release it.
fn stopped_at_attribute_count(verdict: &Verdict) -> bool {
    let problems = verdict.problems();
    let stop = problems
        .iter()
        .position(|line| line.contains("UNEXPECTED INCONSISTENCY"));
    let reason = stop.and_then(|stop| problems[..stop].last());
    let frees_orphans = problems
        .iter()
        .any(|line| line.contains("Clearing orphaned inode"));
    frees_orphans && reason.is_some_and(|line| line.contains("Extended attribute block"))
}

impl Scratch {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            kernel: Kernel::here(&config),
            bench: None,
        }
    }

    /// Whether the kernel can judge here.
    pub(super) fn has_kernel(&self) -> bool {
        self.kernel == Kernel::Available
    }

    fn fill(&mut self, disk: &Disk) -> Result<&Bench> {
        let bench = match self.bench.take() {
            Some(bench) => bench,
            None => Bench::new(disk, self.kernel)?,
        };
        bench.fill(disk)?;
        Ok(self.bench.insert(bench))
    }

    /// Checks with e2fsck that nothing needs repair.
    pub(super) fn check(&mut self, disk: &Disk, after: &str) -> Result<()> {
        self.fill(disk)?.must_be_clean(after)
    }

    /// Recovers with `e2fsck -p` (`-y` for value inodes), then requires a clean image. Answers the
    /// tree; `None` for a log that e2fsck refuses wrongly.
    pub(super) fn by_e2fsck(&mut self, disk: &Disk) -> Result<Option<Manifest>> {
        let repaired = self.repaired(disk, self.config.repair())?;
        let may_refuse = self.config.has_fast_commits();
        ensure!(may_refuse || repaired.is_some(), "e2fsck refuses the log");
        Ok(repaired.map(|repaired| repaired.tree))
    }

    /// Repairs with `e2fsck -y`, requires a clean image, and mounts it with our engine.
    pub(super) fn by_repair(&mut self, disk: &Disk) -> Result<Recovered> {
        let repaired = self.repaired(disk, Repair::Everything)?;
        repaired.context("e2fsck refuses the log")
    }

    fn repaired(&mut self, disk: &Disk, how: Repair) -> Result<Option<Recovered>> {
        let config = self.config;
        let bench = self.fill(disk)?;
        if !bench.repair(how)? {
            return Ok(None);
        }
        let journal = bench.journal.as_ref().map(Slot::take).transpose()?;
        let main = bench.main.take()?;
        let repaired = by_us(&config, Disk { main, journal });
        Ok(Some(
            repaired.with_context(|| format!("after e2fsck {how:?}"))?,
        ))
    }

    /// Repairs with `e2fsck -y` and requires a clean image.
    pub(super) fn repair(&mut self, disk: &Disk) -> Result<()> {
        let repaired = self.fill(disk)?.repair(Repair::Everything)?;
        ensure!(repaired, "e2fsck refuses the log");
        Ok(())
    }

    /// Recovers by a mount of the kernel, then requires a clean image. Answers the tree.
    pub(super) fn by_kernel(&mut self, disk: &Disk) -> Result<Manifest> {
        let bench = self.fill(disk)?;
        let mount = bench.main.device()?.mount(&bench.kernel_options()?)?;
        let tree = Manifest::of(&HostDir::new(mount.path())).context("the tree in the kernel");
        mount.unmount()?;
        bench.must_be_clean("the kernel's mount")?;
        tree
    }
}

/// Result of our own recovery.
pub(super) struct Recovered {
    pub(super) fs: Filesystem,
    pub(super) disk: Disk,
    pub(super) tree: Manifest,
}

/// Recovers by a mount with our engine.
pub(super) fn by_us(config: &Config, disk: Disk) -> Result<Recovered> {
    let (fs, tree) = no_panic("our recovery", || {
        let fs = disk.mount(config.mounted(options(clock())))?;
        let tree = Manifest::of(&EngineTarget::new(&fs)).context("the tree after our mount")?;
        Ok((fs, tree))
    })?;
    Ok(Recovered { fs, disk, tree })
}

/// Records our mount and unmount of a crashed image, so that they can be cut too.
pub(super) fn recorded(config: &Config, disk: Disk) -> Result<EventLog> {
    let recorders = Recorders::new(&disk);
    let fs = recorders.mount(config.mounted(options(clock())))?;
    fs.unmount().context("our unmount")?;
    Ok(EventLog::of(&recorders))
}

/// Turns a panic into an error, so that it is reported with its case.
pub(super) fn no_panic<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow!("{what} panicked: {}", text.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_known(output: &str) -> bool {
        let output = output.to_owned();
        stopped_at_attribute_count(&Verdict {
            code: Some(4),
            output,
        })
    }

    #[test]
    fn only_a_stop_at_the_count_of_an_attribute_block_is_known() {
        let orphan = "i: Clearing orphaned inode 19 (uid=0)\n";
        let count = "i: Extended attribute block 483 has reference count 2, should be 1.\n";
        let stop = "\ni: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\n\t(i.e., without -a)\n";
        let other = "i: Inode 12 has illegal block(s).\n";
        assert!(is_known(&[orphan, count, stop].concat()));
        assert!(!is_known(&[orphan, other, stop].concat()));
        assert!(!is_known(&[orphan, count, other, stop].concat()));
        assert!(!is_known(&[count, stop].concat()));
        assert!(!is_known(&[orphan, count].concat()));
    }
}
