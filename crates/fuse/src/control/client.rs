//! Client side of the control socket.

use super::line::Lines;
use super::socket::with_address;
use super::wire::{ANSWER_BYTES_MAX, Ask, parse_answer, request};
use crate::claim::Waiter;
use crate::error::{Error, Result};
use crate::log::escape_controls;
use crate::mount_table::{Spot, through};
use crate::runtime_dir::{self, SOCKET_NAME};
use crate::umount;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum time until the server takes a request.
const SEND_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time of another user's server, which may be an impostor, to accept a connection, to take
/// a request, and to answer one that needs no work.
const STRANGER_LIMIT: Duration = Duration::from_secs(2);
/// Maximum time of such a server for work that has no limit for a trusted one.
const STRANGER_WORK_LIMIT: Duration = Duration::from_secs(60);
/// Maximum size of its answer, in bytes; parsed, each may take 32.
const STRANGER_BYTES_MAX: usize = 4 << 20;
/// Interval between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

/// A connection to the server of a mount.
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    peer: Peer,
}

/// Whose the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// This user or the superuser.
    Trusted,
    Stranger,
}

impl Peer {
    /// Maximum times to take a request and to answer it, where a trusted server has `patience`.
    fn limits(self, patience: Option<Duration>) -> (Duration, Option<Duration>) {
        match (self, patience) {
            (Peer::Trusted, patience) => (SEND_LIMIT, patience),
            (Peer::Stranger, None) => (STRANGER_LIMIT, Some(STRANGER_WORK_LIMIT)),
            (Peer::Stranger, Some(_)) => (STRANGER_LIMIT, Some(STRANGER_LIMIT)),
        }
    }
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
        let peer = if user == 0 || user == rustix::process::geteuid().as_raw() {
            Peer::Trusted
        } else {
            Peer::Stranger
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
        self.decode(self.exchange(ask))
    }

    /// Waits for one more answer to a request that may take long.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) fn answer_of_work(&self) -> Result<Value> {
        let (_, limit) = self.peer.limits(None);
        let received = self.lines().and_then(|mut lines| lines.receive(limit));
        let received = received.and_then(|line| line.ok_or(ErrorKind::UnexpectedEof.into()));
        self.decode(received)
    }

    /// Whether the server is this user's or the superuser's.
    pub fn is_trusted(&self) -> bool {
        self.peer == Peer::Trusted
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn into_stream(self) -> UnixStream {
        self.stream
    }

    fn decode(&self, received: io::Result<Vec<u8>>) -> Result<Value> {
        let answer = parse_answer(&received.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                let path = self.path.clone();
                Error::ServerEnded { path }
            }
            _ => Error::system("talk to", &self.path)(error),
        })?);
        match answer {
            Ok(Ok(value)) => Ok(match self.peer {
                Peer::Trusted => value,
                Peer::Stranger => escaped(value),
            }),
            Ok(Err(refusal)) | Err(refusal) => Err(Error::Refused(refusal)),
        }
    }

    fn lines(&self) -> io::Result<Lines<'_>> {
        let bytes_max = match self.peer {
            Peer::Trusted => ANSWER_BYTES_MAX,
            Peer::Stranger => STRANGER_BYTES_MAX,
        };
        Lines::new(&self.stream, None, bytes_max)
    }

    fn exchange(&self, ask: &Ask) -> io::Result<Vec<u8>> {
        let mut lines = self.lines()?;
        // A server that rejects a client sends a reason and reads nothing.
        let (to_send, to_answer) = self.peer.limits(ask.patience());
        let sent = lines.send(&request(ask), to_send);
        match lines.receive(to_answer) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => sent.and(Err(ErrorKind::UnexpectedEof.into())),
            Err(error) => sent.and(Err(error)),
        }
    }
}

/// An answer whose texts may go to a terminal.
fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) => escape_controls(&text).into(),
        Value::Array(list) => list.into_iter().map(escaped).collect(),
        Value::Object(map) => {
            let entries = map.into_iter();
            entries
                .map(|(key, value)| (escape_controls(&key), escaped(value)))
                .collect()
        }
        other => other,
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

enum Socket {
    /// A path that the caller gave.
    Named(PathBuf),
    /// In the opened directory of a mount that this user made.
    OfMount {
        path: PathBuf,
        dir: OwnedFd,
        uid: u32,
    },
}

/// Kind of the file at a path, as the kernel knows it. The server of a mount, which may not answer,
/// is not asked.
pub fn kind_of(path: &Path) -> Option<FileType> {
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some(FileType::from_raw_mode(found.stx_mode.into()))
}

/// Control socket of a mount point; a socket stands for itself.
fn socket_of(target: &Path) -> Result<Socket> {
    if kind_of(target) == Some(FileType::Socket) {
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

    /// A request that may take long, such as a trim, does not hang at an impostor.
    #[test]
    fn a_stranger_has_a_limit_for_each_request() {
        let server = Ask::Server {}.patience();
        assert!(Ask::Freeze {}.patience().is_none() && server.is_some());
        for ask in [Ask::Freeze {}, Ask::Thaw {}] {
            let (_, limit) = Peer::Stranger.limits(ask.patience());
            assert!(limit.is_some(), "{ask:?}");
            let (_, limit) = Peer::Trusted.limits(ask.patience());
            assert_eq!(limit, ask.patience());
        }
    }

    #[test]
    fn texts_of_a_stranger_reach_no_terminal() {
        let answer = serde_json::json!({"a\u{1b}[1m": ["\u{1b}]0;x\u{7}", 7], "b": {"c": "\r"}});
        let shown = serde_json::json!({
            "a\\u{1b}[1m": ["\\u{1b}]0;x\\u{7}", 7],
            "b": {"c": "\\r"},
        });
        assert_eq!(escaped(answer), shown);
    }
}
