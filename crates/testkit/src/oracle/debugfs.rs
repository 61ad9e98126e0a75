//! debugfs: reads and damages structures by name.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::program::{Output, Program};

/// Whether debugfs may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Opened read-only, the default of debugfs.
    Read,
    /// Opened for writing (`-w`).
    Write,
}

/// Runs `commands` in sequence in one debugfs; returns its output. Before each answer debugfs
/// repeats the command (`debugfs: stat /x`).
///
/// debugfs exits with 0 even if a command fails: check the output.
///
/// # Errors
/// debugfs is missing or cannot open the image.
pub fn debugfs<S: AsRef<str>>(image: &Path, access: Access, commands: &[S]) -> Result<String> {
    let mut script = tempfile::NamedTempFile::new().context("file for debugfs commands")?;
    for command in commands {
        writeln!(script, "{}", command.as_ref())?;
    }
    script.flush()?;
    let program = open(access)?.arg("-f").arg(script.path()).arg(image);
    answer(image, program.run()?)
}

/// Runs one read-only command; returns its output without the echo.
///
/// # Errors
/// As [`debugfs`].
pub fn debugfs_one(image: &Path, command: &str) -> Result<String> {
    let program = open(Access::Read)?.args(["-R", command]).arg(image);
    answer(image, program.run()?)
}

fn open(access: Access) -> Result<Program> {
    let program = Program::new("debugfs")?;
    Ok(match access {
        Access::Read => program,
        Access::Write => program.arg("-w"),
    })
}

fn answer(image: &Path, output: Output) -> Result<String> {
    let all = output.all();
    ensure!(
        output.code == Some(0),
        "debugfs of {}: {all}",
        image.display()
    );
    ensure!(
        !all.contains("while trying to open") && !all.contains("while opening filesystem"),
        "debugfs cannot open {}: {all}",
        image.display()
    );
    Ok(all
        .lines()
        .filter(|line| !line.starts_with("debugfs 1."))
        .map(|line| format!("{line}\n"))
        .collect())
}
