//! Three ways to recover an image, each of which ends with a clean e2fsck.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;
use uext4::device::{BlockDevice, MemDevice, Recorder};
use uext4::{Filesystem, MountOptions};
use uext4_testkit::manifest::{HostDir, Manifest};
use uext4_testkit::oracle::{KernelMount, Repair, e2fsck, e2fsck_repair, scratch_dir};

use super::play::{clock, options};
use crate::EngineTarget;

/// Unit of copying between memory and files.
const CHUNK_BYTES: usize = 64 << 10;

/// A file for the judges, written anew for every image.
pub(super) struct Scratch {
    _dir: TempDir,
    path: PathBuf,
}

impl Scratch {
    pub(super) fn new() -> Result<Self> {
        let dir = scratch_dir()?;
        let path = dir.path().join("image");
        Ok(Self { _dir: dir, path })
    }

    fn fill(&self, image: &MemDevice) -> Result<()> {
        let file = File::create(&self.path)?;
        file.set_len(image.size_bytes())?;
        let mut chunk = vec![0; CHUNK_BYTES];
        for at in (0..image.size_bytes()).step_by(CHUNK_BYTES) {
            image.read_at(at, &mut chunk)?;
            if chunk.iter().any(|byte| *byte != 0) {
                file.write_all_at(&chunk, at)?;
            }
        }
        Ok(())
    }

    fn take(&self) -> Result<MemDevice> {
        Ok(MemDevice::from_bytes(&std::fs::read(&self.path)?))
    }

    fn must_be_clean(&self, after: &str) -> Result<()> {
        let verdict = e2fsck(&self.path)?;
        ensure!(verdict.is_clean(), "e2fsck -fn after {after}: {verdict}");
        Ok(())
    }

    /// e2fsck finds nothing to repair.
    pub(super) fn check(&self, image: &MemDevice, after: &str) -> Result<()> {
        self.fill(image)?;
        self.must_be_clean(after)
    }

    /// `e2fsck -p` replays and repairs what it may; then the image is clean. Answers the tree.
    pub(super) fn by_e2fsck(&self, image: &MemDevice) -> Result<Manifest> {
        self.fill(image)?;
        let verdict = e2fsck_repair(&self.path, Repair::Preen)?;
        ensure!(verdict.is_repaired(), "e2fsck -p: {verdict}");
        self.must_be_clean("e2fsck -p")?;
        let fixed = Arc::new(self.take()?);
        let fs = Filesystem::mount(
            fixed,
            MountOptions {
                no_atime: true,
                ..options(clock())
            },
        )?;
        let tree = Manifest::of(&EngineTarget::new(&fs));
        tree.context("the tree after e2fsck -p")
    }

    /// `e2fsck -y` makes the image clean.
    pub(super) fn repair(&self, image: &MemDevice) -> Result<()> {
        self.fill(image)?;
        let verdict = e2fsck_repair(&self.path, Repair::Everything)?;
        ensure!(verdict.is_repaired(), "e2fsck -y: {verdict}");
        self.must_be_clean("e2fsck -y")
    }

    /// The kernel mounts the image, and unmounts it clean. Answers the tree.
    pub(super) fn by_kernel(&self, image: &MemDevice) -> Result<Manifest> {
        self.fill(image)?;
        let mount = KernelMount::new(&self.path, "noatime")?;
        let tree = Manifest::of(&HostDir::new(mount.path())).context("the tree in the kernel");
        mount.unmount()?;
        self.must_be_clean("the kernel's mount")?;
        tree
    }
}

/// What our own recovery left.
pub(super) struct Recovered {
    pub(super) fs: Filesystem,
    pub(super) device: Arc<MemDevice>,
    pub(super) tree: Manifest,
}

/// Our mount of `image`, which recovers it.
pub(super) fn by_us(image: MemDevice) -> Result<Recovered> {
    let device = Arc::new(image);
    no_panic("our recovery", || {
        let fs = Filesystem::mount(device.clone(), options(clock())).context("our mount")?;
        let tree = Manifest::of(&EngineTarget::new(&fs)).context("the tree after our mount")?;
        Ok(Recovered {
            fs,
            device: device.clone(),
            tree,
        })
    })
}

/// Our mount and unmount of `image`, recorded, so that they can be cut too.
pub(super) fn recorded(image: MemDevice) -> Result<Recorder> {
    let recorder = Arc::new(Recorder::new(Arc::new(image)));
    let fs = Filesystem::mount(recorder.clone(), options(clock())).context("our mount")?;
    fs.unmount().context("our unmount")?;
    drop(fs);
    Arc::into_inner(recorder).context("the mount lets go of its device")
}

/// A panic is a failure like any other, so that it is reported with its case.
pub(super) fn no_panic<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow!("{what} panicked: {}", text.unwrap_or_default()))
    })
}
