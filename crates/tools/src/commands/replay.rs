//! `uext4 replay`: brings a journal home.

use crate::failure::{At, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show;
use uext4::format::{Feature, Superblock};

/// Bring the journal home after a crash, and free what lost its name
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 replay disk.img
  uext4 replay disk.img --journal-path log.img

An image that was unmounted cleanly is not written.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let disk = uext4::read_superblock(&*self.image.device(Purpose::Read)?, None).at(&name)?;
        let due = needs_recovery(&disk);
        if due {
            self.image.change(|_| Ok(()))?;
        }
        if !self.quiet {
            let what = if due {
                "recovered, the journal is empty"
            } else {
                "clean, nothing to replay"
            };
            show::line(format_args!("{name}: {what}"))?;
        }
        Ok(())
    }
}

fn needs_recovery(disk: &Superblock) -> bool {
    let features = disk.features();
    features.has(Feature::RECOVER) || features.has(Feature::ORPHAN_PRESENT) || disk.last_orphan != 0
}
