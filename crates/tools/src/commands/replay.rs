//! `uext4 replay`: replays the journal and processes orphans.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose, superblock};
use crate::show;
use serde::Serialize;
use uext4::format::{Feature, Superblock};

/// Replay the journal and delete orphaned inodes
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 replay disk.img
  uext4 replay disk.img --journal-path log.img

An image that was unmounted cleanly is not written. If the superblock records errors, orphaned
inodes are left to e2fsck, and the exit status is 4.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Replayed {
    /// True if the journal or orphans needed recovery.
    recovered: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let disk = superblock(&*self.image.device(Purpose::Read)?).at(&name)?;
        let due = needs_recovery(&disk);
        if due {
            let (errors, orphans) = self
                .image
                .change(|fs| Ok((fs.recorded_errors(), fs.leaves_orphans())))?;
            if let Some(errors) = errors.filter(|_| orphans) {
                let text = format!(
                    "{name}: the log is empty, but files without a name were not freed: {errors}"
                );
                return Err(Failure::new(Exit::Damaged, text).hint("`uext4 fsck -f` repairs it"));
            }
        }
        if self.json {
            show::json(&mut std::io::stdout(), &Replayed { recovered: due })?;
        } else if !self.quiet {
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
