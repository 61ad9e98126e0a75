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
use uext4_fuse::{MountOptions, Sandbox};
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
        let words = match rights {
            Rights::ReadOnly => "ro",
            Rights::ReadWrite => "",
        };
        self.mount_with(image, words)
    }

    /// As [`Self::mount`], with these words: `ro`, `rw`, `untrusted`.
    ///
    /// # Errors
    /// The server did not mount.
    pub fn mount_with(&self, image: &Path, words: &str) -> Result<ServedMount> {
        ServedMount::start(|dir| {
            let mut command = Command::new(&self.program);
            command.arg("mount").arg(image).arg(dir).arg("--foreground");
            if !words.is_empty() {
                command.args(["-o", words]);
            }
            command
        })
        .with_context(|| format!("our mount of {}", image.display()))
    }
}

/// Whether who made an image means well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Yes.
    Yes,
    /// No: it is looked over first.
    No,
}

/// What the words of [`Server::mount_with`] mean.
pub fn meant(words: &str) -> (Rights, Trust) {
    let has = |wanted| words.split(',').any(|word| word == wanted);
    let trust = if has("untrusted") {
        Trust::No
    } else {
        Trust::Yes
    };
    let read_only = has("ro") || (trust == Trust::No && !has("rw"));
    match read_only {
        true => (Rights::ReadOnly, trust),
        false => (Rights::ReadWrite, trust),
    }
}

fn vet(image: &Path) -> uext4::Result<()> {
    let device = Arc::new(FileDevice::open(image, Access::ReadOnly)?);
    let limits = uext4::check::Limits::default();
    uext4::check::check(device, uext4::MountOptions::default(), &limits)?.require_sound()
}

/// Serves `image` on `dir` until somebody unmounts.
///
/// # Errors
/// The image cannot be mounted, or not be closed.
pub fn serve(image: &Path, dir: &Path, (rights, trust): (Rights, Trust)) -> Result<()> {
    let read_only = rights == Rights::ReadOnly;
    let options = MountOptions {
        source: image.display().to_string(),
        read_only,
        sandbox: Sandbox::Best,
        files: vec![image.into()],
        ..MountOptions::default()
    };
    let open = || {
        if trust == Trust::No {
            vet(image)?;
        }
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
