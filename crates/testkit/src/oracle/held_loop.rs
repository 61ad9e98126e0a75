//! Loop device for a program that opens it by itself.
//!
//! Invariants: the device does not outlive the process, however that ends. The detach is requested
//! while this holds a descriptor, so the kernel detaches at the last close.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::kernel::attach;
use super::program::Program;

/// A loop device that exists until this and all other descriptors are closed.
#[derive(Debug)]
pub struct HeldLoop {
    path: PathBuf,
    _open: File,
}

impl HeldLoop {
    /// Attaches `image`.
    ///
    /// # Errors
    /// No loop device is free, or this process may not attach one.
    pub fn attach(image: &Path) -> Result<Self> {
        let path = PathBuf::from(attach(image, "")?);
        let open = File::open(&path);
        // Without an open descriptor the device would be detached at once.
        let detached = Program::new("losetup")?.arg("--detach").arg(&path);
        detached.run_ok()?;
        Ok(Self {
            _open: open.with_context(|| format!("open {}", path.display()))?,
            path,
        })
    }

    /// The device, for example `/dev/loop3`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
