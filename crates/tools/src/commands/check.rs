//! `uext4 check`: reports damage of a file system without changing it.

use crate::commands::fsck_progress::bar;
use crate::commands::snapshot::spill_dir;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::show;
use serde_json::{Value, json};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use uext4::MountOptions;
use uext4::check::{CheckReport, Finding, Limits};
use uext4::format::DamageLocation;
use uext4_num::u64_of;

/// Check a file system without changing it, as e2fsck -fn does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 check disk.img
  uext4 check disk.img --json | jq '.findings[] | {structure, block, byte, what}'

A journal that needs replay is replayed in memory first. Checked are group descriptors, bitmaps,
inodes, their extents and block maps, extended attributes, directories with their indexes, and link
counts; not checked are file data, journal blocks, backup superblocks and quota files. uext4 fsck
repairs damage.

Exit status: 0 no damage, 4 damaged, others as for every command.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Maximum number of findings to print
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max: usize,
    /// Memory limit; from half of it on, large arrays are in a temporary file. The check fails when
    /// it is reached
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = crate::numbers::size)]
    memory: u64,
    /// Directory for the temporary file. Default: $TMPDIR or /var/tmp; `none`: no file
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// Number of threads; no effect on the findings. Default: one per processor, at most 8
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Time limit in seconds; the check fails when it is reached
    #[arg(long, value_name = "SECONDS", default_value_t = 86400)]
    time: u64,
}

/// Most threads of a check without `--threads`: the one that collects their results has enough
/// to do.
const THREADS_MAX: usize = 8;

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let limits = Limits {
            memory_bytes: self.memory,
            spill: spill_dir(self.spill.as_deref()),
            time: Duration::from_secs(self.time),
            threads: check_threads(self.threads),
            findings: self.max,
            watch: Some(bar()),
        };
        let name = self.image.name();
        let report = self.image.check(MountOptions::default(), &limits);
        let report = report.at(&name)?;
        let mut out = show::stdout();
        if self.json {
            show::json(&mut out, &as_json(&report))?;
        } else {
            print(&mut out, &report)?;
        }
        out.flush()?;
        verdict(&name, &report)
    }
}

/// The threads of a check: as given, or one per processor.
pub(crate) fn check_threads(given: Option<NonZeroUsize>) -> usize {
    match given {
        Some(given) => given.get(),
        None => uext4_sync::cores().min(THREADS_MAX),
    }
}

/// Turns findings or an incomplete check into a failure.
fn verdict(name: &str, report: &CheckReport) -> Result<()> {
    let count = u64_of(report.findings.len()) + report.n_more;
    if count > 0 {
        let first = report.findings.first().map(Finding::to_string);
        let first = first.unwrap_or_default();
        let plural = if count == 1 { "" } else { "s" };
        let text = format!("{name}: damaged, {count} finding{plural}, the first: {first}");
        return Err(Failure::new(Exit::Damaged, text).hint("`uext4 fsck -y` repairs it"));
    }
    match report.incomplete {
        Some(why) => {
            let text = format!("{name}: the check is not complete: {why}");
            Err(Failure::new(Exit::Failed, text))
        }
        None => Ok(()),
    }
}

fn print(out: &mut dyn Write, report: &CheckReport) -> Result<()> {
    for finding in &report.findings {
        match finding.byte {
            Some(byte) => writeln!(out, "{finding} [byte {byte}]")?,
            None => writeln!(out, "{finding}")?,
        }
    }
    if report.n_more > 0 {
        writeln!(out, "and {} more", report.n_more)?;
    }
    if report.is_clean() {
        let (inodes, directories) = (report.n_inodes, report.n_directories);
        writeln!(
            out,
            "sound: {inodes} inodes, {directories} of them directories"
        )?;
    }
    Ok(())
}

fn as_json(report: &CheckReport) -> Value {
    let findings: Vec<Value> = report.findings.iter().map(finding_json).collect();
    json!({
        "clean": report.is_clean(),
        "findings": findings,
        "more": report.n_more,
        "incomplete": report.incomplete,
        "inodes": report.n_inodes,
        "directories": report.n_directories,
    })
}

fn finding_json(finding: &Finding) -> Value {
    let mut value = json!({
        "structure": finding.corrupt.structure,
        "what": finding.corrupt.problem.phrase(),
        "detail": finding.detail,
        "byte": finding.byte,
        "block": null,
        "inode": null,
        "group": null,
    });
    match finding.corrupt.place {
        DamageLocation::Superblock => value["block"] = 0.into(),
        DamageLocation::Group(group) => value["group"] = group.0.into(),
        DamageLocation::Inode(inode) => value["inode"] = inode.0.into(),
        DamageLocation::Block(block) => value["block"] = block.0.into(),
        DamageLocation::InodeBlock(inode, block) => {
            value["inode"] = inode.0.into();
            value["block"] = block.0.into();
        }
        DamageLocation::JournalBlock(block) => value["journal_block"] = block.into(),
    }
    value
}
