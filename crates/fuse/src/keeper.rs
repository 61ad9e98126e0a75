//! Keeper: helper process of a sandboxed server for mount, unmount and the system log.
//!
//! Landlock forbids changes of mounts, so the keeper is forked before the sandbox. It sees no byte
//! of the image, serves one mount point, has no other descriptor of the server, and ends with it.
//! Before it ends, it aborts the connection of a mount that a killed server leaves: a thread of the
//! server may wait for the mount ([`Keeper::leave`]), which keeps the connection open.
//!
//! Layout: the server sends one byte, [`ATTACH`], [`ATTACH_BLOCK`], [`DETACH`] or
//! [`DETACH_LAZILY`]. The reply is a status byte and a text, or with the descriptor of a mount the
//! number of its connection. [`ABORT`] has no reply and may come during another request: unserved
//! requests may block an unmount in the kernel. [`LOG`] has no reply; a severity and a log line
//! follow it.
#![allow(unsafe_code)]

use crate::attachment::Attachment;
use crate::error::{Error, Result};
use crate::log::{Relay, Severity};
use crate::mount_dir::MountDir;
use crate::mount_point::Lazy;
use crate::options::MountOptions;
use crate::transport::DevFuse;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uext4_sync::{Mutex, OnceLock, Rank};

const ATTACH: u8 = b'a';
const ATTACH_BLOCK: u8 = b'b';
const DETACH: u8 = b'd';
const DETACH_LAZILY: u8 = b'l';
const ABORT: u8 = b'x';
const LOG: u8 = b'g';

const DONE: u8 = 0;
const BUSY: u8 = 1;
const FAILED: u8 = 2;
const GONE: u8 = 3;
const COVERED: u8 = 4;

/// Maximum wait for the last threads of a killed server, which the abort ends.
const CLEAR_LIMIT: Duration = Duration::from_secs(30);

/// The same for a server that gave up, which still has its claim then. Another server may have it.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(2);

/// Maximum message size in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Server's handle of the keeper, which ends when this is dropped.
pub(crate) struct Keeper {
    socket: OwnedFd,
    /// `/dev/null`, which takes the place of the socket in [`Self::leave`].
    nothing: File,
    /// Held from a request to its reply.
    talk: Mutex<()>,
    path: PathBuf,
    /// Number of the connection, once it is mounted.
    connection: OnceLock<u64>,
}

impl Keeper {
    /// Forks the keeper of `place`. The caller must have no other threads.
    pub(crate) fn start(place: MountDir, options: &MountOptions) -> Result<Self> {
        let path = place.path().to_owned();
        let failed = || Error::system("start", "the process that unmounts");
        let pair = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        );
        let (ours, theirs) = pair.map_err(|errno| failed()(errno.into()))?;
        let nothing = File::open("/dev/null").map_err(failed())?;
        let relay = Relay::new();
        // SAFETY: the caller has one thread only (as `mount` demands), so that the child is a
        // whole process: no lock is held by a thread that does not exist there.
        match unsafe { libc::fork() } {
            -1 => Err(failed()(io::Error::last_os_error())),
            0 => {
                drop(ours);
                // SAFETY: the keeper opens what it needs itself, and ends by `exit` below.
                unsafe { crate::close_fds::close_all_but([theirs.as_fd(), place.fd()]) };
                ignore_signals();
                let _ = rustix::process::chdir("/");
                crate::daemon::leave_terminal(crate::daemon::nowhere());
                // The server is gone; a killed one left its claim and its socket.
                let limit = match serve(theirs.as_fd(), place, options, relay) {
                    Served::Mount => CLEAR_LIMIT,
                    Served::Nothing => GIVE_UP_LIMIT,
                };
                crate::claim::clear(&path, limit);
                std::process::exit(0)
            }
            _ => Ok(Self {
                socket: ours,
                nothing,
                talk: Mutex::new(Rank::CacheShard, ()),
                path,
                connection: OnceLock::new(),
            }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// As [`Attachment::connection`].
    pub(crate) fn connection(&self) -> Option<u64> {
        self.connection.get().copied()
    }

    /// As [`Attachment::attach`].
    pub(crate) fn attach(&self) -> Result<DevFuse> {
        self.ask_for_device(ATTACH)
    }

    /// As [`Attachment::attach_block`].
    pub(crate) fn attach_block(&self) -> Result<DevFuse> {
        self.ask_for_device(ATTACH_BLOCK)
    }

    fn ask_for_device(&self, byte: u8) -> Result<DevFuse> {
        match self.ask(byte)? {
            (_, number, Some(fd)) => {
                if let Ok(number) = number.try_into().map(u64::from_ne_bytes) {
                    self.connection.get_or_init(|| number);
                }
                Ok(DevFuse::new(fd))
            }
            (DONE, _, None) => {
                // It is mounted, and the descriptor was lost.
                let _ = self.detach(Lazy::Yes);
                let error = io::Error::from_raw_os_error(libc::EMFILE);
                Err(Error::system("serve", &self.path)(error))
            }
            (_, said, None) => Err(failure(&said)),
        }
    }

    /// As [`Attachment::detach`].
    pub(crate) fn detach(&self, lazy: Lazy) -> Result<()> {
        let byte = match lazy {
            Lazy::Yes => DETACH_LAZILY,
            Lazy::No => DETACH,
        };
        let path = || self.path.clone();
        match self.ask(byte)? {
            (DONE, ..) => Ok(()),
            (BUSY, ..) => Err(Error::Busy { path: path() }),
            (GONE, ..) => Err(Error::NotMounted { path: path() }),
            (COVERED, ..) => Err(Error::Covered { path: path() }),
            (_, said, _) => Err(failure(&said)),
        }
    }

    /// As [`Attachment::abort`].
    pub(crate) fn abort(&self) {
        // Without a keeper the connection ends with the process.
        let _ = send(self.socket.as_fd(), &[ABORT], None);
    }

    /// Gives the calling thread a table of descriptors of its own, without the socket. A killed
    /// server ends when all of its threads have; the keeper hears of it when the socket is closed,
    /// which a thread that waits in the kernel for its own mount must not delay.
    pub(crate) fn leave(&self) {
        // SAFETY: the call takes a number, and changes this thread only.
        if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
            return;
        }
        // SAFETY: both descriptors are open, and the table is this thread's own.
        unsafe { libc::dup2(self.nothing.as_raw_fd(), self.socket.as_raw_fd()) };
    }

    /// Writes a line to the system log, also during another request.
    ///
    /// # Errors
    /// The keeper does not take the line at once.
    pub(crate) fn log(&self, severity: Severity, line: &str) -> io::Result<()> {
        let message = [&[LOG, severity.number()], line.as_bytes()].concat();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::send(&self.socket, &message, flags)?;
        Ok(())
    }

    fn ask(&self, byte: u8) -> Result<(u8, Vec<u8>, Option<OwnedFd>)> {
        let _talk = self.talk.lock();
        let socket = self.socket.as_fd();
        let exchanged = send(socket, &[byte], None).and_then(|()| receive(socket));
        let (message, fd) = exchanged.map_err(Error::system("ask the keeper of", &self.path))?;
        let (&status, rest) = message.split_first().unwrap_or((&FAILED, b"it is gone"));
        Ok((status, rest.to_owned(), fd))
    }
}

/// A failure that the keeper described.
fn failure(said: &[u8]) -> Error {
    let said = String::from_utf8_lossy(said).into_owned();
    Error::Server { said, status: 1 }
}

/// Signals stop the server, which then still needs its keeper.
fn ignore_signals() {
    let _ = rustix::process::setsid();
    for signal in crate::signals::SIGNALS {
        // SAFETY: ignoring a signal has no handler that could do wrong.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// What the server had when it ended.
enum Served {
    Mount,
    /// Another server may have the place.
    Nothing,
}

/// Serves the server's requests until it is gone.
fn serve(
    socket: BorrowedFd<'_>,
    place: MountDir,
    options: &MountOptions,
    mut relay: Relay,
) -> Served {
    let attachment = &Attachment::new(place);
    uext4_sync::thread::scope(|scope| {
        serve_requests(scope, socket, attachment, options, &mut relay);
        // A thread of the server, or one of this scope, may wait for answers.
        attachment.abort_unserved();
    });
    match attachment.connection() {
        Some(_) => Served::Mount,
        None => Served::Nothing,
    }
}

fn serve_requests<'s>(
    scope: &'s uext4_sync::thread::Scope<'s, '_>,
    socket: BorrowedFd<'s>,
    attachment: &'s Attachment,
    options: &MountOptions,
    relay: &mut Relay,
) {
    while let Ok((message, _)) = receive(socket) {
        let answered = match message.first() {
            Some(&ATTACH) => hand_over(socket, attachment, attachment.attach(options)),
            Some(&ATTACH_BLOCK) => hand_over(socket, attachment, attachment.attach_block(options)),
            Some(&DETACH) => leave_detach(scope, socket, attachment, Lazy::No),
            Some(&DETACH_LAZILY) => leave_detach(scope, socket, attachment, Lazy::Yes),
            Some(&ABORT) => {
                attachment.abort();
                Ok(())
            }
            Some(&LOG) => {
                relay.pass_on(&message[1..]);
                Ok(())
            }
            _ => return,
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Unmounts in a thread of its own, which sends the reply. The server makes no other request
/// meanwhile, but may abort.
fn leave_detach<'s>(
    scope: &'s uext4_sync::thread::Scope<'s, '_>,
    socket: BorrowedFd<'s>,
    attachment: &'s Attachment,
    lazy: Lazy,
) -> io::Result<()> {
    // A dead server needs no reply.
    uext4_sync::thread::Builder::new()
        .spawn_scoped(scope, move || drop(reply(socket, attachment.detach(lazy))))
        .map(drop)
}

fn hand_over(
    socket: BorrowedFd<'_>,
    attachment: &Attachment,
    attached: Result<DevFuse>,
) -> io::Result<()> {
    let number = attachment.connection().unwrap_or_default();
    let message = [&[DONE][..], &number.to_ne_bytes()].concat();
    match attached {
        Ok(device) => send(socket, &message, Some(device.as_fd())),
        Err(error) => send_failure(socket, &error),
    }
}

fn reply(socket: BorrowedFd<'_>, done: Result<()>) -> io::Result<()> {
    match done {
        Ok(()) => send(socket, &[DONE], None),
        Err(Error::Busy { .. }) => send(socket, &[BUSY], None),
        Err(Error::NotMounted { .. }) => send(socket, &[GONE], None),
        Err(Error::Covered { .. }) => send(socket, &[COVERED], None),
        Err(error) => send_failure(socket, &error),
    }
}

fn send_failure(socket: BorrowedFd<'_>, error: &Error) -> io::Result<()> {
    let mut message = [&[FAILED], error.to_string().as_bytes()].concat();
    message.truncate(MESSAGE_BYTES_MAX);
    send(socket, &message, None)
}

fn send(socket: BorrowedFd<'_>, message: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = fd.map(|fd| [fd]);
    if let Some(fds) = &fds {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(
        socket,
        &[IoSlice::new(message)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives a message; empty if the peer is gone.
fn receive(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut message)];
    let received = recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fd = control.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    message.truncate(received.bytes);
    Ok((message, fd))
}
