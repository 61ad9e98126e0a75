//! The program that serves a mount in the foreground, as a process of its own: it can be killed.
//!
//! Any program will do that knows `PROGRAM mount IMAGE DIR [-o WORDS] --foreground`: the tool
//! `uext4`, or `xtask`, which has the tool inside: the words mean what they mean to users.

use std::io::{BufRead, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::served::ServedMount;

/// A mount that lives longer hangs.
const LIFE: Duration = Duration::from_secs(1800);

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
    environment: Vec<(String, String)>,
    always: &'static str,
}

impl Server {
    /// Mounts are served by `program`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            environment: Vec::new(),
            always: "",
        }
    }

    /// With this variable in its environment.
    pub fn with(mut self, name: &str, value: String) -> Self {
        self.environment.push((name.to_owned(), value));
        self
    }

    /// With these options in each mount, besides others.
    pub fn always(mut self, words: &'static str) -> Self {
        self.always = words;
        self
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

    /// As [`Self::mount`], with these options of `uext4 mount`.
    ///
    /// # Errors
    /// The server did not mount.
    pub fn mount_with(&self, image: &Path, words: &str) -> Result<ServedMount> {
        self.mount_for(LIFE, image, words)
    }

    /// As [`Self::mount_with`], for so long at most.
    ///
    /// # Errors
    /// The server did not mount.
    pub fn mount_for(&self, life: Duration, image: &Path, words: &str) -> Result<ServedMount> {
        let (said, says) = std::io::pipe()?;
        std::thread::spawn(move || tell(said));
        ServedMount::start_for(life, |dir| {
            let mut command = Command::new(&self.program);
            command.arg("mount").arg(image).arg(dir).arg("--foreground");
            for words in [self.always, words] {
                if !words.is_empty() {
                    command.args(["-o", words]);
                }
            }
            command.envs(self.environment.iter().cloned());
            command.stderr(says);
            command
        })
        .with_context(|| format!("our mount of {}", image.display()))
    }
}

/// Passes on what the server says, but for the news that it serves.
fn tell(said: PipeReader) {
    for line in BufReader::new(said).lines().map_while(|line| line.ok()) {
        if !line.contains(" is served ") {
            eprintln!("{line}");
        }
    }
}
