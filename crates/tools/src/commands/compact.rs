//! `uext4 compact`: moves data to the front of an image, and gives free space back to the host.

use super::control;
use super::resize::shrink;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::transfer::Progress;
use crate::{numbers, show};
use serde::Serialize;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use uext4::resize::Least;
use uext4::{CompactOptions, Compacted};
use uext4_fuse::is_interrupted;

/// Move data to the start of an image and discard its free space
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 compact disk.img
  uext4 compact disk.img --dry-run         amount of data to move, and free space afterwards
  uext4 compact disk.img --truncate        also shrink file system and file to the minimum
  uext4 compact disk.img --json

Moves file data, in runs as long as possible; directories and other metadata are not moved. Then
discards the free space, which is returned to the host's file system or the SSD. The size of the
file system does not change, except with --truncate, which runs `uext4 resize disk.img min`
afterwards. Ctrl-C stops after the current piece: what moved stays, and the image is clean.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Print the plan without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Shrink the file system to its minimum afterwards, and the file with it
    #[arg(long, conflicts_with = "dry_run")]
    truncate: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CompactReport {
    #[serde(flatten)]
    done: Compacted,
    /// Space that the image takes on the host; none for a block device.
    host_bytes_before: Option<u64>,
    host_bytes_after: Option<u64>,
    /// Size of the file system afterwards, with `--truncate`.
    size_bytes: Option<u64>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        if control::is_running(&self.image)? {
            let problem = "a running mount cannot be compacted; unmount it and name the image";
            return Err(Failure::usage(format!("{name}: {problem}")));
        }
        uext4_fuse::catch_interrupts().at(&name)?;
        let host_bytes_before = host_bytes(self.image.storage());
        let options = CompactOptions {
            dry_run: self.dry_run,
        };
        let work = |fs: &uext4::Filesystem| {
            let bar = Progress::new(|| 0);
            let mut told = 0;
            let done = fs.compact(&options, &mut |progress| {
                bar.of(progress.total_bytes);
                bar.add(progress.moved_bytes - std::mem::replace(&mut told, progress.moved_bytes));
                if is_interrupted() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            done.at(&name)
        };
        let done = if self.dry_run {
            work(&self.image.mount(Purpose::Read)?)?
        } else {
            self.image.change(work)?
        };
        let size_bytes = if self.truncate && !is_interrupted() {
            Some(shrink(&self.image, Least::Possible)?.after.size_bytes())
        } else {
            None
        };
        let report = CompactReport {
            done,
            size_bytes,
            host_bytes_before,
            host_bytes_after: host_bytes(self.image.storage()),
        };
        self.print_report(&name, &report)?;
        if is_interrupted() {
            Err(Failure::new(
                Exit::Failed,
                format!("{name}: interrupted; what moved stays"),
            ))
        } else {
            Ok(())
        }
    }

    fn print_report(&self, name: &str, report: &CompactReport) -> Result<()> {
        if self.json {
            return show::json(&mut std::io::stdout(), report);
        }
        if self.quiet {
            return Ok(());
        }
        let size = numbers::readable_size;
        let done = &report.done;
        let moved = if self.dry_run {
            format!("{} would move", size(done.planned_bytes))
        } else {
            format!("{} moved, of {} files", size(done.moved_bytes), done.files)
        };
        let free = size(done.free_end_bytes);
        let at_end = if self.dry_run {
            format!("{free} are free at the end now")
        } else {
            format!("{free} are free at the end")
        };
        show::line(format_args!("{name}: {moved}; {at_end}"))?;
        if let Some(bytes) = report.size_bytes {
            show::line(format_args!("{name}: shrunk to {}", size(bytes)))?;
        }
        match (report.host_bytes_before, report.host_bytes_after) {
            (Some(before), Some(after)) if !self.dry_run => show::line(format_args!(
                "{name}: {} on the host before, {} after",
                size(before),
                size(after)
            )),
            _ => Ok(()),
        }
    }
}

/// Space that a regular file takes on the host, in bytes.
fn host_bytes(path: &Path) -> Option<u64> {
    let found = std::fs::metadata(path).ok()?;
    found.is_file().then(|| found.blocks() * 512)
}
