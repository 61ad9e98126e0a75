//! `uext4 convert`: makes an ext4 of an ext2 or ext3, in place.

use crate::failure::{At, Failure, Result};
use crate::image::{self, ImageArgs, Purpose};
use crate::show;
use serde::Serialize;
use std::io::Write;
use uext4::format::{Feature, Superblock};

/// Make an ext4 of an ext2 or ext3 file system, in place
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 convert old.img
  uext4 convert old.img --journal-size 64

It adds a journal if there is none, and the features large_file, huge_file, dir_index, dir_nlink,
extent, and extra_isize where inodes have 256 bytes. New files get extents and new directories an
index; existing files keep their block maps, inodes their size and metadata have no checksums.

The image must not be mounted, and should be sound: `uext4 check` tells. A crash in between leaves
all files as they are; the same command continues.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Size of the journal, if there is none, in MiB. Default: as mke2fs
    #[arg(long, value_name = "MIB")]
    journal_size: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was added.
#[derive(Serialize)]
struct Json {
    image: String,
    /// Names, as tune2fs has them.
    added: Vec<String>,
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
        let added = uext4::convert(&device, &options, self.journal_blocks(&disk)).at(&name)?;
        self.say(added.iter().map(ToString::to_string).collect())
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

    fn say(self, added: Vec<String>) -> Result<()> {
        let image = self.image.name();
        if self.json {
            return show::json(&mut std::io::stdout(), &Json { image, added });
        }
        let mut out = show::stdout();
        match added.is_empty() {
            true => writeln!(out, "{image}: is ext4 already; nothing was changed")?,
            false => writeln!(out, "{image}: is ext4 now, with {}", added.join(", "))?,
        }
        Ok(out.flush()?)
    }
}
