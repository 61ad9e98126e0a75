//! `uext4 get`: copies files out of an image.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show;
use crate::transfer::export::{Devices, Export, Policy};
use crate::transfer::outcome::Failures;
use crate::transfer::restore::Permissions;
use crate::transfer::{handles, last_name, split, stream};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::path::Directory;
use uext4::{FileType, Filesystem, InodeRef, MountOptions, Threads};

/// Memory for unused inodes and metadata blocks, in bytes: each is read once, or again soon.
const METADATA_CACHE_BYTES: u64 = 1 << 20;
/// Memory for cached extent maps, in bytes.
const EXTENT_CACHE_BYTES: u64 = 256 << 10;

/// Copy files from an image to the host
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 get disk.img /etc/hosts hosts
  uext4 get -r disk.img /srv/site .       makes ./site
  uext4 get -r disk.img / ./rootfs        all, into ./rootfs
  uext4 get disk.img /backup/db.sql - | psql

Mode, owner (as root), times, extended attributes, hard links and holes are kept. Nothing that
exists is overwritten, and no symbolic link is followed on the host. Without root, setuid and setgid
are dropped and the umask is honoured, as GNU tar does; -p keeps the modes of the image.

Damage does not end the copy: each file that fails is told, the others are copied, and the exit
status is 4 (1 where only the host refused). What is left of a damaged file ends where it cannot be
read. Ctrl-C ends the copy after the file that is being copied.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// File or directory in the image; DIR/. means what is in it
    path: OsString,
    /// New name on the host, or a directory to put it into; - is standard output
    dest: PathBuf,
    /// Copy directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// End at the first failure
    #[arg(long)]
    strict: bool,
    /// Keep all permission bits, also without root
    #[arg(short = 'p', long, overrides_with = "no_same_permissions")]
    same_permissions: bool,
    /// Drop setuid, setgid and sticky bits, access control lists and capabilities, and honour the
    /// umask; the default without root
    #[arg(long)]
    no_same_permissions: bool,
    /// Leave device nodes out
    #[arg(long)]
    no_devices: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let interrupts = uext4_fuse::catch_interrupts();
        interrupts.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let fs = self.open()?;
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
        match (last_name(path), self.dest.is_dir()) {
            (None, is_dir) => {
                let root = match is_dir {
                    true => open_directory(&self.dest)?,
                    false => self.new_directory()?,
                };
                let mut export = self.export(&fs, root, &self.dest, &inode);
                export.content(&inode, path)?;
                export.finish()
            }
            (Some(name), true) => {
                let root = open_directory(&self.dest)?;
                let mut export = self.export(&fs, root, &self.dest, &inode);
                export.tree(inode, path, name)?;
                export.finish()
            }
            (Some(_), false) => {
                let (dir, name) = self.new_name()?;
                if !inode.is_dir() && self.dest.as_os_str().as_bytes().ends_with(b"/") {
                    let text = format!("{}: no such directory", self.dest.display());
                    return Err(Failure::new(Exit::Failed, text));
                }
                let root = open_directory(dir)?;
                let mut export = self.export(&fs, root, dir, &inode);
                export.tree(inode, path, name)?;
                export.finish()
            }
        }
    }

    /// Mounts with small caches, because each inode is read once.
    fn open(&self) -> Result<Filesystem> {
        let options = MountOptions {
            metadata_cache_bytes: Some(METADATA_CACHE_BYTES),
            extent_cache_bytes: EXTENT_CACHE_BYTES,
            prefetch_bitmaps: false,
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        self.image
            .open(Purpose::Read, options)
            .at(self.image.name())
    }

    fn export<'a>(
        &'a self,
        fs: &'a Filesystem,
        root: OwnedFd,
        root_path: &Path,
        source: &InodeRef,
    ) -> Export<'a> {
        let is_root = rustix::process::geteuid().is_root();
        let is_same = self.same_permissions || (is_root && !self.no_same_permissions);
        let policy = Policy {
            permissions: match is_same {
                true => Permissions::Same,
                false => Permissions::Ordinary,
            },
            devices: match self.no_devices {
                true => Devices::Leave,
                false => Devices::Make,
            },
            failures: match self.strict {
                true => Failures::Stop,
                false => Failures::GoOn,
            },
        };
        let export = Export::new(fs, &self.image, root, root_path, policy);
        export.with_total(|| Some(total_bytes(fs, source)))
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

    fn new_directory(&self) -> Result<OwnedFd> {
        let (dir, name) = self.new_name()?;
        let parent = open_directory(dir)?;
        let made = handles::make_directory(parent.as_fd(), OsStr::from_bytes(name));
        made.at(self.dest.display())
    }

    fn new_name(&self) -> Result<(&Path, &[u8])> {
        let path = self.dest.as_os_str().as_bytes();
        let name = last_name(path);
        let name = name
            .ok_or_else(|| Failure::usage(format!("{}: a name is needed", self.dest.display())))?;
        let (dir, _) = split(path);
        let dir = if dir.is_empty() { b"." } else { dir };
        Ok((Path::new(OsStr::from_bytes(dir)), name))
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).at(path.display())
}

/// Number of bytes to copy, for the progress bar. Unreadable parts are left out.
fn total_bytes(fs: &Filesystem, source: &InodeRef) -> u64 {
    let mut total: u64 = 0;
    let mut entered = HashSet::new();
    let mut waiting = vec![fs.attr(source).ino];
    while let Some(nr) = waiting.pop() {
        // The copy reports damage.
        let Ok(inode) = fs.inode(nr) else { continue };
        let attr = fs.attr(&inode);
        match attr.kind {
            FileType::Regular => {
                let data = attr.size_bytes.min(attr.sectors.saturating_mul(512));
                total = total.saturating_add(data / u64::from(attr.links.max(1)));
            }
            FileType::Directory if entered.insert(attr.ino) => {
                let entries = Directory::of(fs, &inode, b"")
                    .into_iter()
                    .flatten()
                    .flatten();
                waiting.extend(entries.map(|entry| entry.inode));
            }
            _ => {}
        }
    }
    total
}
