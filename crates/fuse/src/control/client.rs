//! Client side of the control socket.

use super::line::Lines;
use super::socket::{SOCKET_NAME, with_address};
use super::wire::{ANSWER_BYTES_MAX, Ask, parse_answer, request};
use crate::claim::Waiter;
use crate::error::{Error, Result};
use crate::mount_table::{Spot, through};
use crate::{runtime_dir, umount};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum time until the server takes a request.
const SEND_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time of another user's server, which may be an impostor, to accept a connection, to take
/// a request, and to answer one that needs no work.
const STRANGER_LIMIT: Duration = Duration::from_secs(2);
/// Interval between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

/// A connection to the server of a mount.
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    peer: Peer,
}

/// Owner of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// This user or the superuser.
    Trusted,
    Stranger,
}

impl Client {
    /// Connects to the server of the mount point `target`, or by its control socket.
    ///
    /// # Errors
    /// [`Error::NotMounted`] if `target` is neither, [`Error::System`] if no server answers.
    pub fn connect(target: &Path) -> Result<Self> {
        match socket_of(target)? {
            Socket::Named(path) => Self::connect_to(path),
            Socket::OfMount { path, dir, uid } => Self::connect_in(path, &dir, uid),
        }
    }

    /// Connects to a server of this user whose mount on `path` was detached while in use.
    ///
    /// # Errors
    /// [`Error::NotMounted`] if there is none.
    pub(crate) fn connect_detached(path: PathBuf) -> Result<Self> {
        let uid = rustix::process::geteuid().as_raw();
        let client = runtime_dir::find(&path, uid).and_then(|dir| {
            let opened = runtime_dir::open(&dir, uid)?;
            Self::connect_in(dir.join(SOCKET_NAME), &opened, uid).ok()
        });
        client.ok_or(Error::NotMounted { path })
    }

    /// Connects to a socket in the directory of a mount that `uid` made.
    fn connect_in(path: PathBuf, dir: &OwnedFd, uid: u32) -> Result<Self> {
        let stream = connect_in_time(&through(dir.as_fd()).join(SOCKET_NAME));
        let stream = stream.map_err(Error::system("connect to", &path))?;
        let user = user_of(&stream).map_err(Error::system("connect to", &path))?;
        // Also a link to the socket of another server, the superuser's too.
        if user != uid {
            let text = format!("a process of user {user} listens there, and user {uid} mounted it");
            let error = io::Error::new(ErrorKind::PermissionDenied, text);
            return Err(Error::system("connect to", path)(error));
        }
        Self::greeted(stream, path)
    }

    fn connect_to(path: PathBuf) -> Result<Self> {
        let stream = with_address(&path, connect_in_time);
        let stream = stream.map_err(Error::system("connect to", &path))?;
        Self::greeted(stream, path)
    }

    fn greeted(stream: UnixStream, path: PathBuf) -> Result<Self> {
        let user = user_of(&stream).map_err(Error::system("connect to", &path))?;
        let peer = match user == 0 || user == rustix::process::geteuid().as_raw() {
            true => Peer::Trusted,
            false => Peer::Stranger,
        };
        let client = Self { stream, path, peer };
        if peer == Peer::Stranger {
            // A silent peer must not block the caller in a request without limit.
            client.ask(&Ask::Server {})?;
        }
        Ok(client)
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server refuses, [`Error::ServerEnded`] if it ends first,
    /// [`Error::System`] if it does not answer.
    pub fn ask(&self, ask: &Ask) -> Result<Value> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                let path = self.path.clone();
                Error::ServerEnded { path }
            }
            _ => Error::system("talk to", &self.path)(error),
        };
        match parse_answer(&self.exchange(ask).map_err(failed)?) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(refusal)) | Err(refusal) => Err(Error::Refused(refusal)),
        }
    }

    fn exchange(&self, ask: &Ask) -> io::Result<Vec<u8>> {
        let mut lines = Lines::new(&self.stream, None, ANSWER_BYTES_MAX)?;
        // A server that rejects a client sends a reason and reads nothing.
        let shorten = |limit: Duration| match self.peer {
            Peer::Trusted => limit,
            Peer::Stranger => limit.min(STRANGER_LIMIT),
        };
        let sent = lines.send(&request(ask), shorten(SEND_LIMIT));
        match lines.receive(ask.patience().map(shorten)) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => sent.and(Err(ErrorKind::UnexpectedEof.into())),
            Err(error) => sent.and(Err(error)),
        }
    }
}

/// Connects; waits a limited time while the backlog is full.
fn connect_in_time(address: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(address)?;
    let start = Instant::now();
    loop {
        match rustix::net::connect(&socket, &address) {
            Err(Errno::AGAIN) if start.elapsed() < STRANGER_LIMIT => {
                uext4_sync::thread::sleep(PAUSE)
            }
            Err(Errno::AGAIN) => return Err(ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => {}
            done => return Ok(done.map(|()| UnixStream::from(socket))?),
        }
    }
}

/// The user that listens on the other end.
fn user_of(stream: &UnixStream) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}

/// A control socket.
enum Socket {
    /// Named by the caller.
    Named(PathBuf),
    /// In the opened directory of a mount that this user made.
    OfMount {
        path: PathBuf,
        dir: OwnedFd,
        uid: u32,
    },
}

/// Control socket of a mount point; a socket stands for itself.
fn socket_of(target: &Path) -> Result<Socket> {
    let metadata = std::fs::metadata(target);
    if metadata.is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(Socket::Named(target.into()));
    }
    let path = umount::absolute(target)?;
    let Some(spot) = Spot::find(&path)? else {
        return Err(Error::NotMounted { path });
    };
    let uid = spot.mount.uid;
    let claim = Waiter::find(&path, uid, spot.mount.id.connection);
    let opened = claim.and_then(|claim| {
        let dir = runtime_dir::open(claim.dir(), uid)?;
        Some((claim.dir().join(SOCKET_NAME), dir))
    });
    match opened {
        Some((path, dir)) => Ok(Socket::OfMount { path, dir, uid }),
        None => {
            let error = ErrorKind::NotFound.into();
            Err(Error::system("find the control socket of", path)(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// The directory is the owner's; the process that listens there is not.
    #[test]
    fn a_process_of_another_user_is_no_server() {
        let own = rustix::process::geteuid().as_raw();
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join(SOCKET_NAME);
        let _socket = UnixListener::bind(&path).expect("it is fresh");
        let flags = rustix::fs::OFlags::PATH;
        let opened = rustix::fs::open(dir.path(), flags, rustix::fs::Mode::empty());
        let opened = opened.expect("it is there");
        let connect = |uid| Client::connect_in(path.clone(), &opened, uid);
        assert!(connect(own).is_ok());
        // The superuser serves no mount of another user.
        assert!(connect(own + 1).is_err());
    }
}
