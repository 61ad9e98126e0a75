//! `uext4 put`: copies files of the host into an image.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::transfer::import::{Existing, Import};
use crate::transfer::last_name;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use uext4::Filesystem;

/// Copy files from the host into an image
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 put disk.img /etc/hosts /etc/hosts
  uext4 put -r disk.img ./site /srv       makes /srv/site, if /srv is a directory
  uext4 put -r disk.img ./rootfs/. /      the content of rootfs, into the root

Mode, owner, times, extended attributes, hard links and holes are kept. Directories that exist are
filled; files that exist are refused without --force.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// File or directory of the host; DIR/. means what is in it
    source: PathBuf,
    /// Name in the image, or a directory to put it into
    path: OsString,
    /// Copy directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Replace files that exist
    #[arg(short, long)]
    force: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let meta = std::fs::symlink_metadata(&self.source).at(self.source.display())?;
        if meta.is_dir() && !self.recursive {
            let text = format!("{}: is a directory", self.source.display());
            return Err(Failure::new(Exit::Failed, text).hint("-r copies directories"));
        }
        self.image.change(|fs| self.copy(fs))
    }

    fn copy(&self, fs: &Filesystem) -> Result<()> {
        let path = self.path.as_bytes();
        let paths = fs.paths();
        let existing = if self.force {
            Existing::Replace
        } else {
            Existing::Refuse
        };
        let mut import = Import::new(fs, &self.image, existing);
        let at = self.image.name_of(path);
        let into = paths.inode(path).ok().filter(|inode| inode.is_dir());
        match (last_name(self.source.as_os_str().as_bytes()), into) {
            (Some(name), Some(dir)) => import.tree(&self.source, &dir, path, name),
            (None, Some(dir)) => import.content(&self.source, dir, path),
            (None, None) => {
                paths.create_dir(path).at(&at)?;
                import.content(&self.source, paths.inode(path).at(&at)?, path)
            }
            (Some(_), None) => {
                let name = last_name(path)
                    .ok_or_else(|| Failure::usage(format!("{at}: a name is needed")))?;
                let end = path
                    .windows(name.len())
                    .rposition(|part| part == name)
                    .unwrap_or(0);
                let dir = if end == 0 { b"/" } else { path.split_at(end).0 };
                let parent = paths.inode(dir).at(self.image.name_of(dir))?;
                import.tree(&self.source, &parent, dir, name)
            }
        }
    }
}
