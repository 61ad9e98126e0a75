//! The tool as a process with limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Longest time of a command.
const SECONDS: u32 = 60;
/// Limit of address space: the limit of memory (1 GiB), code and stacks.
const SPACE: &str = "--as=1342177280";
/// Status of `timeout` for a command that ran past its limit, and of a command it had to kill.
const LATE: [i32; 2] = [124, 137];
/// Status of a program that panicked.
const PANICKED: i32 = 101;

/// The program `uext4`, or one that contains it.
#[derive(Clone, Debug)]
pub struct Tool {
    program: PathBuf,
    before: Vec<OsString>,
    seconds: u32,
}

impl Tool {
    /// The program at `program`, which takes the command line of `uext4`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            before: Vec::new(),
            seconds: SECONDS,
        }
    }

    /// This program, which contains the tool behind the word `tool`.
    pub fn this() -> Result<Self> {
        let mut this = Self::new(std::env::current_exe().context("the path of this program")?);
        this.before.push("tool".into());
        Ok(this)
    }

    /// The same for a program that contains the tool behind `word`.
    pub fn behind(program: impl Into<PathBuf>, word: &str) -> Self {
        let mut tool = Self::new(program);
        tool.before.push(word.into());
        tool
    }

    /// The same with another limit of time.
    #[must_use]
    pub fn within(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }

    /// Runs a command to its end; returns its exit status.
    ///
    /// It panicked, ran past a limit, or was ended by a signal.
    pub fn run(&self, arguments: &[&str]) -> Result<i32> {
        let ran = Command::new("timeout")
            .args(["-k", "5", &self.seconds.to_string(), "prlimit", SPACE, "--"])
            .arg(&self.program)
            .args(&self.before)
            .args(arguments)
            // Each arena of malloc reserves 64 MiB of address space.
            .env("MALLOC_ARENA_MAX", "1")
            .stdin(Stdio::null())
            .output()
            .context("run timeout")?;
        let said = String::from_utf8_lossy(&ran.stderr);
        let last = || said.lines().rev().take(30).collect::<Vec<_>>().join("; ");
        let Some(status) = ran.status.code() else {
            bail!("{arguments:?}: {}: {}", ran.status, last());
        };
        ensure!(!LATE.contains(&status), "{arguments:?}: ran too long");
        let is_panic = status == PANICKED || said.contains("panicked at");
        ensure!(!is_panic, "{arguments:?}: {status}: {}", last());
        Ok(status)
    }
}
