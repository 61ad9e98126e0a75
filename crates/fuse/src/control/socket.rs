//! Server side of the control socket: one accepting thread, one thread per client.
//!
//! Invariants: the holder of the claim of a mount point owns the socket of that name, so an
//! existing one belongs to a dead server. Before the image is closed, the socket is removed and all
//! verbs have finished.

use super::line::{Lines, Woken, wait};
use super::snapshot_channel::Channel;
use super::snapshots;
use super::verbs::{self, Mount};
use super::wire::{Ask, REQUEST_BYTES_MAX, Refusal, answer, parse_request};
use crate::error::{Error, Result};
use crate::fixed_options::FixedOptions;
use crate::runtime_dir::SOCKET_NAME;
use crate::sandbox::Locked;
use crate::server::Server;
use crate::worker_pool::AbortOnPanic;
use crate::workers::Served;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use std::fs::{self, File, Permissions};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uext4_sync::thread::{self, JoinHandle};
use uext4_sync::{Arc, OnceLock};

/// Maximum number of clients; further ones are rejected.
const CLIENTS_MAX: usize = 16;
/// Maximum time of a client to send a request and to take the answer.
pub(super) const CLIENT_LIMIT: Duration = Duration::from_secs(10);
/// Control socket of a running mount.
pub(crate) struct Control {
    path: PathBuf,
    /// Closing it stops the threads.
    stop: PipeWriter,
    listener: JoinHandle<()>,
    locked: Arc<OnceLock<Locked>>,
}

impl Control {
    /// Listens for `server`, which serves `mount_point` and holds the claim in `dir`.
    ///
    /// # Errors
    /// The system error.
    pub(crate) fn start(
        server: Arc<Server>,
        (dir, mount_point): (&Path, &Path),
        served: &Served,
        fixed_options: FixedOptions,
    ) -> Result<Self> {
        let path = dir.join(SOCKET_NAME);
        let failed = || Error::system("listen on", &path);
        let socket = bind(&path).map_err(failed())?;
        let mut spare = Spare::default();
        spare.fill(&socket).map_err(failed())?;
        let (stopped, stop) = io::pipe().map_err(failed())?;
        let mount = Mount::new(server, mount_point, served, fixed_options);
        let locked = mount.locked.clone();
        let listener = thread::Builder::new()
            .name("uext4-control".into())
            .spawn(move || {
                let _guard = AbortOnPanic;
                accept(&socket, spare, &Arc::new(stopped), &Arc::new(mount));
            })
            .map_err(failed())?;
        Ok(Self {
            path,
            stop,
            listener,
            locked,
        })
    }

    /// Publishes the state of the sandbox.
    pub(crate) fn publish_sandbox(&self, locked: Locked) {
        // Set once.
        let _ = self.locked.set(locked);
    }

    /// Waits for running verbs and closes the socket.
    pub(crate) fn stop(self) {
        let _ = fs::remove_file(&self.path);
        drop(self.stop);
        // A panic of the thread aborts the process.
        let _ = self.listener.join();
    }
}

/// Calls `act` with a path to `socket` that fits into a socket address.
pub(super) fn with_address<T>(
    socket: &Path,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let (Some(dir), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let here = Path::new(".");
    let dir = if dir == Path::new("") { here } else { dir };
    let flags = (OFlags::DIRECTORY | OFlags::NONBLOCK).bits();
    let mut options = File::options();
    let options = options.read(true).custom_flags(flags.cast_signed());
    let dir = options.open(dir)?;
    act(&Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = with_address(path, |address| UnixListener::bind(address))?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Descriptors in reserve, so that a process that has used up all others still serves a client,
/// such as the one that unmounts.
#[derive(Default)]
struct Spare(Vec<UnixListener>);

impl Spare {
    /// Descriptors that serving one client takes.
    const N: usize = 2;

    fn fill(&mut self, socket: &UnixListener) -> io::Result<()> {
        while self.0.len() < Self::N {
            self.0.push(socket.try_clone()?);
        }
        Ok(())
    }

    fn accept(&mut self, socket: &UnixListener) -> io::Result<UnixStream> {
        // Without reserves one is served as long as there are others.
        let _ = self.fill(socket);
        let accepted = match socket.accept() {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                self.0.clear();
                socket.accept()
            }
            accepted => accepted,
        };
        accepted.map(|(stream, _)| stream)
    }
}

/// Accepts clients until the other end of `stop` is closed, then joins their threads.
fn accept(socket: &UnixListener, mut spare: Spare, stop: &Arc<PipeReader>, mount: &Arc<Mount>) {
    let mut clients: Vec<JoinHandle<()>> = Vec::new();
    loop {
        if let Ok(Woken::Stopped) = wait(socket, PollFlags::IN, Some(stop), None) {
            break;
        }
        // The client is gone, or no descriptors are left: wait for the next one.
        let Ok(stream) = spare.accept(socket) else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        clients.retain(|client| !client.is_finished());
        let (stop, mount) = (stop.clone(), mount.clone());
        if clients.len() >= CLIENTS_MAX {
            send_away(&stream);
            continue;
        }
        let client = thread::Builder::new()
            .name("uext4-client".into())
            .spawn(move || {
                let _guard = AbortOnPanic;
                // A client that disconnects, is too slow or sends too much: no other thread needs
                // to know.
                let _ = serve(&stream, &stop, &mount);
            });
        clients.extend(client.ok());
    }
    for client in clients {
        let _ = client.join();
    }
}

fn send_away(mut stream: &UnixStream) {
    let refusal = Refusal {
        errno: libc::EBUSY,
        text: format!("{CLIENTS_MAX} clients are being served"),
    };
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(&answer(Err(refusal)));
}

/// Serves the requests of one client.
fn serve(stream: &UnixStream, stop: &PipeReader, mount: &Mount) -> io::Result<()> {
    let mut lines = Lines::new(stream, Some(stop), REQUEST_BYTES_MAX)?;
    if !is_welcome(stream)? {
        let refusal = Refusal {
            errno: libc::EACCES,
            text: "only the user of the server and the superuser are listened to".into(),
        };
        return lines.send(&answer(Err(refusal)), CLIENT_LIMIT);
    }
    loop {
        let answered = match lines.receive(Some(CLIENT_LIMIT)) {
            Ok(None) => return Ok(()),
            Ok(Some(line)) => match parse_request(&line) {
                Ok(Ask::Snapshot(wanted)) => {
                    let mut channel = Channel::new(stream, stop);
                    return snapshots::serve(&mut lines, &mut channel, mount, &wanted);
                }
                ask => ask.and_then(|ask| verbs::run(mount, ask)),
            },
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let text = format!("a request has at most {REQUEST_BYTES_MAX} bytes");
                return lines.send(&answer(Err(Refusal::invalid(text))), CLIENT_LIMIT);
            }
            Err(error) => return Err(error),
        };
        lines.send(&answer(answered), CLIENT_LIMIT)?;
    }
}

fn is_welcome(stream: &UnixStream) -> io::Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}
