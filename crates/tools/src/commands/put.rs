//! `uext4 put`: copies files of the host into an image.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::reproducible::Epoch;
use crate::transfer::import::{Directories, Existing, Import, Into, Policy, Times};
use crate::transfer::outcome::{Ended, Place, Step};
use crate::transfer::source::Links;
use crate::transfer::{last_name, split, stream};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::{Caller, Error, Filesystem, InodeRef, SetAttr, SetTime};

/// Mode of a new file from standard input, before the umask.
const STREAM_MODE: u16 = 0o666;

/// Copy files from the host into an image, as cp -a does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 put disk.img /etc/hosts /etc/hosts
  uext4 put -r disk.img ./site /srv       makes /srv/site, if /srv is a directory
  uext4 put -r disk.img ./rootfs/. /      the content of rootfs, into the root
  uext4 put disk.img *.conf /etc          several files need a directory
  pg_dump db | uext4 put disk.img - /backup/db.sql

As with cp, PATH is a directory to put files into if it exists as one, and the new name otherwise;
a file cannot become PATH/ with a slash at its end. Mode, owner, times, extended attributes, hard
links and holes are kept. Directories that exist are filled; files that exist are refused without
--force. A file that fails is told, the others are copied, and the exit status is 1. Ctrl-C ends
the copy after the file that is being copied, with the image clean.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Files or directories of the host; DIR/. means what is in it, - standard input
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Name in the image, or a directory to put files into
    #[arg(value_name = "PATH")]
    path: OsString,
    /// Copy directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that exist
    #[arg(short, long)]
    force: bool,
    /// Copy what symbolic links lead to, not the links
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Give all that is made this time, in seconds since 1970. SOURCE_DATE_EPOCH in the
    /// environment does so with what is newer
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        uext4_fuse::catch_interrupts()
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let is_stream = self.sources.iter().any(|source| source == Path::new("-"));
        if is_stream && self.sources.len() > 1 {
            let problem = "-: standard input can only be put alone; ./- is a file of that name";
            return Err(Failure::usage(problem));
        }
        let epoch = Epoch::given(self.time)?;
        let options = epoch.mount_options();
        self.image.change_with(options, |fs| match is_stream {
            true => self.stream(fs),
            false => self.copy(fs, &epoch),
        })
    }

    fn copy(&self, fs: &Filesystem, epoch: &Epoch) -> Result<()> {
        let policy = Policy {
            existing: match self.force {
                true => Existing::Replace,
                false => Existing::Refuse,
            },
            links: match self.dereference {
                true => Links::Follow,
                false => Links::Keep,
            },
            times: match *epoch {
                Epoch::None => Times::Host,
                Epoch::All(time) => Times::At(time),
                Epoch::Latest(time) => Times::NotAfter(time),
            },
            directories: match self.recursive {
                true => Directories::Copy,
                false => Directories::Refuse,
            },
        };
        let target = self.target(fs)?;
        let mut import = Import::new(fs, &self.image, policy).with_total(&self.sources);
        for source in &self.sources {
            self.one(fs, &mut import, source, target.as_ref())?;
        }
        import.finish()
    }

    /// The directory that the files go into; `None` when the path is a new name.
    fn target(&self, fs: &Filesystem) -> Result<Option<InodeRef>> {
        let path = self.path.as_bytes();
        let at = self.image.name_of(path);
        match fs.paths().inode(path).map_err(Error::from) {
            Ok(inode) if inode.is_dir() => Ok(Some(inode)),
            Ok(_) | Err(Error::NotFound) if self.sources.len() == 1 => Ok(None),
            Ok(_) => Err(Error::NotDirectory).at(at),
            Err(Error::NotFound) => Err(no_directory(&at)),
            Err(error) => Err(error).at(at),
        }
    }

    fn one(
        &self,
        fs: &Filesystem,
        import: &mut Import<'_>,
        source: &Path,
        target: Option<&InodeRef>,
    ) -> Result<()> {
        let path = self.path.as_bytes();
        let at = self.image.name_of(path);
        match (last_name(source.as_os_str().as_bytes()), target) {
            (Some(name), Some(inode)) => import.tree(source, Into { inode, path }, name),
            (None, _) if !self.recursive => {
                let failure = Failure::new(
                    Exit::Failed,
                    format!("{}: is a directory", source.display()),
                );
                import.fail(failure.hint("-r copies directories"))
            }
            (None, Some(inode)) => import.content(source, Into { inode, path }),
            (None, None) => {
                fs.paths().create_dir(path).at(&at)?;
                let inode = &fs.paths().inode(path).at(&at)?;
                import.content(source, Into { inode, path })
            }
            (Some(_), None) => {
                if path.ends_with(b"/") && !source.is_dir() {
                    return Err(no_directory(&at));
                }
                let (dir, name) = self.new_name()?;
                let inode = &fs.paths().inode(dir).at(self.image.name_of(dir))?;
                import.tree(source, Into { inode, path: dir }, name)
            }
        }
    }

    fn new_name(&self) -> Result<(&[u8], &[u8])> {
        let path = self.path.as_bytes();
        let (dir, _) = split(path);
        let dir = if dir.is_empty() { b"/" } else { dir };
        match last_name(path) {
            Some(name) => Ok((dir, name)),
            None => {
                let at = self.image.name_of(path);
                Err(Failure::usage(format!("{at}: a name is needed")))
            }
        }
    }

    /// Creates a file from standard input.
    fn stream(&self, fs: &Filesystem) -> Result<()> {
        let path = self.path.as_bytes();
        let at = self.image.name_of(path);
        if path.ends_with(b"/") || fs.paths().inode(path).is_ok_and(|found| found.is_dir()) {
            let problem = "standard input has no name, so PATH must be a file's";
            return Err(Failure::usage(format!("{at}: {problem}")));
        }
        let (dir, name) = self.new_name()?;
        let parent = fs.paths().inode(dir).at(self.image.name_of(dir))?;
        let caller = Caller::root();
        if self.force {
            match fs.unlink(&parent, name, &caller) {
                Err(Error::NotFound) => {}
                other => other.at(&at)?,
            }
        }
        let inode = fs.create(&parent, name, 0o600, &caller).at(&at)?;
        let filled = self.fill(fs, &inode, &at);
        if filled.is_err() {
            // Removes the incomplete file. A second error is ignored.
            let _ = fs.unlink(&parent, name, &caller);
        }
        filled.map_err(|(Ended::File(failure) | Ended::All(failure))| failure)
    }

    /// Writes data and attributes. The file belongs to the calling user.
    fn fill(&self, fs: &Filesystem, inode: &InodeRef, at: &str) -> Step<()> {
        stream::read_in(fs, inode, at)?;
        let umask = rustix::process::umask(rustix::fs::Mode::empty());
        rustix::process::umask(umask);
        let set = SetAttr {
            mode: Some(STREAM_MODE & !(umask.as_raw_mode() as u16)),
            uid: Some(rustix::process::geteuid().as_raw()),
            gid: Some(rustix::process::getegid().as_raw()),
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        };
        let set = fs.set_attr(inode, &set, &Caller::root());
        set.map(drop).of(|| at.into())
    }
}

fn no_directory(at: &str) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("{at}: no such directory"));
    failure.hint("`uext4 mkdir` makes one")
}
