//! `uext4 get`: copies files out of an image.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::transfer::export::Export;
use crate::transfer::last_name;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Copy files from an image to the host
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 get disk.img /etc/hosts hosts
  uext4 get -r disk.img /srv/site .       makes ./site
  uext4 get -r disk.img / ./rootfs        all, into ./rootfs

Mode, owner (as root), times, extended attributes, hard links and holes are kept. Nothing that
exists is overwritten, and symbolic links of the image are not followed on the host.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// File or directory in the image; DIR/. means what is in it
    path: OsString,
    /// New name on the host, or a directory to put it into
    dest: PathBuf,
    /// Copy directories with all that is in them
    #[arg(short, long)]
    recursive: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let fs = self.image.mount(Purpose::Read)?;
        let path = self.path.as_bytes();
        let at = self.image.name_of(path);
        let inode = fs.paths().symlink_inode(path).at(&at)?;
        if inode.is_dir() && !self.recursive {
            let failure = Failure::new(Exit::Failed, format!("{at}: is a directory"));
            return Err(failure.hint("-r copies directories"));
        }
        let into_dir = self.dest.is_dir();
        let reduced = match (last_name(path), into_dir) {
            (None, _) => {
                if !into_dir {
                    std::fs::create_dir(&self.dest).at(self.dest.display())?;
                }
                let mut export = Export::new(&fs, &self.image, &self.dest)?;
                export.content(inode, path)?;
                export.reduced()
            }
            (Some(name), true) => {
                let mut export = Export::new(&fs, &self.image, &self.dest)?;
                export.tree(inode, path, name)?;
                export.reduced()
            }
            (Some(_), false) => {
                let (dir, name) = self.new_name()?;
                let mut export = Export::new(&fs, &self.image, dir)?;
                export.tree(inode, path, name)?;
                export.reduced()
            }
        };
        if reduced > 0 {
            eprintln!(
                "uext4: note: {reduced} owners or attributes were not kept; run as root to keep all"
            );
        }
        Ok(())
    }

    fn new_name(&self) -> Result<(&Path, &[u8])> {
        let name = last_name(self.dest.as_os_str().as_bytes());
        let name = name
            .ok_or_else(|| Failure::usage(format!("{}: a name is needed", self.dest.display())))?;
        let dir = self.dest.parent().filter(|dir| !dir.as_os_str().is_empty());
        Ok((dir.unwrap_or(Path::new(".")), name))
    }
}
