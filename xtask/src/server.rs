//! The program that serves a mount in the foreground, as a process of its own: it can be killed.
//!
//! Any program will do that knows `PROGRAM mount IMAGE DIR [-o ro] --foreground`: the tool `uext4`,
//! or this one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use uext4::Filesystem;
use uext4::device::{Access, BlockDevice, FileDevice};
use uext4_fuse::MountOptions;
use uext4_testkit::served::ServedMount;

/// What a mount may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    ReadWrite,
    /// Nothing on the image changes.
    ReadOnly,
}

/// A program that serves mounts.
#[derive(Clone, Debug)]
pub struct Server {
    program: PathBuf,
}

impl Server {
    /// Mounts are served by `program`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
        }
    }

    /// Mounts are served by the program that runs now.
    ///
    /// # Errors
    /// The system does not say which that is.
    pub fn this() -> Result<Self> {
        Ok(Self::new(
            std::env::current_exe().context("the path of this program")?,
        ))
    }

    /// Mounts `image` on a fresh mount point.
    ///
    /// # Errors
    /// The server did not mount.
    pub fn mount(&self, image: &Path, rights: Rights) -> Result<ServedMount> {
        ServedMount::start(|dir| {
            let mut command = Command::new(&self.program);
            command.arg("mount").arg(image).arg(dir).arg("--foreground");
            if rights == Rights::ReadOnly {
                command.args(["-o", "ro"]);
            }
            command
        })
        .with_context(|| format!("our mount of {}", image.display()))
    }
}

/// Serves `image` on `dir` until somebody unmounts.
///
/// # Errors
/// The image cannot be mounted, or not be closed.
pub fn serve(image: &Path, dir: &Path, rights: Rights) -> Result<()> {
    let read_only = rights == Rights::ReadOnly;
    let options = MountOptions {
        source: image.display().to_string(),
        read_only,
        ..MountOptions::default()
    };
    let open = || {
        let access = if read_only {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(image, access)?);
        let options = match rights {
            Rights::ReadOnly => uext4::MountOptions::read_only(),
            Rights::ReadWrite => uext4::MountOptions::default(),
        };
        Filesystem::mount(device, options)
    };
    Ok(uext4_fuse::mount(open, dir, &options)?)
}
