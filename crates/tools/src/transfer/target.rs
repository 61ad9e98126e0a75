//! The file that a command makes: complete, or not there.
//!
//! A new file has a temporary name in the directory of its own until it is complete; it is removed
//! if the command fails or is interrupted. Standard output, devices and pipes are written directly.

use crate::failure::{At, Exit, Failure, Result};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempDir};
use uext4::device;

/// Prefix of temporary names.
const PREFIX: &str = ".uext4-";

/// What happens to a file with the name of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    Keep,
    Replace,
}

/// A file that is being made.
pub(crate) enum Target {
    Stdout(io::Stdout),
    /// A device or pipe, which is written in place.
    Stream(File),
    New(NamedTempFile, PathBuf, Old),
}

impl Target {
    /// Begins a file; `-` is standard output.
    pub(crate) fn open(path: &Path, old: Old) -> Result<Self> {
        if path == Path::new("-") {
            let out = io::stdout();
            return if out.is_terminal() {
                Err(Failure::usage("an archive is not written to a terminal")
                    .hint("-o names a file, a pipe is taken as well"))
            } else {
                Ok(Self::Stdout(out))
            };
        }
        let at = path.display();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(is_directory(path)),
            Ok(found) if !found.is_file() => {
                let file = device::open_to_write(path).at(at)?;
                Ok(Self::Stream(file))
            }
            Ok(_) if old == Old::Keep => Err(exists(path)),
            _ => {
                let mode = Permissions::from_mode(0o666);
                let mut file = tempfile::Builder::new();
                let file = file.prefix(PREFIX).permissions(mode);
                let file = file.tempfile_in(parent_of(path)).at(at)?;
                Ok(Self::New(file, path.into(), old))
            }
        }
    }

    /// The file is complete and gets its name.
    pub(crate) fn keep(self) -> Result<()> {
        let Self::New(file, path, old) = self else {
            return Ok(());
        };
        let kept = match old {
            Old::Keep => file.persist_noclobber(&path),
            Old::Replace => file.persist(&path),
        };
        match kept {
            Ok(_) => Ok(()),
            Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => Err(exists(&path)),
            Err(failed) => Err(Failure::at(&failed.error, path.display())),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Stream(file) => file.write(bytes),
            Self::New(file, ..) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::Stream(file) => file.flush(),
            Self::New(file, ..) => file.flush(),
        }
    }
}

/// A directory that is being made.
pub(crate) struct NewDirectory {
    made: TempDir,
    path: PathBuf,
}

impl NewDirectory {
    /// Begins a directory that does not exist, or is empty.
    pub(crate) fn begin(path: &Path) -> Result<Self> {
        match std::fs::read_dir(path).map(Iterator::count) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(_) => {
                let failure = Failure::new(Exit::Failed, format!("{}: exists", path.display()));
                return Err(failure.hint("a new or empty directory is needed"));
            }
            Err(error) => return Err(Failure::at(&error, path.display())),
        }
        let mut made = tempfile::Builder::new();
        let made = made
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o777));
        let made = made.tempdir_in(parent_of(path)).at(path.display())?;
        let path = path.into();
        Ok(Self { made, path })
    }

    /// Where its files are made.
    pub(crate) fn work(&self) -> &Path {
        self.made.path()
    }

    /// The directory is complete and gets its name.
    pub(crate) fn keep(self) -> Result<()> {
        std::fs::rename(self.made.path(), &self.path).at(self.path.display())?;
        let _gone = self.made.keep();
        Ok(())
    }
}

fn exists(path: &Path) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("{}: file exists", path.display()));
    failure.hint("--force replaces it")
}

fn is_directory(path: &Path) -> Failure {
    Failure::new(Exit::Failed, format!("{}: is a directory", path.display()))
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
