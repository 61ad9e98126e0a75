//! Server of a mount: a foreground process that the tests can kill.
//!
//! Any program with the command line `PROGRAM mount IMAGE DIR [-o OPTIONS] --foreground` works: the
//! tool `uext4`, or `xtask`, which contains the tool.

use std::io::{BufRead, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::served::ServedMount;

/// Lifetime after which a mount counts as hung.
const LIFE: Duration = Duration::from_secs(1800);

/// Access of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Reading and writing.
    ReadWrite,
    /// Reading only; the image does not change.
    ReadOnly,
}

/// Transport of FUSE requests, without fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// Through `/dev/fuse`.
    DevFuse,
    /// Over io_uring.
    IoUring,
}

impl Transport {
    /// Both transports.
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
    /// A server that runs `program`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            environment: Vec::new(),
            always: "",
        }
    }

    /// Adds a variable to the environment.
    pub fn with(mut self, name: &str, value: String) -> Self {
        self.environment.push((name.to_owned(), value));
        self
    }

    /// Adds options to every mount.
    pub fn always(mut self, words: &'static str) -> Self {
        self.always = words;
        self
    }

    /// A server that runs the current program.
    ///
    /// The path of the current program is unknown.
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

    /// As [`Self::mount_with`], with a lifetime of at most `life`.
    ///
    /// # Errors
    /// The server did not mount.
    pub fn mount_for(&self, life: Duration, image: &Path, words: &str) -> Result<ServedMount> {
        let (said, says) = std::io::pipe()?;
        std::thread::spawn(move || forward_messages(said));
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

/// Copies the server's messages to standard error, except that it serves.
fn forward_messages(said: PipeReader) {
    for line in BufReader::new(said).lines().map_while(|line| line.ok()) {
        if !line.contains(" is served ") {
            eprintln!("{line}");
        }
    }
}
