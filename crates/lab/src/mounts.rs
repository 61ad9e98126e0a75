//! FUSE mounts whose server is a child process: ours and fuse2fs.

use crate::base_lines;
use crate::stage::Setup;
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uext4_fuse::{Backing, Channel, Sandbox};
use uext4_testkit::oracle::Program;
use uext4_testkit::rings::RingsSwitch;

/// Timeout for a server to mount, and to end after the unmount.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// A mount and its server.
pub(crate) struct FuseMount {
    dir: TempDir,
    server: Child,
    mounted: bool,
}

impl FuseMount {
    /// Mounts with our own server: this program in a child process.
    pub(crate) fn ours(image: &Path, scratch: &Path, setup: &Setup) -> Result<Self> {
        let options = base_lines::with_words(&setup.options, setup.base_lines);
        let rings = options.split(',').any(|word| word == "io_uring");
        let _on = rings.then(RingsSwitch::on).transpose()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg(image);
        Self::start(command, scratch, &[&options])
    }

    pub(crate) fn fuse2fs(image: &Path, scratch: &Path) -> Result<Self> {
        let mut command = Command::new("fuse2fs");
        command.args(["-f", "-o", "rw"]).arg(image);
        Self::start(command, scratch, &[])
    }

    fn start(mut command: Command, scratch: &Path, after: &[&str]) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("mount-")
            .tempdir_in(scratch)?;
        let outside = std::fs::metadata(dir.path())?.dev();
        let server = command
            .arg(dir.path())
            .args(after)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let mut mount = Self {
            dir,
            server,
            mounted: true,
        };
        mount.wait_until_mounted(outside)?;
        Ok(mount)
    }

    fn wait_until_mounted(&mut self, outside: u64) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if std::fs::metadata(self.dir.path()).is_ok_and(|meta| meta.dev() != outside) {
                return Ok(());
            }
            if let Some(status) = self.server.try_wait()? {
                self.mounted = false;
                bail!("the server ended before it had mounted: {status}");
            }
            std::thread::sleep(PAUSE);
        }
        bail!("the server did not mount within {} s", PATIENCE.as_secs())
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Unmounts and waits until the server has written everything.
    pub(crate) fn unmount(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        if !self.mounted {
            return Ok(());
        }
        self.mounted = false;
        let unmounted = Program::new("umount")?.arg(self.dir.path()).run()?;
        if unmounted.code != Some(0) {
            Program::new("umount")?
                .arg("-l")
                .arg(self.dir.path())
                .run_ok()?;
        }
        let start = Instant::now();
        while self.server.try_wait()?.is_none() {
            if start.elapsed() > PATIENCE {
                self.server.kill()?;
                self.server.wait()?;
                bail!(
                    "the server did not end within {} s and was killed",
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(PAUSE);
        }
        ensure!(unmounted.code == Some(0), "{}", unmounted.all().trim());
        Ok(())
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            eprintln!("uext4-lab: {}: {error:#}", self.dir.path().display());
        }
    }
}

/// Serves `image` on `dir` until it is unmounted.
pub(crate) fn serve(image: &Path, dir: &Path, options: &str) -> Result<()> {
    let is_block = std::fs::metadata(image)?.file_type().is_block_device();
    let mut fuse = uext4_fuse::MountOptions {
        source: image.display().to_string(),
        backing: if is_block {
            Backing::BlockDevice
        } else {
            Backing::File
        },
        // As in the `uext4` tool.
        sandbox: Sandbox::Best,
        files: vec![image.into()],
        ..uext4_fuse::MountOptions::default()
    };
    let (options, base_lines) = base_lines::cut_words(options);
    let mut rest = Vec::new();
    for word in options.split(',') {
        match word {
            "io_uring" => fuse.channel = Channel::IoUring,
            "no_io_uring" => fuse.channel = Channel::DevFuse,
            other => rest.push(other),
        }
    }
    let setup = Setup {
        options: rest.join(","),
        base_lines,
        ..Setup::default()
    };
    uext4_fuse::mount(|| crate::stage::open(image, &setup), dir, &fuse)?;
    Ok(())
}
