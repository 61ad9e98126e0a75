//! Images of a kernel mount after a simulated power cut, and the trees that each recovery produces.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use uext4::device::{Access, BlockDevice, FileDevice};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{KernelMount, Repair, e2fsck, e2fsck_repair, mke2fs_image};

/// The kernel must not commit in the background while the image is copied.
pub(crate) const NO_COMMITS: &str = "commit=300";

/// An image whose journal needs replay, in a private directory.
pub(crate) struct Crashed {
    dir: TempDir,
    image: PathBuf,
    live: Manifest,
}

impl Crashed {
    /// Creates a file system of `mib` MiB with `mke2fs`, runs `work` on the kernel's mount, and
    /// copies the device at the end: changes that were not durable are lost.
    pub(crate) fn by_kernel(
        mib: u64,
        mke2fs: &[&str],
        mount: &str,
        work: impl FnOnce(&Path),
    ) -> Self {
        let (dir, live) = mke2fs_image(mib << 20, mke2fs).expect("mke2fs");
        let options = [NO_COMMITS, mount].join(if mount.is_empty() { "" } else { "," });
        let mounted = KernelMount::new(&live, &options).expect("the kernel mounts a fresh image");
        work(mounted.path());
        let image = dir.path().join("crashed.img");
        std::fs::copy(&live, &image).expect("room for a copy");
        let tree = Manifest::of_dir(mounted.path()).expect("the tree can be walked");
        mounted.unmount().expect("unmount");
        std::fs::remove_file(live).expect("the live image is there");
        Self {
            dir,
            image,
            live: tree,
        }
    }

    /// Wraps a copy of a given crashed image.
    pub(crate) fn from_image(crashed: &Path) -> Self {
        let dir = uext4_testkit::oracle::scratch_dir().expect("a scratch directory");
        let image = dir.path().join("crashed.img");
        std::fs::copy(crashed, &image).expect("room for a copy");
        Self {
            dir,
            image,
            live: Manifest::default(),
        }
    }

    /// The crashed image, which is never written.
    pub(crate) fn image(&self) -> &Path {
        &self.image
    }

    /// The tree of the kernel's mount at the crash.
    pub(crate) fn live_tree(&self) -> &Manifest {
        &self.live
    }

    /// Creates a copy for a recovery.
    pub(crate) fn copy(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::copy(&self.image, &path).expect("room for a copy");
        path
    }

    /// The tree after our recovery, which e2fsck must call clean.
    #[track_caller]
    pub(crate) fn our_tree(&self) -> Manifest {
        let image = self.copy("ours.img");
        let fs = Filesystem::mount(open(&image), options()).expect("our mount recovers");
        fs.unmount().expect("our unmount");
        drop(fs);
        clean_tree(&image)
    }

    /// The tree after the kernel's own recovery.
    pub(crate) fn kernel_tree(&self) -> anyhow::Result<Manifest> {
        tree(&self.copy("kernel.img"))
    }

    /// The tree after e2fsck's journal replay; `None` if e2fsck then finds further problems.
    pub(crate) fn e2fsck_tree(&self) -> Option<Manifest> {
        let image = self.copy("e2fsck.img");
        e2fsck_repair(&image, Repair::JournalOnly).expect("e2fsck runs");
        let is_clean = e2fsck(&image).expect("e2fsck runs").is_clean();
        is_clean.then(|| tree(&image).expect("the kernel mounts a clean image"))
    }
}

/// Mount options for runs that repeat exactly.
pub(crate) fn options() -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    }
}

/// An image file as a device.
pub(crate) fn open(image: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(FileDevice::open(image, Access::ReadWrite).expect("an image file"))
}

/// The tree as seen through the kernel's mount.
pub(crate) fn tree(image: &Path) -> anyhow::Result<Manifest> {
    let mounted = KernelMount::new(image, "")?;
    let tree = Manifest::of_dir(mounted.path())?;
    mounted.unmount()?;
    Ok(tree)
}

/// The tree of an image that e2fsck must call clean.
#[track_caller]
pub(crate) fn clean_tree(image: &Path) -> Manifest {
    let verdict = e2fsck(image).expect("e2fsck runs");
    assert!(verdict.is_clean(), "{verdict}");
    tree(image).expect("the kernel mounts a clean image")
}

/// Ignores directory mtimes, which a replay does not know, and compares data ranges too.
pub(crate) fn policy() -> Policy {
    Policy::default()
        .ignore(Field::DirectoryMtime)
        .check(Field::DataRuns)
}
