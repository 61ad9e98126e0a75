//! Commands that change names and attributes: mkdir, rm, ln, mv, chmod, chown.
//!
//! All changes go through the journal: after a crash each operation is complete or absent.

use super::mode::Mode;
use crate::failure::{Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::{numbers, transfer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use uext4::path::Paths;
use uext4::{Error, SetAttr};

/// Create directories
#[derive(clap::Args)]
#[command(after_help = "Example:\n  uext4 mkdir -p -m 750 disk.img /srv/data/in")]
pub(crate) struct MkdirArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// Directories in the image
    #[arg(required = true)]
    paths: Vec<OsString>,
    /// Create parent directories as needed; no error if a directory exists
    #[arg(short, long)]
    parents: bool,
    /// Permission bits of the named directories, in octal
    #[arg(short, long, value_parser = numbers::octal_mode)]
    mode: Option<u16>,
}

impl MkdirArgs {
    pub(crate) fn run(self) -> Result<()> {
        each(&self.image, &self.paths, |paths, path| {
            if self.parents && paths.exists(path)? && paths.metadata(path)?.is_dir() {
                return Ok(());
            }
            if self.parents {
                paths.create_dir_all(path)?
            } else {
                paths.create_dir(path)?
            }
            self.mode
                .map_or(Ok(()), |mode| paths.set_permissions(path, mode))
        })
    }
}

/// Remove files and directories
#[derive(clap::Args)]
#[command(after_help = "Example:\n  uext4 rm -rf disk.img /var/cache /tmp/old")]
pub(crate) struct RmArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// Paths in the image; symbolic links are removed, not followed
    #[arg(required = true)]
    paths: Vec<OsString>,
    /// Remove directories and their contents
    #[arg(short, long)]
    recursive: bool,
    /// Ignore paths that do not exist
    #[arg(short, long)]
    force: bool,
}

impl RmArgs {
    pub(crate) fn run(self) -> Result<()> {
        for path in &self.paths {
            check_movable(&self.image, path)?;
        }
        each(&self.image, &self.paths, |paths, path| {
            match self.remove(paths, path) {
                Err(failed) if self.force && matches!(failed.error(), Error::NotFound) => Ok(()),
                other => other,
            }
        })
    }

    fn remove(&self, paths: &Paths, path: &OsStr) -> uext4::path::Result<()> {
        let is_dir = paths.symlink_metadata(path)?.is_dir();
        if is_dir && self.recursive {
            paths.remove_dir_all(path)
        } else {
            paths.remove_file(path)
        }
    }
}

/// Create a hard link or symbolic link
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 ln disk.img /bin/busybox /bin/sh            a hard link
  uext4 ln -s disk.img ../lib/libc.so /lib/libc.so  a symbolic link")]
pub(crate) struct LnArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// File in the image; with -s: target of the link, which need not exist
    target: OsString,
    /// Path of the new link
    path: OsString,
    /// Create a symbolic link
    #[arg(short, long)]
    symbolic: bool,
}

impl LnArgs {
    pub(crate) fn run(self) -> Result<()> {
        let told = |failed| self.image.failure(&failed);
        self.image.change(|fs| {
            let paths = fs.paths();
            let path = into_directory(&paths, &self.target, &self.path);
            if self.symbolic {
                return paths.symlink(&self.target, path).map_err(told);
            }
            let target = paths.symlink_metadata(&self.target).map_err(told)?;
            if target.is_dir() {
                let target = self.image.name_of(self.target.as_bytes());
                let failure = Failure::new(Exit::Failed, format!("{target}: is a directory"));
                return Err(failure.hint("only -s gives it another name"));
            }
            paths.hard_link(&self.target, path).map_err(told)
        })
    }
}

/// Rename or move a file or directory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 mv disk.img /etc/hosts /etc/hosts.old
  uext4 mv disk.img /srv/www /var          into the directory /var")]
pub(crate) struct MvArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// Path in the image
    from: OsString,
    /// New path, which is replaced if it exists, or a directory to move into
    to: OsString,
}

impl MvArgs {
    pub(crate) fn run(self) -> Result<()> {
        check_movable(&self.image, &self.from)?;
        self.image.change(|fs| {
            let paths = fs.paths();
            let to = into_directory(&paths, &self.from, &self.to);
            let moved = paths.rename(&self.from, to);
            moved.map_err(|failed| self.image.failure(&failed))
        })
    }
}

/// Change permission bits
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 chmod 640 disk.img /etc/shadow
  uext4 chmod u+x,go-w disk.img /usr/local/bin/run")]
pub(crate) struct ChmodArgs {
    /// Mode: octal, or symbolic such as u+x,go-w
    #[arg(allow_hyphen_values = true)]
    mode: Mode,
    #[command(flatten)]
    image: ImageArgs,
    /// Files in the image
    #[arg(required = true)]
    paths: Vec<OsString>,
}

impl ChmodArgs {
    pub(crate) fn run(self) -> Result<()> {
        each(&self.image, &self.paths, |paths, path| {
            let found = paths.metadata(path)?;
            paths.set_permissions(path, self.mode.apply(found.mode(), found.is_dir()))
        })
    }
}

/// Change owner and group
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 chown 1000 disk.img /srv/me
  uext4 chown 0:8 disk.img /var/mail
  uext4 chown :8 disk.img /var/mail

Owner and group are numeric IDs, since names depend on the system in the image.")]
pub(crate) struct ChownArgs {
    /// UID, UID:GID or :GID
    #[arg(value_parser = owner)]
    owner: (Option<u32>, Option<u32>),
    #[command(flatten)]
    image: ImageArgs,
    /// Files in the image
    #[arg(required = true)]
    paths: Vec<OsString>,
}

impl ChownArgs {
    pub(crate) fn run(self) -> Result<()> {
        let (uid, gid) = self.owner;
        let set = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        each(&self.image, &self.paths, |paths, path| {
            paths.set_attr(path, &set)
        })
    }
}

fn owner(text: &str) -> std::result::Result<(Option<u32>, Option<u32>), String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
    match (id(uid)?, id(gid)?) {
        (None, None) => Err("give UID, UID:GID or :GID".into()),
        both => Ok(both),
    }
}

fn id(text: &str) -> std::result::Result<Option<u32>, String> {
    match text {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| format!("{text:?} is no number, such as 1000")),
    }
}

/// Mounts the image and applies `change` to each path in order, up to the first failure.
fn each(
    image: &ImageArgs,
    paths: &[OsString],
    change: impl Fn(&Paths, &OsStr) -> uext4::path::Result<()>,
) -> Result<()> {
    image.change(|fs| {
        let tree = fs.paths();
        paths
            .iter()
            .try_for_each(|path| change(&tree, path).map_err(|failed| image.failure(&failed)))
    })
}

/// Refuses paths without a directory entry of their own: the root, `.` and `..`.
fn check_movable(image: &ImageArgs, path: &OsStr) -> Result<()> {
    match transfer::last_name(path.as_bytes()) {
        Some(_) => Ok(()),
        None => {
            let at = image.name_of(path.as_bytes());
            let problem = "it has no name of its own, so it can neither be removed nor moved";
            Err(Failure::usage(format!("{at}: {problem}")))
        }
    }
}

/// `to` if it is no directory, else `to` joined with the last name of `from`.
fn into_directory(paths: &Paths, from: &OsStr, to: &OsStr) -> Vec<u8> {
    let is_dir = paths.metadata(to).is_ok_and(|found| found.is_dir());
    match Path::new(from).file_name() {
        Some(name) if is_dir => transfer::join(to.as_bytes(), name.as_bytes()),
        _ => to.as_bytes().to_vec(),
    }
}
