//! `uext4 mount` and `uext4 umount`: serves an image through FUSE.

use super::control;
use super::mount_access::{self, LookInside};
use super::mount_loop;
use super::mount_words::{self, Trust, take_ours};
use crate::failure::{self, At, Cause, Exit, Failure, Result};
use crate::image::{Devices, ImageArgs, Purpose};
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;
use uext4::check::Limits;
use uext4::{Access, Filesystem, MountOptions, OnError, QuotaLimits};
use uext4_fuse::{
    Announce, Backing, Channel, DataCache, Error, Explained, Image, Lazy, Run, Sandbox, Stages,
};

const EXAMPLES: &str = "\
Examples:
  uext4 mount disk.img /mnt/data
  uext4 mount -o ro,noatime disk.img --partition 2 /mnt/data
  uext4 mount -o loop disk.img /mnt/data          sync and syncfs reach the image
  uext4 mount --foreground disk.img /mnt/data     until Ctrl-C or umount

The image is clean when `uext4 umount` returns. Errors are logged: to standard error in the
foreground, otherwise to syslog or journald. `uext4 info DIR` lists them, too.

The server is sandboxed: it drops superuser privileges and restricts itself to the image with
Landlock and seccomp, as far as the kernel supports them. -o untrusted first checks the image
(uext4 check, at most 60 seconds and 256 MiB) and refuses a damaged one. It implies ro (unless rw is
given), nosuid, nodev and sandbox, and limits the memory of the server to 2 GiB plus 256 MiB for
each core. Each operation is limited to 256 MiB of metadata and 30 seconds.
";

fn help() -> String {
    format!("{EXAMPLES}\n{}", mount_words::help())
}

/// Mount an image on a directory through FUSE, without the kernel's ext4
#[derive(clap::Args)]
#[command(after_help = help())]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Mount point: an existing directory
    dir: PathBuf,
    /// Mount options, separated by commas; see the table below
    #[arg(short, long, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Run in the foreground
    #[arg(short, long)]
    foreground: bool,
    /// Number of server threads; 0: one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

impl Args {
    pub(crate) fn run(mut self) -> Result<()> {
        // At this point the only open descriptors are those inherited from the caller.
        uext4_fuse::close_inherited().at("the descriptors of the caller")?;
        let mut mount = self.of_server();
        let list = self.options.join(",");
        let rest = self.image.place.take(&list)?;
        let words = take_ours(&rest, &mut mount);
        let words = words.map_err(|error| Failure::usage(format!("-o {error}")))?;
        let options = MountOptions::default().parse(&words.rest);
        let mut options = options.map_err(|error| Failure::options(&list, &error))?;
        if options.quota_limits != QuotaLimits::default() {
            // A writer must get EDQUOT from its write. The kernel's writeback cache does not know
            // the limits.
            if list.split(',').any(|word| word == "writeback") {
                let problem = "writeback: limits of quota need writethrough";
                return Err(Failure::usage(format!("-o {list}: {problem}")));
            }
            mount.data_cache = DataCache::WriteThrough;
        }
        let look_inside = match words.trust {
            Trust::Yes => LookInside::Yes,
            Trust::No => LookInside::No,
        };
        mount_access::fall_back_to_read_only(&self.image, &mut options, look_inside);
        let over_loop = mount_loop::attach(&mut self.image, words.over_loop, options.access)?;
        (mount.source, mount.backing) = (self.source(), self.backing());
        mount.list = list;
        mount.read_only = options.access == Access::ReadOnly;
        mount.files = self.image.files(&options);
        (mount.sync, mount.dirsync) = (options.sync, options.dirsync);
        // The server's process reports the reason, because it opens the image.
        let (this, settled) = (&self, &options);
        let stages = Stages {
            open: move || {
                let devices = this.devices(settled);
                // What is open keeps the loop device from now on.
                drop(over_loop);
                devices
            },
            mount: |devices: Devices| {
                if words.trust == Trust::No {
                    self.vet(&options)?;
                }
                self.open(devices, options.clone())
            },
        };
        let mounted = uext4_fuse::mount_explained(stages, &self.dir, &mount, |error| {
            let (status, text) = self.failure(error).into_parts();
            Explained { status, text }
        });
        mounted.map_err(|error| self.failure(&error))?;
        // In the foreground the mount has ended, and its transport was announced.
        let is_seen = mount.run == Run::Daemon && std::io::stderr().is_terminal();
        if is_seen && mount.channel == Channel::Best {
            hint_at_io_uring();
        }
        Ok(())
    }

    /// The options of the server that are not in the list.
    fn of_server(&self) -> uext4_fuse::MountOptions {
        let (run, announce) = if self.foreground {
            (Run::Foreground, Announce::Yes)
        } else {
            (Run::Daemon, Announce::No)
        };
        uext4_fuse::MountOptions {
            n_threads: self.threads,
            run,
            announce,
            sandbox: Sandbox::Best,
            ..uext4_fuse::MountOptions::default()
        }
    }

    fn source(&self) -> String {
        let path = self.image.storage().canonicalize();
        path.unwrap_or_else(|_| self.image.storage().clone())
            .display()
            .to_string()
    }

    /// An unreadable file counts as a file; opening it reports the error.
    fn backing(&self) -> Backing {
        match std::fs::metadata(self.image.storage()) {
            Ok(found) if !found.file_type().is_block_device() => Backing::File,
            Ok(_) if self.image.place.is_part() => Backing::PartOfBlockDevice,
            Ok(_) => Backing::BlockDevice,
            _ => Backing::File,
        }
    }

    /// Opens the devices. A read-only mount prints a note about another writer.
    fn devices(&self, options: &MountOptions) -> uext4::Result<Devices> {
        let purpose = match options.access {
            Access::ReadOnly => Purpose::Read,
            Access::ReadWrite => Purpose::Change,
        };
        if purpose == Purpose::Read {
            self.image.say_other_writer();
        }
        self.image.devices(purpose, options)
    }

    fn open(&self, devices: Devices, options: MountOptions) -> uext4::Result<Filesystem> {
        let is_writer = options.access == Access::ReadWrite;
        let opened = devices.mount(options)?;
        if is_writer && opened.wants_data_journal() {
            crate::failure::info(format_args!(
                "{}: data=journal in its superblock is done as data=ordered: data is \
                 not logged, so a crash may leave an overwrite done in part",
                self.image.name()
            ));
        }
        if opened.on_error() == OnError::Panic {
            failure::info(format_args!(
                "{}: errors=panic in its superblock: a server does not bring its machine down, \
                 damage stops writing",
                self.image.name()
            ));
        }
        Ok(opened)
    }

    /// Checks an untrusted image and refuses it if it is damaged.
    fn vet(&self, options: &MountOptions) -> uext4::Result<()> {
        let limits = Limits {
            memory_bytes: VET_MEMORY_BYTES,
            time: VET_TIME,
            findings: 1,
            ..Limits::default()
        };
        let report = self.image.check(options.clone(), &limits)?;
        match (report.findings.first(), report.incomplete) {
            (Some(first), _) => Err(first.corrupt.clone().into()),
            (None, Some(why)) => Err(uext4::Error::Mount(format!(
                "it could not be checked: {why}"
            ))),
            (None, None) => Ok(()),
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::FileSystem(error) => Failure::at(error, self.image.name()),
            Error::Server { said, .. } => Failure::new(error.exit(), said.as_str()),
            Error::System { path, source, .. }
                if *path == self.dir && source.kind() == ErrorKind::NotFound =>
            {
                let text = format!("{}: no such directory", path.display());
                Failure::new(error.exit(), text).hint("make it first")
            }
            _ => Failure::new(error.exit(), error.to_string()),
        }
    }
}

fn hint_at_io_uring() {
    if let Some(switch) = uext4_fuse::io_uring_hint() {
        failure::info(format_args!(
            "requests come through /dev/fuse; over io_uring small ones are served 1.2 to 2.4 times \
             as fast: echo Y | sudo tee {}",
            switch.display()
        ));
    }
}

/// Limits of the check of an untrusted image.
const VET_MEMORY_BYTES: u64 = 256 << 20;
const VET_TIME: Duration = Duration::from_secs(60);
/// Unmount, and wait until the image is clean
#[derive(clap::Args)]
#[command(after_help = "Example:\n  uext4 umount /mnt/data")]
pub(crate) struct UmountArgs {
    /// Mount point
    dir: PathBuf,
    /// Detach a busy mount; the image is closed after the last user has finished
    #[arg(short, long)]
    lazy: bool,
}

impl UmountArgs {
    pub(crate) fn run(self) -> Result<()> {
        let lazy = if self.lazy { Lazy::Yes } else { Lazy::No };
        let dir = self.dir.display();
        let unmounted = uext4_fuse::umount_telling(&self.dir, lazy, |cause| {
            if std::io::stderr().is_terminal() {
                failure::info(format_args!("{cause}; waiting for that"));
            }
        });
        match unmounted {
            Ok(Image::Clean) => {}
            Ok(Image::Marked(errors)) => {
                failure::info(format_args!(
                    "{dir}: {errors}; run `uext4 fsck -f` on the image"
                ));
            }
            Ok(Image::NeedsRecovery) => {
                failure::info(format_args!(
                    "{dir}: its server had been killed; the next mount recovers the image"
                ));
            }
            Ok(Image::InUse) => {
                failure::info(format_args!(
                    "{dir}: detached; the image is in use until its last user is gone"
                ));
            }
            Err(error) => return Err(control::failure(&self.dir, &error)),
        }
        Ok(())
    }
}

impl Cause for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::FileSystem(error) => error.exit(),
            Error::Server { status, .. } => Exit::from_status(*status),
            Error::Mounted { .. }
            | Error::Busy { .. }
            | Error::Frozen { .. }
            | Error::Kept { .. }
            | Error::StillOpen { .. }
            | Error::StillLocked { .. } => Exit::Busy,
            Error::Refused(why) if why.errno == EBUSY => Exit::Busy,
            _ => Exit::Failed,
        }
    }
}

const EBUSY: i32 = 16;
