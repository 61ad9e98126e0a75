//! `uext4 undo`: brings back what an image held before a repair.

use crate::failure::{At, Cause, Exit, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show;
use std::fs::File;
use std::path::PathBuf;
use uext4::repair::undo::{UndoError, UndoOptions, undo};

/// Bring back what an image held before a repair with fsck -z
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 fsck -fy -z disk.undo disk.img     repair, and keep what is overwritten
  uext4 undo disk.undo disk.img            bring it back

The file has the format of e2undo(8). All of it is read and compared with its checksums before the
image is written. An image that was changed since is refused.")]
pub(crate) struct Args {
    /// Undo file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    image: ImageArgs,
    /// Also if the image was changed since
    #[arg(short, long)]
    force: bool,
    /// Read and compare everything, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Cause for UndoError {
    fn exit(&self) -> Exit {
        match self {
            UndoError::Damaged(_) => Exit::Damaged,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        matches!(self, UndoError::Changed).then_some("-f applies the file all the same")
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        self.image.without_journal()?;
        let name = self.file.display().to_string();
        let file = File::open(&self.file).at(&name)?;
        let purpose = if self.dry_run {
            Purpose::Read
        } else {
            Purpose::Change
        };
        let device = self.image.device(purpose)?;
        let options = UndoOptions {
            force: self.force,
            dry_run: self.dry_run,
        };
        let done = undo(&file, &*device, options).at(self.image.name())?;
        let what = if self.dry_run {
            "would be brought back"
        } else {
            "brought back"
        };
        show::line(format_args!(
            "{}: {} bytes {what}",
            self.image.name(),
            done.bytes
        ))?;
        if !done.was_finished {
            let text =
                format!("{name}: the repair did not end, so this is all that it had changed");
            crate::failure::info(text);
        }
        Ok(())
    }
}
