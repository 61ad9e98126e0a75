//! The program that serves a mount in the foreground, as a process of its own: it can be killed.
//!
//! Any program will do that knows `PROGRAM mount IMAGE DIR [-o WORDS] --foreground`: the tool
//! `uext4`, or this one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use uext4::Filesystem;
use uext4::device::{Access, BlockDevice, FileDevice};
use uext4_fuse::{Channel, MountOptions, Sandbox};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::served::ServedMount;

/// What a mount may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    ReadWrite,
    /// Nothing on the image changes.
    ReadOnly,
}

/// How requests come from the kernel; nothing else will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// Through `/dev/fuse`.
    DevFuse,
    /// Over io_uring.
    IoUring,
}

impl Transport {
    /// Both.
    pub const ALL: [Self; 2] = [Self::DevFuse, Self::IoUring];

    fn word(self) -> &'static str {
        match self {
            Self::DevFuse => "no_io_uring",
            Self::IoUring => "io_uring",
        }
    }

    /// [`RingsSwitch::available_or_skip`], for mounts over io_uring.
    ///
    /// # Panics
    /// As that.
    pub fn available_or_skip(self, test: &str) -> bool {
        self == Self::DevFuse || RingsSwitch::available_or_skip(test)
    }
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

    /// Mounts `image` for reading and writing on a fresh mount point.
    ///
    /// # Errors
    /// The server did not mount, or not over this transport.
    pub fn mount_via(&self, image: &Path, transport: Transport) -> Result<ServedMount> {
        let rings = transport == Transport::IoUring;
        let _on = rings.then(RingsSwitch::on).transpose()?;
        self.mount_with(image, transport.word())
    }

    /// As [`Self::mount`], with these words: `ro`, `rw`, `untrusted`, `io_uring`, `no_io_uring`.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meant {
    rights: Rights,
    trust: Trust,
    channel: Channel,
}

impl Meant {
    /// Of words with commas between.
    pub fn by(words: &str) -> Self {
        let has = |wanted| words.split(',').any(|word| word == wanted);
        let is_stranger = has("untrusted");
        let read_only = has("ro") || (is_stranger && !has("rw"));
        let channel = match () {
            () if has(Transport::IoUring.word()) => Channel::IoUring,
            () if has(Transport::DevFuse.word()) => Channel::DevFuse,
            () => Channel::Best,
        };
        Self {
            rights: if read_only {
                Rights::ReadOnly
            } else {
                Rights::ReadWrite
            },
            trust: if is_stranger { Trust::No } else { Trust::Yes },
            channel,
        }
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
pub fn serve(image: &Path, dir: &Path, meant: Meant) -> Result<()> {
    let Meant {
        rights,
        trust,
        channel,
    } = meant;
    let read_only = rights == Rights::ReadOnly;
    let options = MountOptions {
        source: image.display().to_string(),
        read_only,
        channel,
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
