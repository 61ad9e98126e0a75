//! Test fixture: a file system made by mke2fs in memory with one file, checked by e2fsck.

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::state::space::{Purpose, Reserve, Want};
use crate::types::options::{MountOptions, Threads};
use uext4_device::MemDevice;
use uext4_format::{BlockRun, FileType, InodeNr};
use uext4_sync::Arc;
use uext4_testkit::oracle;

/// A mounted file system and its empty file `/file`.
pub(crate) struct Rig {
    pub(crate) device: Arc<MemDevice>,
    pub(crate) mounted: Filesystem,
    pub(crate) file: InodeRef,
    options: MountOptions,
}

/// Mount options of rigs: no background work, and allocation at the write.
fn options() -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        delalloc: Some(false),
        ..MountOptions::default()
    }
}

impl Rig {
    /// Makes a file system of `size_mib` MiB with mke2fs and these options, and mounts it.
    pub(crate) fn new(size_mib: u64, made_with: &[&str]) -> Self {
        Self::with(size_mib, made_with, options())
    }

    /// As [`Rig::new`], with delayed allocation and this limit of dirty bytes.
    pub(crate) fn delayed(size_mib: u64, made_with: &[&str], memory_bytes: u64) -> Self {
        let options = MountOptions {
            delalloc: Some(true),
            delalloc_memory_bytes: Some(memory_bytes),
            ..options()
        };
        Self::with(size_mib, made_with, options)
    }

    fn with(size_mib: u64, made_with: &[&str], options: MountOptions) -> Self {
        let source = oracle::scratch_dir().expect("a scratch directory");
        std::fs::write(source.path().join("file"), b"").expect("an empty file");
        let path = source.path().to_str().expect("a path of ASCII");
        let made_with = [&["-d", path], made_with].concat();
        let made = oracle::mke2fs_image(size_mib << 20, &made_with);
        let (_scratch, image) = made.expect("mke2fs makes an image");
        let bytes = std::fs::read(image).expect("the image");
        Self::mount_with(Arc::new(MemDevice::from_bytes(&bytes)), options)
    }

    /// Mounts an image that [`Rig::new`] made, or a copy of it.
    pub(crate) fn mount_image(bytes: &[u8]) -> Self {
        Self::mount(Arc::new(MemDevice::from_bytes(bytes)))
    }

    /// Mounts the image on `device`.
    pub(crate) fn mount(device: Arc<MemDevice>) -> Self {
        Self::mount_with(device, options())
    }

    fn mount_with(device: Arc<MemDevice>, options: MountOptions) -> Self {
        let mounted = Filesystem::mount(device.clone(), options.clone()).expect("mounts");
        let first = mounted.fs.base.geometry.first_inode;
        let nr = (first..first + 4)
            .find(|nr| {
                let inode = mounted.fs.inode(InodeNr(*nr));
                inode.is_ok_and(|inode| inode.read().disk.file_type() == Some(FileType::Regular))
            })
            .expect("the file");
        let file = mounted.fs.inode(InodeNr(nr)).expect("the file");
        Self {
            device,
            mounted,
            file,
            options,
        }
    }

    pub(crate) fn fs(&self) -> &Fs {
        &self.mounted.fs
    }

    /// Limit of dirty bytes.
    pub(crate) fn bound(&self) -> u64 {
        self.options.delalloc_memory_bytes.unwrap_or(0)
    }

    /// Unmounts and mounts again.
    pub(crate) fn remount(self) -> Self {
        let (device, options) = (self.device.clone(), self.options.clone());
        self.unmount();
        Self::mount_with(device, options)
    }

    /// Allocates all free blocks, including those for metadata. They leak when the rig ends without
    /// [`Self::give_all`].
    pub(crate) fn take_all(&self) -> Vec<BlockRun> {
        let want = Want {
            goal: None,
            len_blocks: 1024,
            min_blocks: 1,
            inode: self.file.nr(),
            purpose: Purpose::Metadata,
            reserve: Reserve::MayUse,
            end: None,
        };
        std::iter::from_fn(|| {
            self.fs()
                .space
                .reserve_or_commit(&self.fs().base, &want)
                .ok()
        })
        .collect()
    }

    /// Frees the blocks of [`Self::take_all`].
    pub(crate) fn give_all(&self, runs: Vec<BlockRun>) {
        runs.into_iter()
            .for_each(|run| self.fs().space.unreserve(run));
    }

    /// Unmounts, lets `change` use the file on a kernel mount, and mounts again.
    pub(crate) fn with_kernel(self, change: impl FnOnce(&std::path::Path)) -> Self {
        let (device, options) = (self.device.clone(), self.options.clone());
        self.unmount();
        let scratch = oracle::scratch_dir().expect("a scratch directory");
        let image = scratch.path().join("image.img");
        std::fs::write(&image, device.to_bytes()).expect("the image");
        let mount = oracle::KernelMount::new(&image, "").expect("the kernel mounts it");
        change(&mount.path().join("file"));
        mount.unmount().expect("the kernel unmounts it");
        let bytes = std::fs::read(&image).expect("the image");
        Self::mount_with(Arc::new(MemDevice::from_bytes(&bytes)), options)
    }

    /// Unmounts and asserts that e2fsck finds no error.
    pub(crate) fn assert_clean(self) {
        let device = self.device.clone();
        self.unmount();
        let scratch = oracle::scratch_dir().expect("a scratch directory");
        let image = scratch.path().join("image.img");
        std::fs::write(&image, device.to_bytes()).expect("the image");
        if let Ok(keep) = std::env::var("UEXT4_KEEP_IMAGE") {
            std::fs::copy(&image, keep).expect("a copy of the image");
        }
        oracle::assert_clean(&image);
    }

    fn unmount(self) {
        drop(self.file);
        self.mounted.unmount().expect("unmounts");
    }
}

/// Number of cases: few by default, since each runs mke2fs and e2fsck; `PROPTEST_CASES` overrides
/// it.
pub(crate) fn proptest_config(cases: u32) -> proptest::test_runner::Config {
    let wanted = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    proptest::test_runner::Config {
        cases: wanted.unwrap_or(cases),
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}
