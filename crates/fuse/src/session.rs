//! A mount from its beginning to its end.
//!
//! Order: claim the mount point, open the image, attach, greet the kernel, serve, listen on the
//! control socket; then stop listening, close the image, say how that went, give the claim back.
//! `umount` waits for the claim, so whoever saw it end finds the image closed.
//! Invariants: a thread that panics takes the process down at once. What was half done is in a
//! transaction that never commits, so the next mount finds a consistent image.

use crate::answer::Answer;
use crate::claim::Claim;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::flusher::{FlusherQueue, flusher};
use crate::init::{Agreement, Greeting, READ_AHEAD_BYTES, WRITE_BYTES_MAX, greet};
use crate::mount_point::{Lazy, attach, detach};
use crate::options::{MountOptions, Run};
use crate::protocol::opcode;
use crate::request::Request;
use crate::server::{Outcome, Server};
use crate::transport::Transport;
use crate::{daemon, errno::Errno, signals};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use uext4::Filesystem;

/// Bytes of a request besides the data of a write.
const REQUEST_MORE_BYTES: usize = 8192;

/// Mounts the file system that `open` opens on `mount_point`, and serves it until it is unmounted.
/// With [`Run::Daemon`] a process of its own serves it, and this returns when the mount is ready;
/// then the calling process must not have other threads yet. Terminate, interrupt and hang up
/// unmount; a second one closes the image even if the mount is in use.
///
/// # Errors
/// Those of `open`; what kept the mount from being made; in the foreground also what kept the
/// image from being closed cleanly.
pub fn mount(
    open: impl FnOnce() -> uext4::Result<Filesystem>,
    mount_point: &Path,
    options: &MountOptions,
) -> Result<()> {
    // A daemon leaves the working directory.
    let path = directory(mount_point)?;
    match options.run {
        Run::Foreground => serve(open, &path, options, || ()),
        Run::Daemon => match daemon::fork()? {
            daemon::Side::Parent(child) => child.wait_ready(),
            daemon::Side::Child(parent) => {
                parent.finish(|ready| serve(open, &path, options, ready))
            }
        },
    }
}

/// The full path of a directory to mount on.
fn directory(mount_point: &Path) -> Result<PathBuf> {
    let found = mount_point.canonicalize();
    let path = found.map_err(Error::system("find", mount_point))?;
    // The kernel would mount on a file as well, a root that nobody can enter.
    if !path.is_dir() {
        let error = std::io::ErrorKind::NotADirectory.into();
        return Err(Error::system("mount on", mount_point)(error));
    }
    Ok(path)
}

fn serve(
    open: impl FnOnce() -> uext4::Result<Filesystem>,
    path: &Path,
    options: &MountOptions,
    ready: impl FnOnce(),
) -> Result<()> {
    let claim = Claim::take(path)?;
    let session = Session::claimed(claim, path, options, open)?;
    signals::on_stop(session.stopper())?;
    ready();
    session.wait()
}

/// A mount that this process serves on threads of its own.
pub struct Session {
    server: Arc<Server>,
    workers: Vec<JoinHandle<std::io::Result<()>>>,
    flusher: JoinHandle<()>,
    path: PathBuf,
    control: Control,
    claim: Option<Claim>,
}

/// Ends a session from another thread.
pub(crate) struct Stopper {
    server: Arc<Server>,
    path: PathBuf,
}

impl Session {
    /// Mounts `filesystem` on `mount_point` and serves it in the background.
    ///
    /// # Errors
    /// What kept the mount from being made.
    pub fn start(
        filesystem: Filesystem,
        mount_point: &Path,
        options: &MountOptions,
    ) -> Result<Self> {
        let path = directory(mount_point)?;
        let claim = Claim::take(&path)?;
        Self::claimed(claim, &path, options, || Ok(filesystem))
    }

    /// Whatever fails, the claim is given back.
    fn claimed(
        claim: Claim,
        path: &Path,
        options: &MountOptions,
        open: impl FnOnce() -> uext4::Result<Filesystem>,
    ) -> Result<Self> {
        let opened = open().map_err(Error::from);
        match opened.and_then(|filesystem| Self::attached(filesystem, path, options)) {
            Ok(session) => Ok(Self {
                claim: Some(claim),
                ..session
            }),
            Err(error) => {
                claim.finish(&Err(error.to_string()));
                Err(error)
            }
        }
    }

    fn attached(filesystem: Filesystem, path: &Path, options: &MountOptions) -> Result<Self> {
        let device = attach(path, options)?;
        let launched = Self::launch(&device, filesystem, path, options);
        if launched.is_err() {
            // What is mounted now would answer nothing.
            let _ = detach(path, Lazy::Yes);
        }
        launched
    }

    fn launch(
        first: &dyn Transport,
        filesystem: Filesystem,
        path: &Path,
        options: &MountOptions,
    ) -> Result<Self> {
        let failed = || Error::system("serve", path);
        let agreement = agree(first, options).map_err(failed())??;
        let (flusher, queue) = flusher();
        let server = Arc::new(Server::new(filesystem, agreement, flusher)?);
        let mut workers = Vec::new();
        for index in 0..options.threads() {
            let transport = first.another().map_err(failed())?;
            let server = server.clone();
            let worker = thread::Builder::new()
                .name(format!("uext4-fuse-{index}"))
                .spawn(move || work(&server, &transport))
                .map_err(failed())?;
            workers.push(worker);
        }
        let flusher = spawn_flusher(&server, queue).map_err(failed())?;
        let control = Control::start(server.clone(), path)?;
        raise_read_ahead(path);
        Ok(Self {
            server,
            workers,
            flusher,
            path: path.into(),
            control,
            claim: None,
        })
    }

    /// Unmounts, waits until the last user is gone, and closes the image.
    ///
    /// # Errors
    /// [`Error::Busy`] leaves everything as it was but `self` detached; as [`Self::wait`]
    /// otherwise.
    pub fn unmount(self, lazy: Lazy) -> Result<()> {
        detach(&self.path, lazy)?;
        self.wait()
    }

    pub(crate) fn stopper(&self) -> Stopper {
        Stopper {
            server: self.server.clone(),
            path: self.path.clone(),
        }
    }

    /// Waits until somebody unmounts, and closes the image.
    ///
    /// # Errors
    /// What kept the image from being closed cleanly, or the requests from being served.
    pub fn wait(mut self) -> Result<()> {
        let mut served = Ok(());
        for worker in std::mem::take(&mut self.workers) {
            let done = worker
                .join()
                .unwrap_or(Err(std::io::ErrorKind::Other.into()));
            served = served.and(done);
        }
        self.control.stop();
        self.server.stop_flusher();
        let closed = self.server.close().map_err(Error::from);
        let closed = closed.and(served.map_err(Error::system("serve", &self.path)));
        if let Some(claim) = self.claim.take() {
            claim.finish(&closed.as_ref().copied().map_err(|error| error.to_string()));
        }
        // It waits for nothing but its queue, whose end it has seen.
        let _ = self.flusher.join();
        closed
    }
}

impl Stopper {
    /// Unmounts; detaches when the mount is in use, and says so.
    pub(crate) fn unmount(&self) {
        match detach(&self.path, Lazy::No) {
            Err(Error::Busy { path }) => {
                eprintln!(
                    "uext4: {} is in use; it vanishes with its last user",
                    path.display()
                );
                let _ = detach(&path, Lazy::Yes);
            }
            Err(error) => eprintln!("uext4: {error}"),
            Ok(()) => {}
        }
    }

    /// Closes the image, whoever uses the mount, and ends the process.
    pub(crate) fn close_and_exit(&self) -> ! {
        let code = match self.server.close() {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("uext4: {error}");
                1
            }
        };
        std::process::exit(code)
    }
}

/// The first exchange with the kernel. The outer error is the device's.
fn agree(transport: &dyn Transport, options: &MountOptions) -> std::io::Result<Result<Agreement>> {
    let mut buf = vec![0; REQUEST_MORE_BYTES + WRITE_BYTES_MAX as usize];
    let mut answer = Answer::new(64);
    loop {
        let len = transport
            .receive(&mut buf)?
            .ok_or(std::io::ErrorKind::NotConnected)?;
        let request = Request::parse(&buf[..len]).ok_or(Errno::EPROTO)?;
        if request.opcode != opcode::INIT {
            transport.send(answer.finish(request.unique, Err(Errno::EIO)))?;
            continue;
        }
        let greeting = greet(&request, options, &mut answer);
        transport.send(answer.finish(request.unique, greeting.map(|_| ())))?;
        match greeting {
            Ok(Greeting::Agreed(agreement)) => return Ok(Ok(agreement)),
            Ok(Greeting::AskAgain) => answer.clear(),
            Err(_) => return Ok(Err(Error::Protocol)),
        }
    }
}

fn spawn_flusher(server: &Arc<Server>, queue: FlusherQueue) -> std::io::Result<JoinHandle<()>> {
    let server = server.clone();
    let name = "uext4-fuse-flush".to_owned();
    thread::Builder::new().name(name).spawn(move || {
        let _guard = AbortOnPanic;
        queue.run(&server);
    })
}

/// Serves requests until the file system is unmounted.
fn work(server: &Server, transport: &Arc<dyn Transport>) -> std::io::Result<()> {
    let _guard = AbortOnPanic;
    let mut buf = vec![0; REQUEST_MORE_BYTES + WRITE_BYTES_MAX as usize];
    let mut answer = Answer::new(WRITE_BYTES_MAX as usize);
    while let Some(len) = transport.receive(&mut buf)? {
        let Some(request) = Request::parse(&buf[..len]) else {
            return Err(Errno::EPROTO.into());
        };
        answer.clear();
        match server.handle(&request, transport, &mut answer) {
            Outcome::Silent => {}
            Outcome::Destroyed => transport.send(answer.finish(request.unique, Ok(())))?,
            Outcome::Answer(done) => {
                let sent = transport.send(answer.finish(request.unique, done));
                if sent.is_err() {
                    // The kernel did not like it; its caller must not wait forever.
                    transport.send(answer.finish(request.unique, Err(Errno::EIO)))?;
                }
            }
        }
    }
    Ok(())
}

/// Takes the process down with the thread that holds it.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// Lets the kernel read further ahead than its default of 128 KiB. Only the superuser can; without
/// it sequential reads are slower, nothing else.
fn raise_read_ahead(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = std::fs::metadata(path) else {
        return;
    };
    let (major, minor) = (
        rustix::fs::major(metadata.dev()),
        rustix::fs::minor(metadata.dev()),
    );
    let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let _ = std::fs::write(file, (READ_AHEAD_BYTES / 1024).to_string());
}
