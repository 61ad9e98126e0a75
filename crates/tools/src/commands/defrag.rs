//! `uext4 defrag`: moves data of files into fewer extents.

use super::control;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::transfer::{Progress, join};
use crate::{numbers, show};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::path::PathError;
use uext4::{DefragOptions, Defragmented, FileType, Filesystem, InodeRef, LeftAlone, MountOptions};
use uext4_fuse::{Ask, is_interrupted};

/// `f_type` of the kernel's ext2, ext3 and ext4.
const EXT_MAGIC: u64 = 0xEF53;

/// Defragment files
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 defrag disk.img /var/db            one file
  uext4 defrag disk.img /var               all files below a directory
  uext4 defrag disk.img / --dry-run        only count extents
  uext4 defrag /mnt/data /var/db           on a mount, while the file is in use

PATH starts at the root of the image, also for a mount. A file is moved only if that reduces its
number of extents. Ctrl-C stops after the current piece: what moved stays, and the image is clean.
Immutable and append-only files are not moved.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Files, or directories whose files are defragmented recursively
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// Count extents without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result for one file.
#[derive(Serialize)]
struct Row {
    path: show::Name,
    #[serde(flatten)]
    found: Defragmented,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        uext4_fuse::catch_interrupts().at(self.image.name())?;
        let mut rows = Vec::new();
        let options = DefragOptions {
            dry_run: self.dry_run,
        };
        let done = if control::is_running(&self.image)? {
            self.running(&mut rows)
        } else if self.dry_run {
            let fs = self.image.mount(Purpose::Read)?;
            self.all(&fs, &options, &mut rows)
        } else {
            // The walk is no access by a user.
            let quiet = MountOptions {
                no_dir_atime: true,
                ..MountOptions::default()
            };
            self.image
                .change_with(quiet, |fs| self.all(fs, &options, &mut rows))
        };
        if self.json {
            show::json(&mut std::io::stdout(), &rows)?;
        }
        done
    }

    /// All files of all paths, in this process.
    fn all(&self, fs: &Filesystem, options: &DefragOptions, rows: &mut Vec<Row>) -> Result<()> {
        let bar = Progress::new(|| 0);
        let failed = |error: PathError| self.image.failure(&error);
        for path in &self.paths {
            let inode = fs.paths().symlink_inode(path).map_err(failed)?;
            if !inode.is_dir() {
                self.one(fs, path.as_bytes(), &inode, (options, &bar), rows)?;
                continue;
            }
            for entry in fs.paths().walk(path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if entry.inode.kind() == FileType::Regular {
                    let path = join(path.as_bytes(), &entry.path);
                    self.one(fs, &path, &entry.inode, (options, &bar), rows)?;
                }
            }
        }
        Ok(())
    }

    fn one(
        &self,
        fs: &Filesystem,
        path: &[u8],
        inode: &InodeRef,
        (options, bar): (&DefragOptions, &Progress),
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let name = self.image.name_of(path);
        bar.at(path);
        let mut told = 0;
        let found = fs.defragment(inode, options, &mut |moved| {
            bar.add(moved - std::mem::replace(&mut told, moved));
            go_on()
        });
        self.report(path, found.at(&name)?, rows)?;
        interrupted(&name)
    }

    /// The same through the control socket of a mount.
    fn running(&self, rows: &mut Vec<Row>) -> Result<()> {
        let target = &self.image.image;
        refuse_kernel_mount(target)?;
        // A directory without files asks nothing else, and must be a mount nevertheless.
        control::ask(target, &Ask::Server {})?;
        for path in &self.paths {
            self.below(path.as_bytes(), rows)?;
        }
        Ok(())
    }

    /// A file, or all files below a directory of the mount.
    fn below(&self, path: &[u8], rows: &mut Vec<Row>) -> Result<()> {
        let name = self.image.name_of(path);
        let here = self.here(path);
        if !std::fs::symlink_metadata(&here).is_ok_and(|found| found.is_dir()) {
            return self.ask(path, rows);
        }
        let mut names: Vec<OsString> = Vec::new();
        for entry in std::fs::read_dir(&here).at(&name)? {
            let entry = entry.at(&name)?;
            let kind = match entry.file_type() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                kind => kind.at(&name)?,
            };
            if kind.is_dir() || kind.is_file() {
                names.push(entry.file_name());
            }
        }
        names.sort();
        let mut below = names.iter().map(|below| join(path, below.as_bytes()));
        below.try_for_each(|path| match self.below(&path, rows) {
            Err(_) if self.is_gone(&path) => Ok(()),
            done => done,
        })
    }

    /// Whether a name that was listed before has vanished.
    fn is_gone(&self, path: &[u8]) -> bool {
        let found = std::fs::symlink_metadata(self.here(path));
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// The path on the host of a path in the mount.
    fn here(&self, path: &[u8]) -> PathBuf {
        let start = path.iter().take_while(|byte| **byte == b'/').count();
        self.image.image.join(OsStr::from_bytes(&path[start..]))
    }

    fn ask(&self, path: &[u8], rows: &mut Vec<Row>) -> Result<()> {
        let name = self.image.name_of(path);
        interrupted(&name)?;
        let Ok(text) = std::str::from_utf8(path) else {
            let problem = "a name that is not UTF-8 cannot be told to a running mount";
            return Err(Failure::new(Exit::Failed, format!("{name}: {problem}")));
        };
        let ask = Ask::Defragment {
            path: text.into(),
            dry_run: self.dry_run,
        };
        let answer = control::ask(&self.image.image, &ask)?;
        let found = serde_json::from_value(answer).map_err(std::io::Error::from);
        self.report(path, found.at(&name)?, rows)
    }

    fn report(&self, path: &[u8], found: Defragmented, rows: &mut Vec<Row>) -> Result<()> {
        if !self.json {
            let mut out = show::stdout();
            writeln!(
                out,
                "{}: {}",
                show::name(path),
                sentence(&found, self.dry_run)
            )?;
            out.flush()?;
        }
        rows.push(Row {
            path: show::Name::new(path),
            found,
        });
        Ok(())
    }
}

fn go_on() -> ControlFlow<()> {
    if is_interrupted() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

fn interrupted(place: &str) -> Result<()> {
    if is_interrupted() {
        Err(Failure::new(
            Exit::Failed,
            format!("{place}: interrupted; what moved stays"),
        ))
    } else {
        Ok(())
    }
}

/// Refuses a directory on the kernel's ext4, with advice.
fn refuse_kernel_mount(target: &Path) -> Result<()> {
    let found = rustix::fs::statfs(target);
    let is_kernel = found.is_ok_and(|found| u64::try_from(found.f_type) == Ok(EXT_MAGIC));
    if is_kernel && target.is_dir() {
        Err(Failure::new(
            Exit::Failed,
            format!(
                "{}: on the kernel's ext4; e4defrag works there, or unmount it and name the image",
                target.display()
            ),
        ))
    } else {
        Ok(())
    }
}

fn sentence(found: &Defragmented, dry_run: bool) -> String {
    let before = match found.extents_before {
        1 => "1 extent".to_owned(),
        count => format!("{count} extents"),
    };
    match found.left_alone {
        Some(LeftAlone::Ideal) => format!("{before}, as few as can be"),
        Some(LeftAlone::Locked) => format!("{before}; immutable or append-only"),
        Some(LeftAlone::NoBetterSpace) => {
            format!("{before}; no free space would give it fewer")
        }
        None if dry_run => format!("{before}, {} at best", found.extents_fewest),
        None => format!(
            "{before} before, {} after; {} moved",
            found.extents_after,
            numbers::readable_size(found.moved_bytes)
        ),
    }
}
