//! `uext4 mount` and `uext4 umount`: the image as a directory, through FUSE.

use super::control;
use super::mount_access::{self, LookInside};
use crate::failure::{self, At, Cause, Exit, Failure, Result};
use crate::image::{Devices, ImageArgs, Purpose};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;
use uext4::check::Limits;
use uext4::{Access, Filesystem, MountOptions, OnError, QuotaLimits};
use uext4_fuse::{
    Announce, Backing, BadOwners, Channel, DataCache, Error, Explained, Image, Lazy, Run, Sandbox,
    Sharing, Stages,
};

/// Mount an image on a directory, without the kernel's ext4
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 mount disk.img /mnt/data
  uext4 mount -o ro,noatime disk.img --partition 2 /mnt/data
  uext4 mount --foreground disk.img /mnt/data     until Ctrl-C or umount

OPTIONS are those of ext4 (ro, noatime, sync, lazytime, commit=SECONDS, acl, ...) and nosuid,
nodev, noexec, allow_other, writethrough, offset=BYTES, partition=N, uid=N and gid=N (everything is
shown as this owner's), map=KIND:INSIDE:OUTSIDE:COUNT (KIND u, g or b for both; owners INSIDE the
image are shown as those OUTSIDE, and the other way round). Requests come over io_uring
where the kernel offers it (Linux 6.14, Y in /sys/module/fuse/parameters/enable_uring), else through
/dev/fuse: io_uring demands the first, no_io_uring the second. The image is clean once
`uext4 umount` returns.

Once mounted, the server reaches nothing but the image: it drops the superuser's privileges and
locks itself in with Landlock and seccomp, as far as the kernel has them. sandbox demands both,
no_sandbox does without. untrusted is for images of strangers: they must be sound (uext4 check, in
60 seconds and 256 MiB at most), ro unless rw is said, nosuid, nodev, sandbox, 2 GiB of memory and
256 MiB for each core at most. No operation looks at more than 256 MiB of metadata or takes longer
than 30 seconds (operation_bytes=BYTES, operation_seconds=N, 0 for no bound).")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Existing directory
    dir: PathBuf,
    /// Mount options, separated by commas
    #[arg(short, long, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Stay in this terminal
    #[arg(short, long)]
    foreground: bool,
    /// Threads that serve; default: one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

impl Args {
    pub(crate) fn run(mut self) -> Result<()> {
        // Nothing is open yet but what the caller left open.
        uext4_fuse::close_inherited().at("the descriptors of the caller")?;
        let mut mount = uext4_fuse::MountOptions {
            n_threads: self.threads,
            source: self.source(),
            run: if self.foreground {
                Run::Foreground
            } else {
                Run::Daemon
            },
            announce: if self.foreground {
                Announce::Yes
            } else {
                Announce::No
            },
            sandbox: Sandbox::Best,
            ..uext4_fuse::MountOptions::default()
        };
        let list = self.options.join(",");
        let rest = self.image.place.take(&list)?;
        mount.backing = self.backing();
        let rest = take_ours(&rest, &mut mount);
        let (rest, trust) = rest.map_err(|error| Failure::usage(format!("-o {error}")))?;
        let options = MountOptions::default().parse(&rest);
        let mut options = options.map_err(|error| Failure::options(&list, &error))?;
        if options.quota_limits != QuotaLimits::default() {
            // Who writes must hear of a limit, which a cache of writes does not know.
            if list.split(',').any(|word| word == "writeback") {
                let problem = "writeback: limits of quota need writethrough";
                return Err(Failure::usage(format!("-o {list}: {problem}")));
            }
            mount.data_cache = DataCache::WriteThrough;
        }
        let look_inside = match trust {
            Trust::Yes => LookInside::Yes,
            Trust::No => LookInside::No,
        };
        mount_access::settle(&self.image, &mut options, look_inside);
        mount.list = list;
        mount.read_only = options.access == Access::ReadOnly;
        mount.files = self.image.files(&options);
        (mount.sync, mount.dirsync) = (options.sync, options.dirsync);
        // The reason is told by the server's process: it opens the image.
        let stages = Stages {
            open: || self.devices(&options),
            mount: |devices: Devices| {
                if trust == Trust::No {
                    self.vet(&options)?;
                }
                self.open(devices, options.clone())
            },
        };
        let explain = |error: &Error| {
            let (status, text) = self.failure(error).into_parts();
            Explained { status, text }
        };
        let mounted = uext4_fuse::mount_explained(stages, &self.dir, &mount, explain);
        mounted.map_err(|error| self.failure(&error))
    }

    fn source(&self) -> String {
        let path = self.image.image.canonicalize();
        path.unwrap_or_else(|_| self.image.image.clone())
            .display()
            .to_string()
    }

    /// What cannot be looked at is told when it is opened.
    fn backing(&self) -> Backing {
        match std::fs::metadata(&self.image.image) {
            Ok(found) if !found.file_type().is_block_device() => Backing::File,
            Ok(_) if self.image.place.is_part() => Backing::PartOfBlockDevice,
            Ok(_) => Backing::BlockDevice,
            _ => Backing::File,
        }
    }

    /// Opens the devices; a reader is told of a writer beside it.
    fn devices(&self, options: &MountOptions) -> uext4::Result<Devices> {
        let purpose = match options.access {
            Access::ReadOnly => Purpose::Read,
            Access::ReadWrite => Purpose::Change,
        };
        if let (Purpose::Read, Some(user)) = (purpose, self.image.other_writer()) {
            let name = self.image.name();
            let note = format!("{name}: in use: {user}; what is read here may be stale or torn");
            failure::note(note);
        }
        self.image.devices(purpose, options)
    }

    fn open(&self, devices: Devices, options: MountOptions) -> uext4::Result<Filesystem> {
        let is_writer = options.access == Access::ReadWrite;
        let opened = devices.mount(options)?;
        if is_writer && opened.wants_data_journal() {
            crate::failure::note(format_args!(
                "{}: data=journal in its superblock is done as data=ordered: data is \
                 not logged, so a crash may leave an overwrite done in part",
                self.image.name()
            ));
        }
        if opened.on_error() == OnError::Panic {
            failure::note(format_args!(
                "{}: errors=panic in its superblock: a server does not bring its machine down, \
                 damage stops writing",
                self.image.name()
            ));
        }
        Ok(opened)
    }

    /// Refuses an image of strangers that is not sound.
    fn vet(&self, options: &MountOptions) -> uext4::Result<()> {
        let limits = Limits {
            memory_bytes: VET_MEMORY_BYTES,
            time: VET_TIME,
            findings: 1,
        };
        self.image.check(options.clone(), &limits)?.require_sound()
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

/// Whether who made the image means well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Yes,
    No,
}

/// What looking over an image of strangers may take.
const VET_MEMORY_BYTES: u64 = 256 << 20;
const VET_TIME: Duration = Duration::from_secs(60);
/// How such an image is used: what one operation looks at and holds, and how long it takes.
const UNTRUSTED_WORDS: &str = "ro,operation_bytes=268435456,operation_seconds=30";
/// Memory that the server of such an image may have, and what rings of one core take of it more.
const UNTRUSTED_MEMORY_BYTES: u64 = 2 << 30;
const RING_MEMORY_BYTES: u64 = 256 << 20;

/// Takes the options out of the list that concern the kernel's side; answers the others.
pub(super) fn take_ours(
    list: &str,
    mount: &mut uext4_fuse::MountOptions,
) -> std::result::Result<(String, Trust), BadOwners> {
    let (mut rest, mut trust) = (Vec::new(), Trust::Yes);
    for word in list.split(',').filter(|word| !word.is_empty()) {
        match word {
            "nosuid" => mount.no_suid = true,
            "nodev" => mount.no_dev = true,
            "noexec" => mount.no_exec = true,
            "allow_other" => mount.sharing = Sharing::Everybody,
            "writethrough" => mount.data_cache = DataCache::WriteThrough,
            "io_uring" => mount.channel = Channel::IoUring,
            "no_io_uring" => mount.channel = Channel::DevFuse,
            "sandbox" => mount.sandbox = Sandbox::Must,
            "no_sandbox" => mount.sandbox = Sandbox::Off,
            "untrusted" => trust = Trust::No,
            "writeback" => mount.data_cache = DataCache::WriteBack,
            other if mount.owners.take(other)? => {}
            other => {
                mount.no_atime |= other == "noatime";
                rest.push(other);
            }
        }
    }
    if trust == Trust::No {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        mount.memory_bytes_max = Some(UNTRUSTED_MEMORY_BYTES + cores * RING_MEMORY_BYTES);
        (mount.no_suid, mount.no_dev) = (true, true);
        mount.sandbox = Sandbox::Must;
        // The last words say how it is used.
        rest.insert(0, UNTRUSTED_WORDS);
    }
    Ok((rest.join(","), trust))
}

/// Take a mount off, and wait until the image is clean
#[derive(clap::Args)]
#[command(after_help = "Example:\n  uext4 umount /mnt/data")]
pub(crate) struct UmountArgs {
    /// Where it is mounted
    dir: PathBuf,
    /// Detach a mount that is in use; the image is closed after its last user
    #[arg(short, long)]
    lazy: bool,
}

impl UmountArgs {
    pub(crate) fn run(self) -> Result<()> {
        let lazy = if self.lazy { Lazy::Yes } else { Lazy::No };
        let dir = self.dir.display();
        match uext4_fuse::umount(&self.dir, lazy) {
            Ok(Image::Clean) => {}
            Ok(Image::Marked(errors)) => {
                eprintln!("uext4: note: {dir}: {errors}; run e2fsck -f on the image");
            }
            Ok(Image::NeedsRecovery) => {
                failure::note(format_args!(
                    "{dir}: its server had been killed; the next mount recovers the image"
                ));
            }
            Ok(Image::InUse) => {
                failure::note(format_args!(
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
            | Error::StillOpen { .. } => Exit::Busy,
            Error::Refused(why) if why.errno == EBUSY => Exit::Busy,
            _ => Exit::Failed,
        }
    }
}

/// `EBUSY` of Linux.
const EBUSY: i32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_both_sides_are_told_apart() {
        let mut mount = uext4_fuse::MountOptions::default();
        assert_eq!(
            take_ours("ro,nosuid,noatime,uid=7,writethrough,commit=9", &mut mount),
            Ok(("ro,noatime,commit=9".into(), Trust::Yes))
        );
        assert!(mount.no_suid && mount.no_atime && !mount.no_dev);
        assert_ne!(mount.owners, uext4_fuse::Owners::default());
        assert!(take_ours("ro,map=u:1", &mut mount).is_err());
        let rest = take_ours("untrusted,rw,dev", &mut mount);
        assert_eq!(rest, Ok((format!("{UNTRUSTED_WORDS},rw,dev"), Trust::No)));
        assert!(mount.memory_bytes_max.is_some());
        assert!(mount.no_suid && mount.no_dev);
        assert_eq!(mount.sandbox, Sandbox::Must);
        assert_eq!(mount.data_cache, DataCache::WriteThrough);
        for (word, channel) in [
            ("io_uring", Channel::IoUring),
            ("no_io_uring", Channel::DevFuse),
        ] {
            let rest = take_ours(word, &mut mount);
            assert_eq!(rest, Ok((String::new(), Trust::Yes)));
            assert_eq!(mount.channel, channel);
        }
    }
}
