//! `uext4 convert`: makes an ext4 of an ext2 or ext3, in place.

use crate::failure::{At, Failure, Result};
use crate::image::{self, ImageArgs, Purpose};
use crate::show;
use serde::Serialize;
use std::io::Write;
use uext4::format::{Feature, Superblock};
use uext4::{Journal, Presence, Tuning};

/// Features of ext4 that need no change of what is there. The kernel and tune2fs allow them on an
/// existing file system.
const FEATURES: [Feature; 6] = [
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::DIR_INDEX,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::EXTENTS,
];
/// Bytes of an inode from which there are extra fields.
const WIDE_INODE: u16 = 256;

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
        let features = missing(&disk);
        let mut added: Vec<String> = features.iter().map(ToString::to_string).collect();
        if !disk.features().has(Feature::HAS_JOURNAL) {
            self.add_journal(&disk)?;
            added.push(Feature::HAS_JOURNAL.to_string());
        } else if self.journal_size.is_some() {
            let problem = format!("{name}: --journal-size: there is a journal already");
            return Err(Failure::usage(problem).hint("`uext4 tune -J` replaces it"));
        }
        let tuning = Tuning {
            features: features
                .iter()
                .map(|one| (*one, Presence::Present))
                .collect(),
            ..Tuning::default()
        };
        if !features.is_empty() {
            self.image.change(|fs| fs.tune(&tuning).at(&name))?;
        }
        self.say(added)
    }

    fn superblock(&self) -> Result<Superblock> {
        let device = self.image.device(Purpose::Read)?;
        image::superblock(&*device).at(self.image.name())
    }

    fn add_journal(&self, disk: &Superblock) -> Result<()> {
        let name = self.image.name();
        let device = self.image.device(Purpose::Change)?;
        let options = self.image.journal_options(Purpose::Change).at(&name)?;
        let blocks = |mib: u32| u64::from(mib) << 10 >> disk.log_block_size;
        let blocks = self
            .journal_size
            .map(|mib| uext4_num::clamp_u32(blocks(mib)));
        uext4::set_journal(&device, &options, Journal::Internal(blocks)).at(&name)
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

/// Features that are off and can be turned on.
fn missing(disk: &Superblock) -> Vec<Feature> {
    let can = |feature: &Feature| {
        let is_wide = disk.inode_size >= WIDE_INODE;
        !disk.features().has(*feature) && (*feature != Feature::EXTRA_ISIZE || is_wide)
    };
    FEATURES.into_iter().filter(can).collect()
}
