//! Claim of a server on its mount point: a file under an exclusive `flock(2)`.
//!
//! Layout: the file `claim` in the mount's `runtime_dir`, one line each: the server's process id;
//! once it is mounted, the number of the connection; at the end the result of closing the image.
//! Invariants: a server holds the lock from before it opens the image until it has closed it. The
//! next holder of the lock therefore knows that no server uses the image. A killed server leaves
//! the lock free and no last line.

use crate::error::{Error, Result};
use crate::mount_table::Spot;
use crate::request::ids;
use crate::runtime_dir;
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the claim file.
const NAME: &str = "claim";
/// Maximum wait of a new mount for the previous server to close the image.
pub(crate) const CLOSING_MAX: Duration = Duration::from_secs(30);
/// Most bytes of a claim that are read: another user may have written it.
const TEXT_MAX_BYTES: u64 = 4096;
/// Interval between two attempts to lock.
const PAUSE: Duration = Duration::from_millis(5);
/// Prefix of the line with the number of the connection.
const CONNECTION: &str = "connection ";
/// Last line after the image was closed.
const CLOSED: &str = "closed";
/// Prefix of the last line of a closed image with recorded errors.
const MARKED: &str = "closed: ";
/// Prefix of the last line after the image could not be closed.
const FAILED: &str = "failed: ";

/// Claim held by a server.
pub(crate) struct Claim {
    file: File,
    path: PathBuf,
}

/// How a server ended, as its claim says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The image is closed and clean. The text is its record of errors.
    Closed(Option<String>),
    /// The server could not close the image, with its message.
    Failed(String),
    /// The server was killed: it left no message.
    Killed,
}

impl Claim {
    /// Claims `mount_point` for this process. If the previous server has unmounted and still closes
    /// the image, the call waits for it, since `umount(8)` may not have waited.
    ///
    /// # Errors
    /// [`Error::Mounted`] if another server holds the claim, or closes for longer than `patience`.
    pub(crate) fn take(mount_point: &Path, patience: Duration) -> Result<Self> {
        let start = Instant::now();
        let made = || runtime_dir::make(mount_point);
        let dir = made().map_err(|source| Error::NoRuntimeDir {
            path: mount_point.into(),
            source,
        })?;
        let path = dir.join(NAME);
        let failed = || Error::system("lock", &path);
        loop {
            let mut file = match open_or_make(&path) {
                // The keeper of the previous server removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    made().map_err(failed())?;
                    continue;
                }
                opened => opened.map_err(failed())?,
            };
            if !try_lock(&file).map_err(failed())? {
                if start.elapsed() < patience && Spot::find(mount_point)?.is_none() {
                    uext4_sync::thread::sleep(PAUSE);
                    continue;
                }
                let pid = Content::of(&mut file).pid;
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

    /// Directory that holds the claim and the control socket.
    pub(crate) fn dir(&self) -> &Path {
        // The path was made by joining a name, so it has a parent.
        self.path.parent().unwrap_or(&self.path)
    }

    /// Records the connection of the mount, by which it is found after a directory of its path was
    /// renamed.
    pub(crate) fn store_connection(&self, number: u64) {
        self.add(&format!("{CONNECTION}{number}"));
    }

    /// Adds a line. Without it a mount is found by its path only, and counts as killed at its end.
    fn add(&self, line: &str) {
        let mut file = &self.file;
        let _ = file.seek(SeekFrom::End(0));
        let _ = writeln!(file, "{line}");
    }

    /// Records how the image was closed, and releases the claim.
    pub(crate) fn finish(self, closed: &std::result::Result<Option<String>, String>) {
        let line = match closed {
            Ok(None) => CLOSED.to_owned(),
            Ok(Some(errors)) => format!("{MARKED}{}", errors.replace('\n', " ")),
            Err(said) => format!("{FAILED}{}", said.replace('\n', " ")),
        };
        self.add(&line);
        // A waiting unmount has the file open.
        let _ = fs::remove_file(&self.path);
        // In the sandbox the keeper removes the directory.
        runtime_dir::remove(self.dir());
    }
}

/// Claim of another process.
pub(crate) struct Waiter {
    file: File,
    path: PathBuf,
    /// User that owns the claim.
    uid: u32,
}

impl Waiter {
    /// Finds the claim of a current or former server of user `uid` on the mount of `connection`:
    /// the one of `mount_point`, or another one if a directory of the path was renamed since. A
    /// file of another user is not a claim.
    pub(crate) fn find(mount_point: &Path, uid: u32, connection: u64) -> Option<Self> {
        let open = |dir: PathBuf| Self::open(dir.join(NAME), uid);
        let mut named = runtime_dir::find(mount_point, uid).and_then(open);
        // A server that has just mounted may not have noted it yet.
        if let Some(claim) = &mut named
            && claim.content().connection.is_none_or(|it| it == connection)
        {
            return named;
        }
        let mut others = runtime_dir::all(uid).into_iter().filter_map(open);
        others.find_map(|mut claim| {
            let is_of = claim.content().connection == Some(connection);
            is_of.then_some(claim)
        })
    }

    /// The claim on `mount_point` of a current or former server of user `uid`.
    fn named(mount_point: &Path, uid: u32) -> Option<Self> {
        Self::open(runtime_dir::find(mount_point, uid)?.join(NAME), uid)
    }

    fn open(path: PathBuf, uid: u32) -> Option<Self> {
        let file = open_claim(File::options().read(true), &path).ok()?;
        let found = file.metadata().ok()?;
        (found.is_file() && found.uid() == uid).then_some(Self { file, path, uid })
    }

    fn content(&mut self) -> Content {
        Content::of(&mut self.file)
    }

    /// The server's process id. The claim of another user may have any number in it, which counts
    /// only if the process is that user's.
    pub(crate) fn pid(&mut self) -> Option<u32> {
        let pid = self.content().pid;
        let own = rustix::process::geteuid().as_raw();
        let is_trusted = self.uid == 0 || self.uid == own;
        (is_trusted || runs_as(pid, self.uid)).then_some(pid)
    }

    /// The user whose claim it is.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Directory that holds the claim and the control socket.
    pub(crate) fn dir(&self) -> &Path {
        // The path was made by joining a name, so it has a parent.
        self.path.parent().unwrap_or(&self.path)
    }

    /// Waits until the server releases the claim; `None` after `limit`. Removes what a killed
    /// server left, and the empty directory, which a sandboxed one cannot remove.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<Option<Ending>> {
        let start = Instant::now();
        while !try_lock(&self.file)? {
            if start.elapsed() > limit {
                return Ok(None);
            }
            uext4_sync::thread::sleep(PAUSE);
        }
        // The lock keeps a new server from making its socket meanwhile.
        // The directory of another user may be a link to another mount's by now.
        let own = rustix::process::geteuid().as_raw();
        let is_own = self.file.metadata().is_ok_and(|found| found.uid() == own);
        if is_own && is_at(&self.file, &self.path) {
            let _ = fs::remove_file(self.path.with_file_name(runtime_dir::SOCKET_NAME));
            let _ = fs::remove_file(&self.path);
        }
        if is_own {
            // A directory with a claim is not empty; a new server makes it again if needed.
            runtime_dir::remove(self.dir());
        }
        Ok(Some(self.content().ending))
    }
}

/// Removes what a killed server of this user left for `mount_point`, once no thread of it holds
/// the claim, and the directory.
pub(crate) fn clear(mount_point: &Path, limit: Duration) {
    let uid = rustix::process::geteuid().as_raw();
    match Waiter::named(mount_point, uid) {
        // Without the lock there is a new server.
        Some(mut claim) => drop(claim.wait(limit)),
        // A sandboxed server removed its claim, and could not remove the directory.
        None => {
            let _ = runtime_dir::find(mount_point, uid).map(|dir| runtime_dir::remove(&dir));
        }
    }
}

fn open_or_make(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = open_claim(options, path)?;
    let found = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if found.is_file() && found.uid() == own {
        Ok(file)
    } else {
        Err(io::Error::other(
            "is not a file of this user; remove it and try again",
        ))
    }
}

/// Follows no link, and does not block on a pipe.
fn open_claim(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

/// Whether a process is one of this user.
fn runs_as(pid: u32, uid: u32) -> bool {
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let real = ids(&String::from_utf8_lossy(&status), "Uid:").next();
    real == Some(uid)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the path still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// What a server has written into its claim.
struct Content {
    pid: u32,
    connection: Option<u64>,
    ending: Ending,
}

impl Content {
    fn of(file: &mut File) -> Self {
        let mut text = String::new();
        let _ = file.seek(SeekFrom::Start(0));
        let _ = file.take(TEXT_MAX_BYTES).read_to_string(&mut text);
        let mut lines = text.lines();
        let pid = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        let mut content = Self {
            pid,
            connection: None,
            ending: Ending::Killed,
        };
        for line in lines {
            content.take(line);
        }
        content
    }

    fn take(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix(CONNECTION) {
            self.connection = number.parse().ok();
        } else if line == CLOSED {
            self.ending = Ending::Closed(None);
        } else if let Some(errors) = line.strip_prefix(MARKED) {
            self.ending = Ending::Closed(Some(errors.into()));
        } else if let Some(said) = line.strip_prefix(FAILED) {
            self.ending = Ending::Failed(said.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opening a pipe does not block.
    #[test]
    fn a_pipe_is_no_claim() {
        let point = format!("/no/such/place/pipe/{}", std::process::id());
        let point = Path::new(&point);
        let uid = rustix::process::geteuid().as_raw();
        let path = runtime_dir::make(point).expect("it is ours").join(NAME);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("it is fresh");
        let found = Waiter::find(point, uid, 7).is_some();
        let taken = Claim::take(point, Duration::ZERO).map(drop);
        fs::remove_file(&path).expect("it is there");
        clear(point, Duration::ZERO);
        assert!(!found, "a pipe taken for a claim");
        let said = taken.expect_err("it is no file").to_string();
        assert!(said.contains("is not a file of this user"), "{said}");
    }

    #[test]
    fn a_claim_of_another_user_names_processes_of_that_user_only() {
        let own = rustix::process::geteuid().as_raw();
        let pid = std::process::id();
        assert!(runs_as(pid, own) && !runs_as(pid, own + 1) && !runs_as(0, own));
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join(NAME);
        fs::write(&path, format!("{pid}\n")).expect("it is fresh");
        let named = |uid| Waiter::open(path.clone(), uid).expect("it is one").pid();
        assert_eq!(named(own), Some(pid));
        if own == 0 {
            std::os::unix::fs::chown(&path, Some(65_534), None).expect("we may");
            assert_eq!(named(65_534), None);
        }
    }

    #[test]
    fn a_waiter_sees_how_the_server_ended() {
        let point = format!("/no/such/place/{}", std::process::id());
        let point = Path::new(&point);
        let uid = rustix::process::geteuid().as_raw();
        let claim = Claim::take(point, Duration::ZERO).expect("it is free");
        let again = Claim::take(point, Duration::ZERO)
            .err()
            .expect("it is taken");
        assert!(matches!(again, Error::Mounted { pid, .. } if pid == std::process::id()));
        let mut waiter = Waiter::find(point, uid, 7).expect("the file is there");
        assert_eq!(waiter.wait(Duration::ZERO).expect("it locks"), None);
        claim.finish(&Err("no\nspace".into()));
        let ending = waiter.wait(Duration::from_secs(5)).expect("it locks");
        assert_eq!(ending, Some(Ending::Failed("no space".into())));
        assert!(Waiter::find(point, uid, 7).is_none());
    }

    #[test]
    fn a_killed_server_leaves_a_free_claim() {
        let point = format!("/no/such/place/killed/{}", std::process::id());
        let point = Path::new(&point);
        let uid = rustix::process::geteuid().as_raw();
        drop(Claim::take(point, Duration::ZERO).expect("it is free"));
        let mut waiter = Waiter::find(point, uid, 7).expect("the file is there");
        // A process that another test starts has the lock until it runs its program.
        let ending = waiter.wait(Duration::from_secs(5)).expect("it locks");
        assert_eq!(ending, Some(Ending::Killed));
        assert!(
            Waiter::find(point, uid, 7).is_none(),
            "the waiter cleans up"
        );
    }
}
