//! A loop device for a program that opens it itself.
//!
//! Invariants: it does not outlive the process, however that ends. The kernel is told to detach it
//! while it is open here: it does so when the last descriptor is closed.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::kernel::attach;
use super::program::Program;

/// A loop device that stays until this and all others close it.
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
        // Without a descriptor this detaches it at once.
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
