//! `uext4 log`: the transactions in the journal, with the owner of each block.

use super::log_rows::{Row, as_text};
use crate::failure::{At, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show;
use std::io::Write;
use uext4::format::Tid;
use uext4_forensics::{Entry, FastCommits, Image, Memory, Owners, Ring, fast_commits};

/// Show the transactions in the journal, with the owner of each block
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 log disk.img
  uext4 log disk.img --transaction 17
  uext4 log disk.img --json | jq 'select(.block == 1057)'

A transaction is live if a replay writes it, old if it is home and not overwritten yet, and torn
without its end. Owners are those behind a replay, which happens in memory. `~` marks an image whose
checksum is wrong, `!` one that newer blocks of the journal have overwritten.
With --json each block is an object on a line of its own.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Only the transaction with this number
    #[arg(long, value_name = "NUMBER")]
    transaction: Option<u32>,
    /// Print JSON, an object per line
    #[arg(long)]
    json: bool,
    /// Memory limit
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = crate::numbers::size)]
    memory: u64,
}

/// Memory for each block that the log names, in bytes.
const NAMED_BYTES: u64 = 8;

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let memory = Memory::new(self.memory);
        let (image, mut ring) = open(&self.image, &memory)?;
        let Some(ring) = &mut ring else {
            return Err(Failure::new(
                crate::failure::Exit::Failed,
                format!("{name}: has no journal"),
            ));
        };
        let inode_size = image.geometry().inode_size;
        let fast = fast_commits(ring, inode_size, &memory).at(&name)?;
        let fast = fast.filter(|fast| self.is_wanted(fast.tid));
        let blocks = self.named(ring, &memory).at(&name)?;
        let owners = Owners::find(&image, blocks, &memory).at(&name)?;
        let mut out = show::stdout();
        self.print(&mut out, &Row::journal(&image, ring))?;
        self.print_transactions(&mut out, ring, &owners, &name)?;
        if let Some(fast) = &fast {
            self.print_fast(&mut out, fast)?;
        }
        Ok(out.flush()?)
    }

    fn is_wanted(&self, tid: Tid) -> bool {
        self.transaction.is_none_or(|wanted| wanted == tid.0)
    }

    /// The blocks of the file system that the log names.
    fn named(&self, ring: &mut Ring, memory: &Memory) -> uext4_forensics::Result<Vec<u64>> {
        let mut blocks = Vec::new();
        for one in ring.transactions().to_vec() {
            if !self.is_wanted(one.tid) {
                continue;
            }
            ring.visit::<uext4_forensics::Error>(&one, &mut |_, entry| {
                let block = match entry {
                    Entry::Image(logged) => logged.block,
                    Entry::Revoked { block } => block,
                    _ => return Ok(()),
                };
                if blocks.last() != Some(&block) {
                    memory.take(NAMED_BYTES)?;
                    blocks.push(block);
                }
                Ok(())
            })?;
        }
        Ok(blocks)
    }

    fn print_transactions(
        &self,
        out: &mut dyn Write,
        ring: &mut Ring,
        owners: &Owners,
        name: &str,
    ) -> Result<()> {
        for one in ring.transactions().to_vec() {
            if !self.is_wanted(one.tid) {
                continue;
            }
            self.print(out, &Row::transaction(&one))?;
            ring.visit::<Stopped>(&one, &mut |_, entry| {
                let row = Row::entry(one.tid, entry, owners);
                self.print(out, &row).map_err(Stopped::Printing)
            })
            .map_err(|stopped| stopped.into_failure(name))?;
        }
        Ok(())
    }

    fn print_fast(&self, out: &mut dyn Write, fast: &FastCommits) -> Result<()> {
        self.print(out, &Row::fast(fast))?;
        for record in &fast.records {
            self.print(out, &Row::record(fast.tid, record))?;
        }
        Ok(())
    }

    fn print(&self, out: &mut dyn Write, row: &Row) -> Result<()> {
        if self.json {
            serde_json::to_writer(&mut *out, row).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", as_text(row))?;
        }
        Ok(())
    }
}

/// Opens an image to read it with its log.
pub(super) fn open(args: &ImageArgs, memory: &Memory) -> Result<(Image, Option<Ring>)> {
    let name = args.name();
    super::snapshot::read_mount(args)?;
    let options = args.journal_options(Purpose::Read).at(&name)?;
    let device = args.device(Purpose::Read)?;
    args.say_other_writer();
    // Its message says what else is on the device.
    crate::image::superblock(&*device).at(&name)?;
    let mut image = Image::open(device, None, memory).at(&name)?;
    let ring = image.read_log(options.journal_device.as_ref(), memory);
    Ok((image, ring.at(&name)?))
}

/// Says that fast commits wait for a replay: what they changed is not seen.
pub(super) fn say_fast_commits(
    name: &str,
    image: &Image,
    ring: Option<&mut Ring>,
    memory: &Memory,
) -> uext4_forensics::Result<()> {
    let Some(ring) = ring else {
        return Ok(());
    };
    let fast = fast_commits(ring, image.geometry().inode_size, memory)?;
    if fast.is_some_and(|fast| fast.is_waiting()) {
        crate::failure::info(format_args!(
            "{name}: fast commits in its journal are not applied; `uext4 replay` applies them"
        ));
    }
    Ok(())
}

/// Why a visit of a transaction ended early.
enum Stopped {
    Reading(uext4_forensics::Error),
    Printing(Failure),
}

impl From<uext4_forensics::Error> for Stopped {
    fn from(error: uext4_forensics::Error) -> Self {
        Self::Reading(error)
    }
}

impl Stopped {
    fn into_failure(self, name: &str) -> Failure {
        match self {
            Stopped::Reading(error) => Failure::at(&error, name),
            Stopped::Printing(failure) => failure,
        }
    }
}
