//! Storage of a run: below a volatile cache in memory, in a file, or behind a loop device.

use crate::image;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use uext4::device::{
    Access, BlockDevice, Error, Faulty, FileDevice, MemDevice, User, VolatileDevice,
};
use uext4_testkit::oracle::{self, HeldLoop};
use uext4_testkit::wait;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    File,
    Loop,
}

/// A file and its owners.
struct Files {
    path: PathBuf,
    _dir: TempDir,
    /// The loop device. The kernel detaches it after the last close, even if this process is
    /// killed.
    held: Option<HeldLoop>,
}

impl Files {
    fn new(kind: Kind, template: &MemDevice) -> Self {
        let (dir, path) = image::on_disk(template);
        let held = (kind == Kind::Loop).then(|| HeldLoop::attach(&path).expect("root may"));
        Self {
            path,
            _dir: dir,
            held,
        }
    }

    fn path(&self) -> &Path {
        self.held.as_ref().map_or(&self.path, HeldLoop::path)
    }

    /// Opens the file or device. A process that another thread is starting has copies of all
    /// descriptors until it executes its program, so an earlier claim may last a moment longer.
    fn open(&self) -> Result<FileDevice, Error> {
        let open = || match FileDevice::open(self.path(), Access::ReadWrite) {
            Err(Error::Busy {
                user: User::Unknown { .. },
                ..
            }) => None,
            other => Some(other),
        };
        wait::until("the earlier claim has ended", open)
    }
}

enum Bytes {
    Memory(Arc<VolatileDevice>),
    Files(Files),
}

/// A failing device with a volatile cache.
pub(super) struct Storage {
    pub(super) faulty: Arc<Faulty>,
    bytes: Bytes,
}

impl Storage {
    /// Storage with the content of `template`.
    pub(super) fn new(kind: Kind, template: &MemDevice) -> Self {
        if kind == Kind::Memory {
            let cache = Arc::new(VolatileDevice::new(template));
            return Self {
                faulty: Arc::new(Faulty::over_cache(cache.clone())),
                bytes: Bytes::Memory(cache),
            };
        }
        let files = Files::new(kind, template);
        let file = Arc::new(files.open().expect("a file of its own"));
        let cache = Arc::new(VolatileDevice::over(file));
        Self {
            faulty: Arc::new(Faulty::over_cache(cache)),
            bytes: Bytes::Files(files),
        }
    }

    /// Cuts the power: the cache is lost. The device must not be mounted.
    pub(super) fn cut(self) -> Durable {
        // A file has one writer, and the next mount opens it again.
        drop(self.faulty);
        Durable(self.bytes)
    }
}

/// Durable content after a power cut.
pub(super) struct Durable(Bytes);

impl Durable {
    /// A writable device for a mount.
    pub(super) fn device(&self) -> Result<Arc<dyn BlockDevice>, Error> {
        Ok(match &self.0 {
            Bytes::Memory(cache) => Arc::new(cache.durable()),
            Bytes::Files(files) => Arc::new(files.open()?),
        })
    }

    /// Checks it by e2fsck; the error is e2fsck's report.
    pub(super) fn by_e2fsck(&self) -> Result<(), String> {
        let judge = |path: &Path| {
            let verdict = oracle::e2fsck(path).map_err(|error| format!("{error:#}"))?;
            match verdict.is_clean() {
                true => Ok(()),
                false => Err(verdict.to_string()),
            }
        };
        match &self.0 {
            Bytes::Memory(cache) => {
                let (_dir, path) = image::on_disk(&cache.durable());
                judge(&path)
            }
            Bytes::Files(files) => judge(files.path()),
        }
    }
}
