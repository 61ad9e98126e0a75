//! The claim of a server on its mount point: a locked file that others wait for.
//!
//! Layout: a file in `runtime_dir`, named after the path of the mount point. It holds the server's
//! process id and, at the end, how the image was closed.
//! Invariants: a server holds the lock from before it opens the image until it has closed it, so
//! whoever gets the lock knows that the image is nobody's. A server that was killed leaves the
//! lock free and no last line.

use crate::error::{Error, Result};
use crate::runtime_dir::{self, file_name};
use crate::umount;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest name of a claim.
const NAME_BYTES_MAX: usize = 200;
/// Longest time for which a new mount waits until the server before it has closed the image.
pub(crate) const CLOSING_MAX: Duration = Duration::from_secs(30);
/// Pause between two looks at a lock that another holds.
const PAUSE: Duration = Duration::from_millis(5);
/// Last line of a server that closed the image.
const CLOSED: &str = "closed";
/// Before what went wrong, in the last line of a server that could not close it.
const FAILED: &str = "failed: ";

/// The claim that a server holds.
pub(crate) struct Claim {
    file: File,
    path: PathBuf,
}

/// How a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The image is closed and clean.
    Closed,
    /// The server could not close it; this is what it said.
    Failed(String),
    /// The server was killed.
    Killed,
}

impl Claim {
    /// Claims `mount_point` for this process. A server whose mount is off is closing the image: it
    /// is waited for, since `umount(8)` may not have.
    ///
    /// # Errors
    /// [`Error::Mounted`] while another server has it, or takes longer than `patience` to close.
    pub(crate) fn take(mount_point: &Path, patience: Duration) -> Result<Self> {
        let start = Instant::now();
        let dir = runtime_dir::own();
        let path = dir.join(file_name(mount_point, NAME_BYTES_MAX));
        let failed = || Error::system("lock", &path);
        runtime_dir::make(&dir).map_err(failed())?;
        loop {
            let mut file = open_or_make(&path).map_err(failed())?;
            if !try_lock(&file).map_err(failed())? {
                if start.elapsed() < patience && umount::mounted(mount_point)?.is_none() {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                let pid = read(&mut file).0;
                return Err(Error::Mounted {
                    path: mount_point.into(),
                    pid,
                });
            }
            if is_at(&file, &path) {
                file.set_len(0).map_err(failed())?;
                writeln!(file, "{}", std::process::id()).map_err(failed())?;
                return Ok(Self { file, path });
            }
        }
    }

    /// Says how the image was closed, and lets go.
    pub(crate) fn finish(mut self, closed: &std::result::Result<(), String>) {
        let line = match closed {
            Ok(()) => CLOSED.to_owned(),
            Err(said) => format!("{FAILED}{}", said.replace('\n', " ")),
        };
        // Nobody depends on the file any more: a waiting unmount has it open.
        let _ = self.file.seek(SeekFrom::End(0));
        let _ = writeln!(self.file, "{line}");
        let _ = fs::remove_file(&self.path);
    }
}

/// The claim of another process, to wait for.
pub(crate) struct Waiter {
    file: File,
    path: PathBuf,
}

impl Waiter {
    /// Finds the claim on `mount_point` of a server that runs, or ran, as user `uid`.
    pub(crate) fn find(mount_point: &Path, uid: u32) -> Option<Self> {
        let path = runtime_dir::of(uid).join(file_name(mount_point, NAME_BYTES_MAX));
        let file = File::open(&path).ok()?;
        Some(Self { file, path })
    }

    /// The server's process id.
    pub(crate) fn pid(&mut self) -> u32 {
        read(&mut self.file).0
    }

    /// Waits until the server has let go; `None` when it has not in time.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<Option<Ending>> {
        let start = Instant::now();
        while !try_lock(&self.file)? {
            if start.elapsed() > limit {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
        if is_at(&self.file, &self.path) {
            // Left behind by a server that was killed.
            let _ = fs::remove_file(&self.path);
        }
        Ok(Some(read(&mut self.file).1))
    }
}

fn open_or_make(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the path still means this file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// Process id and last line.
fn read(file: &mut File) -> (u32, Ending) {
    let mut text = String::new();
    let _ = file.seek(SeekFrom::Start(0));
    let _ = file.read_to_string(&mut text);
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let ending = match lines.next() {
        Some(CLOSED) => Ending::Closed,
        Some(line) if line.starts_with(FAILED) => Ending::Failed(line[FAILED.len()..].into()),
        _ => Ending::Killed,
    };
    (pid, ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_sees_how_the_server_ended() {
        let point = format!("/no/such/place/{}", std::process::id());
        let point = Path::new(&point);
        let uid = rustix::process::geteuid().as_raw();
        let claim = Claim::take(point, Duration::ZERO).expect("nobody has it");
        let again = Claim::take(point, Duration::ZERO)
            .err()
            .expect("it is taken");
        assert!(matches!(again, Error::Mounted { pid, .. } if pid == std::process::id()));
        let mut waiter = Waiter::find(point, uid).expect("the file is there");
        assert_eq!(waiter.wait(Duration::ZERO).expect("it locks"), None);
        claim.finish(&Err("no\nspace".into()));
        let ending = waiter.wait(Duration::from_secs(5)).expect("it locks");
        assert_eq!(ending, Some(Ending::Failed("no space".into())));
        assert!(Waiter::find(point, uid).is_none());
    }

    #[test]
    fn a_killed_server_leaves_a_free_claim() {
        let point = format!("/no/such/place/killed/{}", std::process::id());
        let point = Path::new(&point);
        let uid = rustix::process::geteuid().as_raw();
        drop(Claim::take(point, Duration::ZERO).expect("nobody has it"));
        let mut waiter = Waiter::find(point, uid).expect("the file is there");
        assert_eq!(
            waiter.wait(Duration::ZERO).expect("it locks"),
            Some(Ending::Killed)
        );
        assert!(Waiter::find(point, uid).is_none(), "the waiter cleans up");
    }
}
