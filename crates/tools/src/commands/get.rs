//! `uext4 get`: copies files out of an image.

use super::get_rescue::{self, Depth};
use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::show;
use crate::transfer::console::{Console, Failures};
use crate::transfer::{self, last_name, stream};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::{FileType, Filesystem, InodeRef};
use uext4_forensics::Memory;
use uext4_tree::{Devices, Export, Permissions};

/// Memory for unused inodes and metadata blocks, in bytes: each is read once, or again soon.
const METADATA_CACHE_BYTES: u64 = 1 << 20;

/// Memory of a rescue, in bytes.
const RESCUE_BYTES: u64 = 1 << 30;

/// Copy files from an image to the host
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 get disk.img /etc/hosts hosts
  uext4 get -r disk.img /srv/site .       creates ./site
  uext4 get -r disk.img / ./rootfs        the whole image, into ./rootfs
  uext4 get disk.img /backup/db.sql - | psql
  uext4 get -r --rescue disk.img / found  what is left of a damaged image

Mode, owner (only as root), times, extended attributes, hard links and holes are kept. Existing
files are never overwritten, and symbolic links on the host are never followed. If PATH is / or
DIR/., the directory DEST also gets its attributes, if DEST is new, or empty and owned by you.
Directories are copied to a depth of 4096. Without root, setuid and setgid bits are dropped and the
umask is applied, as GNU tar does; -p keeps the modes of the image.

Damage does not stop the copy: each file that fails is reported, the others are copied, and the exit
status is 4 (1 if all failures are on the host). The copy of a damaged file ends at the read error.
Ctrl-C stops the copy after the current file.

--rescue works without a mount, on images that cannot be mounted as well. A damaged superblock,
descriptor, inode or map is replaced by its backup or by an older state in the journal. Ranges that
are lost become holes and are listed; files without a name go to lost+found. Owners, attributes and
devices are left out. The exit status is 4 if something is lost.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// File or directory in the image; DIR/. means its contents
    path: OsString,
    /// New path on the host, or a directory to copy into; -: standard output
    dest: PathBuf,
    /// Copy directories recursively
    #[arg(short, long)]
    recursive: bool,
    /// Stop at the first failure
    #[arg(long)]
    strict: bool,
    /// Keep all permission bits, even without root
    #[arg(short = 'p', long, overrides_with = "no_same_permissions")]
    same_permissions: bool,
    /// Drop setuid, setgid and sticky bits, access control lists and capabilities, and apply the
    /// umask; default without root
    #[arg(long)]
    no_same_permissions: bool,
    /// Do not create device nodes
    #[arg(long)]
    no_devices: bool,
    /// Read past damage: use backups and older states in the journal, leave holes for what is lost
    #[arg(
        long,
        conflicts_with_all = ["strict", "same_permissions", "no_same_permissions", "no_devices"]
    )]
    rescue: bool,
    /// Memory limit of a rescue; default 1G
    #[arg(long, value_name = "BYTES", requires = "rescue", value_parser = crate::numbers::size)]
    memory: Option<u64>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        super::snapshot::read_mount(&self.image)?;
        if self.rescue {
            let memory = Memory::new(self.memory.unwrap_or(RESCUE_BYTES));
            let depth = self.depth();
            return get_rescue::run(&self.image, &self.path, &self.dest, depth, &memory);
        }
        let interrupts = uext4_fuse::catch_interrupts();
        interrupts.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let fs = self.image.mount_to_read_once(METADATA_CACHE_BYTES)?;
        let path = self.path.as_bytes();
        let at = self.image.name_of(path);
        let inode = fs.paths().symlink_inode(path).at(&at)?;
        if self.dest == Path::new("-") {
            return self.stream(&fs, &inode, &at);
        }
        if inode.is_dir() && !self.recursive {
            let failure = Failure::new(Exit::Failed, format!("{at}: is a directory"));
            return Err(failure.hint("-r copies directories"));
        }
        self.copy(&fs, &inode)
    }

    fn depth(&self) -> Depth {
        if self.recursive {
            Depth::Tree
        } else {
            Depth::File
        }
    }

    fn copy(&self, fs: &Filesystem, inode: &InodeRef) -> Result<()> {
        let path = self.path.as_bytes();
        let dest = self.new_path(inode)?;
        transfer::allow_deep_trees();
        let failures = if self.strict {
            Failures::Stop
        } else {
            Failures::GoOn
        };
        let mut console = Console::new(&self.image, failures, || self.export(fs).total_bytes(path));
        let mut export = self.export(fs).on_event(|event| console.take(event));
        let done = match dest {
            Some(host) => export.tree(path, host),
            None => export.content(path, &self.dest),
        };
        let summary = export.summary();
        drop(export);
        console.finish(done, summary)
    }

    /// The new path on the host; `None` for the content of a directory, which goes into DEST.
    fn new_path(&self, inode: &InodeRef) -> Result<Option<PathBuf>> {
        let dest = self.dest.as_os_str().as_bytes();
        match (last_name(self.path.as_bytes()), self.dest.is_dir()) {
            (None, true) => Ok(None),
            (Some(name), true) => Ok(Some(self.dest.join(OsStr::from_bytes(name)))),
            _ if last_name(dest).is_none() => {
                let at = self.dest.display();
                Err(Failure::usage(format!("{at}: a name is needed")))
            }
            (None, false) => Ok(None),
            (Some(_), false) if !inode.is_dir() && dest.ends_with(b"/") => {
                let text = format!("{}: no such directory", self.dest.display());
                Err(Failure::new(Exit::Failed, text))
            }
            (Some(_), false) => Ok(Some(self.dest.clone())),
        }
    }

    fn export<'a>(&self, fs: &Filesystem) -> Export<'a> {
        let is_root = rustix::process::geteuid().is_root();
        let is_same = self.same_permissions || (is_root && !self.no_same_permissions);
        Export::new(fs)
            .permissions(if is_same {
                Permissions::Same
            } else {
                Permissions::Ordinary {
                    umask: transfer::umask(),
                }
            })
            .devices(if self.no_devices {
                Devices::Leave
            } else {
                Devices::Make
            })
    }

    /// Writes a file to standard output.
    fn stream(&self, fs: &Filesystem, inode: &InodeRef, at: &str) -> Result<()> {
        if inode.kind() != FileType::Regular {
            let text = format!("{at}: only a file can go to standard output");
            return Err(Failure::usage(text).hint("./- is a file of that name"));
        }
        let mut out = show::stdout();
        stream::write_out(fs, inode, at, &mut out)?;
        Ok(out.flush()?)
    }
}
