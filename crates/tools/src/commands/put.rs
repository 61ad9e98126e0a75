//! `uext4 put`: copies files of the host into an image.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::reproducible::Epoch;
use crate::transfer::console::{Console, Failures};
use crate::transfer::{self, join, last_name, split, stream};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::{Caller, Error, Filesystem, InodeRef, SetAttr, SetTime};
use uext4_tree::{Existing, Import, Links, NewName, Times};

/// Mode of a new file from standard input, before the umask.
const STREAM_MODE: u16 = 0o666;

/// Copy files from the host into an image, as cp -a does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 put disk.img /etc/hosts /etc/hosts
  uext4 put -r disk.img ./site /srv       creates /srv/site, if /srv is a directory
  uext4 put -r disk.img ./rootfs/. /      the contents of rootfs, into /
  uext4 put disk.img *.conf /etc          with several sources PATH must be a directory
  pg_dump db | uext4 put disk.img - /backup/db.sql

As with cp, files are copied into PATH if it is an existing directory; otherwise PATH is the new
name, which for a file must not end in a slash. Mode, owner, times, extended attributes, hard links
and holes are kept. Existing directories are merged. Existing files are refused without --force,
which replaces them once the copy is complete. DIR/. also sets mode, owner and times of PATH. Each
file that fails is reported, the others are copied, and the exit status is 1. Ctrl-C stops the copy
without the current file; the image is clean then.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Files or directories of the host; DIR/. means its contents; -: standard input
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Path in the image, or a directory to copy into
    #[arg(value_name = "PATH")]
    path: OsString,
    /// Copy directories recursively
    #[arg(short, long)]
    recursive: bool,
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// Follow symbolic links in the sources
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Time of all new files, in seconds since 1970. Without it, SOURCE_DATE_EPOCH in the
    /// environment is the upper limit of their times
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
}

/// What the path in the image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Directory,
    NewName,
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
        self.image.change_with(options, |fs| {
            if is_stream {
                self.stream(fs)
            } else {
                self.copy(fs, &epoch)
            }
        })
    }

    fn copy(&self, fs: &Filesystem, epoch: &Epoch) -> Result<()> {
        let target = self.target(fs)?;
        transfer::allow_deep_trees();
        let mut console = Console::new(&self.image, Failures::GoOn, || {
            let import = self.import(fs, epoch);
            let sizes = self.sources.iter().map(|host| import.total_bytes(host));
            sizes.sum()
        });
        let mut sources = Vec::new();
        for source in &self.sources {
            if self.recursive || !self.is_dir(source) {
                sources.push((source, self.new_path(source, target)?))
            } else {
                let text = format!("{}: is a directory", source.display());
                let failure = Failure::new(Exit::Failed, text);
                console.fail(&failure.hint("-r copies directories"));
            }
        }
        let mut import = self.import(fs, epoch).on_event(|event| console.take(event));
        let done = sources.iter().try_for_each(|(source, path)| match path {
            Some(path) => import.tree(source, path),
            None => import.content(source, self.path.as_bytes()),
        });
        let summary = import.summary();
        drop(import);
        console.finish(done, summary)
    }

    fn import<'a>(&self, fs: &Filesystem, epoch: &Epoch) -> Import<'a> {
        Import::new(fs)
            .existing(if self.force {
                Existing::Replace
            } else {
                Existing::Refuse
            })
            .links(if self.dereference {
                Links::Follow
            } else {
                Links::Keep
            })
            .times(match *epoch {
                Epoch::None => Times::Host,
                Epoch::All(time) => Times::At(time),
                Epoch::Latest(time) => Times::NotAfter(time),
            })
    }

    /// Whether a source names a directory, or a link to one that is followed.
    fn is_dir(&self, source: &Path) -> bool {
        let follows = self.dereference || source.as_os_str().as_bytes().ends_with(b"/");
        let found = if follows {
            source.metadata()
        } else {
            source.symlink_metadata()
        };
        found.is_ok_and(|found| found.is_dir())
    }

    fn target(&self, fs: &Filesystem) -> Result<Target> {
        let path = self.path.as_bytes();
        let at = self.image.name_of(path);
        match fs.paths().inode(path) {
            Ok(inode) if inode.is_dir() => Ok(Target::Directory),
            Ok(_) if self.sources.len() == 1 => Ok(Target::NewName),
            Ok(_) => Err(Error::NotDirectory).at(at),
            Err(failed) if matches!(failed.error(), Error::NotFound) => match self.sources.len() {
                1 => Ok(Target::NewName),
                _ => Err(no_directory(&at)),
            },
            Err(failed) => Err(self.image.failure(&failed)),
        }
    }

    /// The new path of a source; `None` for the content of a directory, which goes into PATH.
    fn new_path(&self, source: &Path, target: Target) -> Result<Option<Vec<u8>>> {
        let path = self.path.as_bytes();
        match (last_name(source.as_os_str().as_bytes()), target) {
            (None, _) => Ok(None),
            (Some(name), Target::Directory) => Ok(Some(join(path, name))),
            (Some(_), Target::NewName) if path.ends_with(b"/") && !source.is_dir() => {
                Err(no_directory(&self.image.name_of(path)))
            }
            (Some(_), Target::NewName) => self.new_name().map(|_| Some(path.to_vec())),
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
        let existing = self.existing();
        let new = NewName::find(fs, &parent, name, existing, &caller).at(&at)?;
        let inode = fs.create(&parent, new.as_bytes(), 0o600, &caller).at(&at)?;
        let filled = self.fill(fs, &inode, &at);
        if filled.is_err() {
            new.remove();
        }
        filled?;
        new.keep().at(&at)
    }

    fn existing(&self) -> Existing {
        if self.force {
            Existing::Replace
        } else {
            Existing::Refuse
        }
    }

    /// Writes data and attributes. The file belongs to the calling user.
    fn fill(&self, fs: &Filesystem, inode: &InodeRef, at: &str) -> Result<()> {
        stream::read_in(fs, inode, at)?;
        let set = SetAttr {
            mode: Some(STREAM_MODE & !transfer::umask()),
            uid: Some(rustix::process::geteuid().as_raw()),
            gid: Some(rustix::process::getegid().as_raw()),
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        };
        let set = fs.set_attr(inode, &set, &Caller::root());
        set.map(drop).at(at)
    }
}

fn no_directory(at: &str) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("{at}: no such directory"));
    failure.hint("`uext4 mkdir` makes one")
}
