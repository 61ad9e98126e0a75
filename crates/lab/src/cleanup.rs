//! Cleanup after a program that dies without running destructors (a signal, a crash).
//!
//! The cleanup process is a child in a process group of its own, so that an interrupt from the
//! keyboard does not reach it. It reads paths until its input ends, then unmounts and removes those
//! that still exist. After a normal run there are none.

use anyhow::{Context, Result};
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use uext4_testkit::oracle::Program;

/// The parent's handle of the child.
pub(crate) struct Cleanup {
    child: Child,
    input: Option<ChildStdin>,
}

impl Cleanup {
    pub(crate) fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("cleanup")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start the cleanup")?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// Registers `dir`: it is unmounted and removed when this program ends.
    pub(crate) fn watch(&mut self, dir: &Path) -> Result<()> {
        let input = self
            .input
            .as_mut()
            .context("the cleanup's input is closed")?;
        Ok(writeln!(input, "{}", dir.display())?)
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Main function of the child.
pub(crate) fn run() -> Result<()> {
    let paths: Vec<String> = std::io::stdin()
        .lock()
        .lines()
        .map_while(Result::ok)
        .collect();
    for path in paths.iter().rev() {
        clean(Path::new(path))?;
    }
    Ok(())
}

fn clean(dir: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let targets = mounts.lines().filter_map(|line| {
        let target = line.split(' ').nth(1)?;
        Path::new(target)
            .starts_with(dir)
            .then(|| target.to_owned())
    });
    for target in targets {
        // Lazily: a dying worker may still use the mount.
        Program::new("umount")?.args(["-l", &target]).run_ok()?;
    }
    if dir.is_dir() {
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}
