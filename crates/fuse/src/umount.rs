//! Unmounting from outside the server: take the mount off, wait until the image is closed.

use crate::claim::{Ending, Waiter};
use crate::control::{Ask, Client};
use crate::elsewhere::{Keeping, keeping};
use crate::error::{Error, Result};
use crate::mount_point::Lazy;
use crate::mount_table::Spot;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uext4_sync::mpsc::{RecvTimeoutError, channel};

/// Longest time that the server may take to close the image after the kernel let go.
const CLOSE_LIMIT: Duration = Duration::from_secs(300);

/// Time after which an unmount looks for what it waits for.
const SOON: Duration = Duration::from_secs(3);
/// Longest time that a mount may be busy before the caller hears of it.
const BUSY_LIMIT: Duration = Duration::from_secs(1);
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// Longest time that another user's server may take to close the image, or of what holds its claim.
const STRANGER_CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// Between two thaws of a mount that the kernel is taking off.
const THAW_PAUSE: Duration = Duration::from_millis(100);

/// What became of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// The server closed it; it is clean.
    Clean,
    /// As [`Self::Clean`], but errors are recorded in it: what the superblock says of them.
    Marked(String),
    /// The server had been killed: the next mount recovers the image from its journal.
    NeedsRecovery,
    /// The mount was detached while in use: the server closes the image after its last user.
    InUse,
}

/// Takes the mount off `dir` and waits until its server has closed the image.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::Busy`] after a second without [`Lazy::Yes`],
/// [`Error::Kept`] when another mount namespace has the mount, [`Error::StillOpen`] when the server
/// takes more than five minutes to close the image, [`Error::StillLocked`] when the claim of
/// another user does not name that server, [`Error::Server`] when it could not.
pub fn umount(dir: &Path, lazy: Lazy) -> Result<Image> {
    umount_telling(dir, lazy, |_| ())
}

/// As [`umount`]; calls `tell` when the wait becomes long, with the error that will be its end.
///
/// # Errors
/// As [`umount`].
pub fn umount_telling(dir: &Path, lazy: Lazy, tell: impl FnOnce(&Error)) -> Result<Image> {
    let path = absolute(dir)?;
    let Some(spot) = Spot::find(&path)? else {
        return Err(Error::NotMounted { path });
    };
    let (uid, connection) = (spot.mount.uid, spot.mount.id.connection);
    let waiter = Waiter::find(&path, uid, connection);
    detach_thawed(&path, &spot, lazy)?;
    drop(spot);
    // Without a claim the server is gone already, or too old to have made one.
    let Some(mut waiter) = waiter else {
        return Ok(Image::NeedsRecovery);
    };
    let is_ours = uid == 0 || uid == rustix::process::geteuid().as_raw();
    // The tables of all processes are read for mounts of this user only: a stranger makes as many
    // namespaces, with tables as long, as it likes.
    let kept = || is_ours.then(|| keeping(connection)).flatten();
    let limit = match lazy {
        Lazy::Yes => Duration::ZERO,
        Lazy::No if is_ours => CLOSE_LIMIT,
        Lazy::No => STRANGER_CLOSE_LIMIT,
    };
    let waited = |waiter: &mut Waiter, limit| {
        let ended = waiter.wait(limit);
        ended.map_err(Error::system("wait for the server of", &path))
    };
    let soon = limit.min(SOON);
    let mut ending = waited(&mut waiter, soon)?;
    if ending.is_none() && limit > soon {
        tell(&cause(&path, kept(), &mut waiter));
        ending = waited(&mut waiter, limit - soon)?;
    }
    match ending {
        Some(Ending::Closed(None)) => Ok(Image::Clean),
        Some(Ending::Closed(Some(errors))) => Ok(Image::Marked(errors)),
        Some(Ending::Killed) => Ok(Image::NeedsRecovery),
        Some(Ending::Failed(said)) => Err(Error::Server { said, status: 1 }),
        None if lazy == Lazy::Yes => Ok(Image::InUse),
        None => Err(cause(&path, kept(), &mut waiter)),
    }
}

/// What keeps the server from closing the image, as an error.
fn cause(path: &Path, kept: Option<Keeping>, waiter: &mut Waiter) -> Error {
    let path = path.to_owned();
    if let Some(Keeping { pid, name }) = kept {
        return Error::Kept { path, pid, name };
    }
    let uid = waiter.uid();
    match waiter.pid() {
        Some(pid) => Error::StillOpen { path, pid },
        None => Error::StillLocked { path, uid },
    }
}

/// Detaches; a mount that is busy is tried again for a moment: programs that probe new mounts, and
/// children between `fork` and `exec`, hold files of it for milliseconds.
fn detach_patiently(spot: &Spot, lazy: Lazy) -> Result<()> {
    let begin = Instant::now();
    loop {
        match spot.detach(lazy) {
            Err(Error::Busy { .. }) if begin.elapsed() < BUSY_LIMIT => {
                uext4_sync::thread::sleep(BUSY_PAUSE);
            }
            done => return done,
        }
    }
}

/// Takes the mount off. Frozen, it could not take what the kernel still holds, which the kernel
/// waits for: so it is thawed before, and again until the kernel lets go, since another process may
/// freeze it in between.
fn detach_thawed(path: &Path, spot: &Spot, lazy: Lazy) -> Result<()> {
    // The mount is in no table any more while the kernel waits: the connection is made before.
    let client = Client::connect(path).ok();
    // Most are not frozen, which is no error.
    let Some(client) = client.filter(|client| is_there(client.ask(&Ask::Thaw {}))) else {
        return detach_patiently(spot, lazy);
    };
    let done = uext4_sync::thread::scope(|scope| {
        let (detached, is_detached) = channel::<()>();
        let client = &client;
        scope.spawn(move || {
            while is_detached.recv_timeout(THAW_PAUSE) == Err(RecvTimeoutError::Timeout) {
                let _ = client.ask(&Ask::Thaw {});
            }
        });
        let done = detach_patiently(spot, lazy);
        drop(detached);
        done
    });
    if done.is_ok() {
        // A mount that is still in use is found by no later thaw. The server may have ended.
        let _ = client.ask(&Ask::Detached {});
    }
    done
}

/// Whether a server answered, even if it refused.
fn is_there(reply: Result<Value>) -> bool {
    matches!(reply, Ok(_) | Err(Error::Refused(_)))
}

/// The absolute path, also of a mount point whose server is dead.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf> {
    if let Ok(path) = dir.canonicalize() {
        return Ok(path);
    }
    let absolute = std::path::absolute(dir).map_err(Error::system("find", dir))?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent
            .canonicalize()
            .map_err(Error::system("find", dir))?
            .join(name)),
        _ => Ok(absolute),
    }
}

/// The image or device of our mount on `dir`.
pub(crate) fn source(dir: &Path) -> Result<Option<PathBuf>> {
    Ok(Spot::find(&absolute(dir)?)?.map(|spot| spot.mount.source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mounted_is_not_unmounted() {
        let error = umount(Path::new("/proc"), Lazy::No).expect_err("it is not ours");
        assert!(matches!(error, Error::NotMounted { .. }), "{error}");
    }
}
