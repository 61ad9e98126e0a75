//! Runs an external program with a time limit and keeps its output.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Time limit of one program in seconds. A damaged image may send a tool into a very long loop.
const TIME_LIMIT_SECONDS: u32 = 600;

/// Exit code of `timeout` after the limit.
const TIMED_OUT: i32 = 124;

/// Directories of system tools that may be missing in a user's `PATH`.
const TOOL_DIRS: [&str; 6] = [
    "/usr/sbin",
    "/sbin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/local/bin",
];

/// An external program and its arguments.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    command: Command,
}

/// Exit code and output of a program.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output, lossy UTF-8.
    pub stdout: String,
    /// Standard error, lossy UTF-8.
    pub stderr: String,
}

impl Output {
    /// Standard output followed by standard error.
    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl Program {
    /// Prepares `name`, looked up in the system directories.
    ///
    /// # Errors
    /// The program is not installed.
    pub fn new(name: &'static str) -> Result<Self> {
        let path =
            find(name).with_context(|| format!("{name} is not installed: run `make deps`"))?;
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", &TIME_LIMIT_SECONDS.to_string()])
            .arg(path);
        command
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        Ok(Self { name, command })
    }

    /// Adds one argument, which no shell interprets.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments, which no shell interprets.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable of the program's environment.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Runs it; any exit code is accepted.
    ///
    /// # Errors
    /// The program cannot start, or reached the time limit.
    pub fn run(mut self) -> Result<Output> {
        let raw = self
            .command
            .output()
            .with_context(|| format!("cannot start {}", self.name))?;
        let output = Output {
            code: raw.status.code(),
            stdout: String::from_utf8_lossy(&raw.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&raw.stderr).into_owned(),
        };
        ensure!(
            output.code != Some(TIMED_OUT),
            "{} did not end within {TIME_LIMIT_SECONDS} s",
            self.name
        );
        Ok(output)
    }

    /// Runs it; an exit code other than 0 is an error with the output.
    ///
    /// # Errors
    /// As [`Program::run`], or the exit code is not 0.
    pub fn run_ok(self) -> Result<Output> {
        let what = format!("{:?}", self.command);
        let output = self.run()?;
        ensure!(
            output.code == Some(0),
            "{what} ended with {:?}:\n{}",
            output.code,
            output.all()
        );
        Ok(output)
    }
}

/// Whether `name` is installed.
pub fn is_installed(name: &str) -> bool {
    find(name).is_some()
}

/// Whether the peer `fuse2fs` is installed.
pub fn has_fuse2fs() -> bool {
    is_installed("fuse2fs")
}

/// Whether this runs in continuous integration (`CI=true` or `CI=1`), where no test may skip.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

fn find(name: &str) -> Option<PathBuf> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&own)
        .chain(TOOL_DIRS.iter().map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|path| is_file(path))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file())
}
