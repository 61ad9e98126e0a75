//! A mount with a server process, as of FUSE servers.
//!
//! The server is any command that mounts, stays in the foreground and exits with 0 after an unmount
//! once it has closed the image.
//!
//! Invariants: neither the mount nor the server outlives its [`ServedMount`]. A watchdog kills the
//! server after its time limit (30 minutes, or as given), so its hang ends in errors and not in a
//! hang of the test.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::oracle::{Program, scratch_dir};
use crate::{skip, wait};

/// Default time limit of a server.
const TIME_LIMIT: Duration = Duration::from_secs(1800);
/// Timeout until the mount answers.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Timeout from the unmount to the end of the server.
const CLOSE_LIMIT: Duration = Duration::from_secs(300);
/// Timeout until a busy mount is unmounted.
const BUSY_LIMIT: Duration = Duration::from_secs(1);

/// A directory served by a child process; dropping it detaches the mount and kills the server.
#[derive(Debug)]
pub struct ServedMount {
    dir: TempDir,
    server: Arc<Mutex<Child>>,
    /// Dropping it ends the watchdog.
    _watchdog: Sender<()>,
}

impl ServedMount {
    /// Whether this process may mount through FUSE for all users: it may mount, and `/dev/fuse`
    /// opens.
    pub fn is_available() -> bool {
        skip::may_mount() && skip::opens("/dev/fuse")
    }

    /// As [`ServedMount::is_available`], for the first line of a test; prints a skipped test.
    ///
    /// # Panics
    /// In continuous integration, where no test may be skipped.
    pub fn available_or_skip(test: &str) -> bool {
        skip::can_or_skip(test, Self::is_available(), "root and /dev/fuse")
    }

    /// Runs the command that `command` returns for a fresh mount point, and waits until the mount
    /// answers.
    ///
    /// # Errors
    /// The server cannot start, or ended, or was not ready within 60 s.
    pub fn start(command: impl FnOnce(&Path) -> Command) -> Result<Self> {
        Self::start_for(TIME_LIMIT, command)
    }

    /// As [`Self::start`], with this time limit.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_for(life: Duration, command: impl FnOnce(&Path) -> Command) -> Result<Self> {
        let dir = scratch_dir()?;
        let mut command = command(dir.path());
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("start {command:?}"))?;
        let server = Arc::new(Mutex::new(child));
        let mount = Self {
            dir,
            _watchdog: watch(&server, life),
            server,
        };
        mount.wait_until_ready()?;
        Ok(mount)
    }

    /// Path of the mount point.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        lock(&self.server).id()
    }

    /// Unmounts and waits until the server has closed the image.
    ///
    /// # Errors
    /// The mount stays in use, or the server exits with another code than 0.
    pub fn unmount(self) -> Result<()> {
        let unmounted = || match umount(self.path(), &[]) {
            Ok(false) => None,
            done => Some(done),
        };
        let unmounted = wait::within(BUSY_LIMIT, unmounted);
        unmounted.with_context(|| format!("{} stays busy", self.path().display()))??;
        let status = self.wait_for_end()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    /// Kills the server with SIGKILL and waits for its end. The mount stays, without answers.
    ///
    /// # Errors
    /// The server had already ended.
    pub fn kill(&self) -> Result<()> {
        let mut server = lock(&self.server);
        if let Some(status) = server.try_wait()? {
            bail!("the server ended before it was killed: {status}");
        }
        server.kill()?;
        server.wait()?;
        Ok(())
    }

    /// Whether the kernel has the mount.
    fn is_mounted(&self) -> Result<bool> {
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        let path = self.path().to_string_lossy();
        Ok(mounts
            .lines()
            .any(|line| line.split(' ').nth(1) == Some(&*path)))
    }

    fn is_mounted_or_ended(&self) -> Result<bool> {
        if let Some(status) = lock(&self.server).try_wait()? {
            bail!("the server ended before it mounted: {status}");
        }
        self.is_mounted()
    }

    fn wait_until_ready(&self) -> Result<()> {
        wait::within(READY_LIMIT, || match self.is_mounted_or_ended() {
            Ok(false) => None,
            done => Some(done),
        })
        .context("the server did not mount")??;
        // The first request waits until the server has answered FUSE_INIT.
        std::fs::metadata(self.path()).context("the mount does not answer")?;
        Ok(())
    }

    fn wait_for_end(&self) -> Result<ExitStatus> {
        let status = wait::within(CLOSE_LIMIT, || lock(&self.server).try_wait().transpose());
        Ok(status.context("the server did not end after the unmount")??)
    }

    fn release(&self) -> Result<()> {
        while self.is_mounted()? {
            ensure!(
                umount(self.path(), &["-l"])?,
                "{} stays mounted",
                self.path().display()
            );
        }
        let mut server = lock(&self.server);
        match server.kill() {
            Err(error) if error.kind() != ErrorKind::InvalidInput => return Err(error.into()),
            _ => server.wait()?,
        };
        Ok(())
    }
}

impl Drop for ServedMount {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            eprintln!("served mount: {error:#}");
        }
    }
}

/// Starts the watchdog: kills the server unless the sender is dropped in time.
fn watch(server: &Arc<Mutex<Child>>, life: Duration) -> Sender<()> {
    let (sender, receiver) = mpsc::channel();
    let server = server.clone();
    std::thread::spawn(move || {
        if receiver.recv_timeout(life) == Err(RecvTimeoutError::Timeout) {
            eprintln!("the server lives for too long and is killed");
            // The server may have ended just now.
            let _ = lock(&server).kill();
        }
    });
    sender
}

fn lock(server: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the unmount succeeded.
fn umount(dir: &Path, how: &[&str]) -> Result<bool> {
    Ok(Program::new("umount")?.args(how).arg(dir).run()?.code == Some(0))
}
