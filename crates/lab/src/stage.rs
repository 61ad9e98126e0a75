//! A fresh file system of one system, ready for workers; dropping it releases everything.

use crate::backing::Backing;
use crate::cleanup::Cleanup;
use crate::mounts::FuseMount;
use crate::system::System;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::{BaseLines, Filesystem, MountOptions};
use uext4_device::{Access, FileDevice};
use uext4_testkit::oracle::KernelMount;

/// Access of workers to the file system.
pub(crate) enum WorkerAccess {
    /// By calls in this process.
    Library(Arc<Filesystem>),
    /// Under a directory; one process per worker.
    Directory(PathBuf),
}

/// Format and mount options of a file system.
#[derive(Default)]
pub(crate) struct Setup {
    /// Features for mke2fs, separated by commas.
    pub(crate) features: String,
    /// Mount options of uext4 or the kernel.
    pub(crate) options: String,
    /// Earlier designs of the library, in process and on our mount.
    pub(crate) base_lines: BaseLines,
}

/// A mounted file system: in this process, by the kernel, or by FUSE.
pub(crate) enum Stage {
    Library(Arc<Filesystem>),
    Kernel(KernelMount),
    Fuse(FuseMount),
}

impl Stage {
    /// Formats the backing and mounts it with `setup`.
    pub(crate) fn prepare(
        system: System,
        backing: &Backing,
        setup: &Setup,
        cleanup: &mut Cleanup,
    ) -> Result<Self> {
        backing.format(&setup.features)?;
        Self::mount(system, &backing.image(), backing.dir(), setup, cleanup)
    }

    /// Mounts an image; mount points are created in `scratch`.
    pub(crate) fn mount(
        system: System,
        image: &Path,
        scratch: &Path,
        setup: &Setup,
        cleanup: &mut Cleanup,
    ) -> Result<Self> {
        match system {
            System::Uext4 => library(image, setup),
            System::KernelExt4 => {
                let mount = KernelMount::new(image, &setup.options)?;
                cleanup.watch(mount.path())?;
                Ok(Self::Kernel(mount))
            }
            System::Uext4Mount => Ok(Self::Fuse(FuseMount::ours(image, scratch, setup)?)),
            System::Fuse2fs => Ok(Self::Fuse(FuseMount::fuse2fs(image, scratch)?)),
        }
    }

    /// Access for the workers.
    pub(crate) fn access(&self) -> WorkerAccess {
        match self {
            Self::Library(filesystem) => WorkerAccess::Library(filesystem.clone()),
            Self::Kernel(mount) => WorkerAccess::Directory(mount.path().to_owned()),
            Self::Fuse(mount) => WorkerAccess::Directory(mount.path().to_owned()),
        }
    }

    /// Unmounts and returns errors; a drop only prints them.
    pub(crate) fn tear_down(self) -> Result<()> {
        match self {
            Self::Library(filesystem) => Ok(filesystem.unmount()?),
            Self::Kernel(mount) => mount.unmount(),
            Self::Fuse(mount) => mount.unmount(),
        }
    }
}

/// Opens an image with the library.
pub(crate) fn open(image: &Path, setup: &Setup) -> uext4::Result<Filesystem> {
    let mut options = MountOptions::default().parse(&setup.options)?;
    options.base_lines = setup.base_lines;
    let device = FileDevice::open(image, Access::ReadWrite)?;
    Filesystem::mount(Arc::new(device), options)
}

fn library(image: &Path, setup: &Setup) -> Result<Stage> {
    let filesystem = open(image, setup).context("mount with the library")?;
    Ok(Stage::Library(Arc::new(filesystem)))
}
