//! `uext4 convert`: makes an ext4 of an ext2 or ext3, in place.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::{self, ImageArgs, Purpose};
use crate::show;
use crate::transfer::Progress;
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;
use uext4::device::BlockDevice;
use uext4::format::{Feature, Superblock};
use uext4::{ExtentsUsed, MountOptions};
use uext4_fuse::is_interrupted;
use uext4_sync::Arc;

/// Convert an ext2 or ext3 file system to ext4 in place
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 convert old.img
  uext4 convert old.img --journal-size 64
  uext4 convert old.img --extents          also convert existing files to extents
  uext4 tune old.img -I 256                larger inodes, afterwards
  uext4 tune old.img -O metadata_csum      checksums, afterwards

Adds a journal if there is none, and the features large_file, huge_file, dir_index, dir_nlink,
extent, and extra_isize if inodes have at least 256 bytes. New files get extents and new directories
an index. Existing files keep their block maps, inodes keep their size, and metadata have no
checksums.

With --extents, existing files, directories and long symbolic links are converted to extents that
map the same blocks. Data are not moved, and indirect blocks are freed. A file keeps its block map
if the change does not fit into a journal transaction, or if there is no space for its extents.

The image must not be mounted, and should be free of errors: see `uext4 check`. After a crash or
Ctrl-C all files are intact, and the same command continues the conversion.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Size of a new journal in MiB, if there is none. Default: as mke2fs
    #[arg(long, value_name = "MIB")]
    journal_size: Option<u32>,
    /// Convert existing files to extents, too
    #[arg(long)]
    extents: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ConvertReport {
    image: String,
    /// Names of features, as tune2fs has them.
    added: Vec<String>,
    /// What `--extents` did; `None` without it.
    extents: Option<ExtentsUsed>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let disk = self.superblock()?;
        if disk.features().has(Feature::JOURNAL_DEV) {
            return Err(Failure::usage(format!(
                "{name}: is a journal, with no files"
            )));
        }
        if disk.features().has(Feature::HAS_JOURNAL) && self.journal_size.is_some() {
            let problem = format!("{name}: --journal-size: there is a journal already");
            return Err(Failure::usage(problem).hint("`uext4 tune -J` replaces it"));
        }
        let device = self.image.device(Purpose::Change)?;
        let options = self.image.journal_options(Purpose::Change).at(&name)?;
        uext4_fuse::catch_interrupts().at(&name)?;
        let added = uext4::convert(&device, &options, self.journal_blocks(&disk)).at(&name)?;
        let extents = if self.extents && !is_interrupted() {
            Some(use_extents(&device, &options).at(&name)?)
        } else {
            None
        };
        let report = ConvertReport {
            image: name.clone(),
            added: added.iter().map(ToString::to_string).collect(),
            extents,
        };
        if self.json {
            show::json(&mut std::io::stdout(), &report)?
        } else {
            report.print()?
        }
        if is_interrupted() {
            Err(Failure::new(Exit::Failed, format!("{name}: interrupted"))
                .hint("the same command continues"))
        } else {
            Ok(())
        }
    }

    fn superblock(&self) -> Result<Superblock> {
        let device = self.image.device(Purpose::Read)?;
        image::superblock(&*device).at(self.image.name())
    }

    fn journal_blocks(&self, disk: &Superblock) -> Option<u32> {
        let mib = self.journal_size?;
        Some(uext4_num::clamp_u32(
            u64::from(mib) << 10 >> disk.log_block_size,
        ))
    }
}

fn use_extents(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> uext4::Result<ExtentsUsed> {
    let bar = Progress::counting("inodes");
    uext4::use_extents(device, options, &mut |progress| {
        bar.of(progress.total_inodes);
        bar.add(1);
        if is_interrupted() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
}

impl ConvertReport {
    fn print(&self) -> Result<()> {
        let (mut out, image) = (show::stdout(), &self.image);
        match (self.added.is_empty(), &self.extents) {
            (false, _) => writeln!(out, "{image}: is ext4 now, with {}", self.added.join(", "))?,
            (true, None) => writeln!(out, "{image}: is ext4 already; nothing was changed")?,
            (true, Some(_)) => writeln!(out, "{image}: is ext4 already")?,
        }
        if let Some(used) = &self.extents {
            writeln!(out, "{image}: {}", sentence(used))?;
        }
        Ok(out.flush()?)
    }
}

fn sentence(used: &ExtentsUsed) -> String {
    let mut text = format!(
        "{} files got extents; {} blocks of their maps were freed, {} are used for extents",
        used.files, used.freed_blocks, used.tree_blocks
    );
    if used.too_fragmented > 0 {
        text += &format!(
            "; {} keep their maps because they have too many fragments for the journal (`uext4 \
             defrag`, or a longer journal by `uext4 tune -J`)",
            used.too_fragmented
        );
    }
    if used.without_space > 0 {
        text += &format!(
            "; {} keep their maps because there is no space for their extents",
            used.without_space
        );
    }
    text
}
