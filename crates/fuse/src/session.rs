//! A mount from its beginning to its end.
//!
//! Order: fork the keeper, claim the mount point, open the devices and claim what shows their
//! bytes, restrict which files are reached, mount the image, attach, greet the kernel, serve,
//! listen on the control socket, restrict which calls are made; then stop listening, close the
//! image, say how that went, give the claim back. `umount` waits for the claim, so a caller that
//! saw it end finds the image closed.
//! Invariants: a thread that panics takes the process down at once. What was half done is in a
//! transaction that never commits, so the next mount finds a consistent image.

use crate::bdi::Bdi;
use crate::claim::{CLOSING_MAX, Claim};
use crate::control::Control;
use crate::error::{Error, Explained, Result};
use crate::fixed_options::FixedOptions;
use crate::init::READ_AHEAD_BYTES;
use crate::log::{Log, plain};
use crate::mount_dir::MountDir;
use crate::mount_point::Lazy;
use crate::notify::Notifier;
use crate::options::{Announce, MountOptions, Run, Sandbox};
use crate::pressure::Pressure;
use crate::privileged::Privileged;
use crate::sandbox::Locked;
use crate::stopper::Stopper;
use crate::transport::DevFuse;
use crate::workers::Workers;
use crate::{cache_bound, daemon, sandbox, signals};
use std::io;
use std::path::Path;
use uext4::Filesystem;
use uext4_sync::Arc;

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
    let stages = Stages {
        open: || Ok(()),
        mount: |()| open(),
    };
    mount_explained(stages, mount_point, options, |error| error.into())
}

/// How a server gets its file system.
pub struct Stages<O, M> {
    /// Opens the devices, before the server is locked in: looking for other users of their storage
    /// takes files that it cannot reach later. No byte of an image is interpreted here.
    pub open: O,
    /// Mounts the file system that is on them.
    pub mount: M,
}

/// As [`mount`]; `explain` says what becomes [`Error::Server`] of an error that a server process
/// meets.
///
/// # Errors
/// As [`mount`].
pub fn mount_explained<D>(
    stages: Stages<impl FnOnce() -> uext4::Result<D>, impl FnOnce(D) -> uext4::Result<Filesystem>>,
    mount_point: &Path,
    options: &MountOptions,
    explain: impl FnOnce(&Error) -> Explained,
) -> Result<()> {
    let place = MountDir::open(mount_point)?;
    match options.run {
        Run::Foreground => serve(stages, place, options, || ()),
        Run::Daemon => match daemon::fork()? {
            daemon::Side::Parent(child) => child.wait_ready(),
            daemon::Side::Child(parent) => {
                parent.finish(|ready| serve(stages, place, options, ready), explain)
            }
        },
    }
}

fn serve<D>(
    stages: Stages<impl FnOnce() -> uext4::Result<D>, impl FnOnce(D) -> uext4::Result<Filesystem>>,
    place: MountDir,
    options: &MountOptions,
    ready: impl FnOnce(),
) -> Result<()> {
    signals::survive_file_size_limit();
    let privileged = Privileged::of(place, options)?;
    let claim = Claim::take(privileged.path(), CLOSING_MAX)?;
    let (mut caught, mut locking) = (None, None);
    let dir = claim.dir().to_owned();
    let session = Session::claimed(claim, privileged, options, || {
        let devices = (stages.open)()?;
        locking = match options.sandbox {
            Sandbox::Off => None,
            _ => Some(sandbox::begin(options, &dir)?),
        };
        let filesystem = (stages.mount)(devices)?;
        caught = Some(signals::catch());
        Ok(filesystem)
    })?;
    if options.run == Run::Daemon {
        // Paths of the caller have been opened; the directory may be unmounted later.
        let _ = rustix::process::chdir("/");
    }
    if let Some(caught) = caught
        && let Err(error) = caught.and_then(|caught| session.stopper().unmount_on(caught))
    {
        return Err(session.give_up(error));
    }
    // No client can connect later.
    let notifier = (options.run == Run::Foreground).then(Notifier::connect);
    let locked = match locking.map(|half| half.finish(options.sandbox)) {
        None => Locked::No,
        Some(Ok(locked)) => locked,
        Some(Err(error)) => return Err(session.give_up(error)),
    };
    session.announce(options, locked);
    ready();
    if let Some(notifier) = notifier.flatten() {
        notifier.ready(&session.workers.served.to_string());
    }
    session.wait()
}

/// A mount that this process serves on threads of its own.
pub struct Session {
    workers: Workers,
    privileged: Privileged,
    log: Arc<Log>,
    control: Control,
    pressure: Option<Pressure>,
    claim: Option<Claim>,
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
        let place = MountDir::open(mount_point)?;
        if options.sandbox != Sandbox::Off {
            let error = io::ErrorKind::Unsupported.into();
            return Err(Error::system("lock in", "a process that has threads")(
                error,
            ));
        }
        let claim = Claim::take(place.path(), CLOSING_MAX)?;
        let session = Self::claimed(claim, Privileged::own(place), options, || Ok(filesystem))?;
        session.announce(options, Locked::No);
        Ok(session)
    }

    /// Whatever fails, the claim is given back.
    fn claimed(
        claim: Claim,
        privileged: Privileged,
        options: &MountOptions,
        open: impl FnOnce() -> Result<Filesystem>,
    ) -> Result<Self> {
        match open().and_then(|filesystem| Self::attached(filesystem, privileged, options, &claim))
        {
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

    fn attached(
        filesystem: Filesystem,
        privileged: Privileged,
        options: &MountOptions,
        claim: &Claim,
    ) -> Result<Self> {
        cache_bound::bound(&filesystem)?;
        let device = privileged.attach(&filesystem, options)?;
        if let Some(connection) = privileged.connection() {
            claim.store_connection(connection);
        }
        let launched = Self::launch(device, filesystem, privileged.clone(), options, claim.dir());
        if launched.is_err() {
            // What is mounted now would serve nothing.
            let _ = privileged.detach(Lazy::Yes);
        }
        launched
    }

    fn launch(
        device: DevFuse,
        filesystem: Filesystem,
        privileged: Privileged,
        options: &MountOptions,
        dir: &Path,
    ) -> Result<Self> {
        let path = privileged.path();
        let fixed_options = FixedOptions::new(&options.list);
        let log = Log::of(&privileged, options);
        filesystem.listen(log.clone());
        let workers = Workers::start(device, filesystem, &privileged, options)?;
        let server = workers.service.server.clone();
        let control = Control::start(server, (dir, path), &workers.served, fixed_options)?;
        let pressure = Pressure::watch(workers.service.server.clone());
        if let Some(bdi) = privileged.connection().and_then(Bdi::of) {
            bdi.read_ahead(READ_AHEAD_BYTES);
            workers.service.server.raise_dirty_limit(&bdi);
        }
        Ok(Self {
            workers,
            privileged,
            log,
            control,
            pressure,
            claim: None,
        })
    }

    fn announce(&self, options: &MountOptions, locked: Locked) {
        self.control.publish_sandbox(locked);
        if options.announce == Announce::Yes {
            let path = plain(&self.privileged.path().to_string_lossy());
            eprintln!("uext4: {path} is served {}; {locked}", self.workers.served);
        }
    }

    /// Unmounts, waits until the last user is gone, and closes the image.
    ///
    /// # Errors
    /// [`Error::Busy`] leaves everything as it was but `self` detached; as [`Self::wait`]
    /// otherwise.
    pub fn unmount(self, lazy: Lazy) -> Result<()> {
        self.privileged.detach(lazy)?;
        self.wait()
    }

    /// Takes the mount off again, because of `error`.
    fn give_up(self, error: Error) -> Error {
        let _ = self.privileged.detach(Lazy::Yes);
        // The mount has no user yet that could hear of a failure.
        let _ = self.wait();
        error
    }

    fn stopper(&self) -> Stopper {
        let server = &self.workers.service.server;
        Stopper::new(server, self.privileged.clone(), self.log.clone())
    }

    /// Waits for the unmount, and closes the image.
    ///
    /// # Errors
    /// What kept the image from being closed cleanly, or the requests from being served.
    pub fn wait(self) -> Result<()> {
        let Self {
            mut workers,
            privileged,
            ..
        } = self;
        let served = workers.wait(|| privileged.abort());
        self.control.stop();
        if let Some(pressure) = self.pressure {
            pressure.stop();
        }
        let closed = workers.service.server.close().map_err(Error::from);
        let closed = closed.and(served.map_err(Error::system("serve", privileged.path())));
        let recorded = workers.service.server.filesystem().recorded_errors();
        self.log.say_end(&closed, recorded.as_deref());
        // The image's lock goes with the last that has it: a caller that sees the claim end finds
        // it free.
        drop(workers);
        if let Some(claim) = self.claim {
            let said = closed.as_ref().map_err(|error| error.to_string());
            claim.finish(&said.map(|()| recorded));
        }
        closed
    }
}
