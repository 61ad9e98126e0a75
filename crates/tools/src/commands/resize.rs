//! `uext4 resize`: makes the file system of an image larger or smaller, and that of a mount larger.

use super::control;
use super::resize_partition::Longer;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{self, ImageArgs, Purpose};
use crate::numbers::{self, FsSize};
use crate::show;
use serde::Serialize;
use std::str::FromStr;
use uext4::device::partition;
use uext4::device::{self, BlockDevice, FileDevice};
use uext4::format::{Feature, Geometry, Superblock};
use uext4::mkfs::{self, DeviceContents, MkfsOptions, Preset};
use uext4::resize::{self, Least, Plan, ResizeReport, Size};
use uext4_fuse::Ask;
use uext4_sync::Arc;

/// Grow or shrink a file system, as resize2fs does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 resize disk.img 4G
  uext4 resize disk.img +512M              grow by 512 MiB
  uext4 resize /dev/sdb1                   grow to the size of the device
  uext4 resize disk.img min                shrink to the minimum
  uext4 resize disk.img min --dry-run      print the minimum
  uext4 resize disk.img 1T --dry-run --json
  uext4 resize /mnt/data +512M             grow a mounted file system
  uext4 resize vm.img +4G --partition 1    also grow its partition and the disk image

Growing extends an image file, which stays sparse; a device must be large enough. A GPT partition
grows with its file system, if no other partition follows it. Shrinking truncates an image file,
except with --offset or --partition; partitions are never shrunk. A mounted file system can grow up
to its growth_limit, while changes of files wait, but cannot shrink. With --offset on a disk with a
partition table, mounted or not, it grows at most to the end of its partition or the start of the
next one.

With a journal the change is crash-safe: after a crash the file system has the old size or the new
one (when shrinking, or one between), with all files. Without a journal, a crash requires e2fsck,
and inodes are not moved, so the minimum depends on their positions.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// New size of the file system, or with + the difference: with suffix K, M, G or T, with s in
    /// sectors of 512 bytes, without suffix in KiB (resize2fs: in blocks); min: the minimum.
    /// Default: size of the file, device or partition
    #[arg(value_name = "SIZE", value_parser = Wanted::from_str)]
    size: Option<Wanted>,
    /// Write nothing, and print what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Size(FsSize),
    More(FsSize),
    Least,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "min" {
            return Ok(Self::Least);
        }
        match text.strip_prefix('+') {
            Some(more) => Ok(Self::More(more.parse()?)),
            None => Ok(Self::Size(text.parse()?)),
        }
    }
}

#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    report: &'a ResizeReport,
    /// Only a plan: nothing was written.
    dry_run: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        if control::is_running(&self.image)? {
            let report = self.grow_mount()?;
            return self.print_report(&report);
        }
        let reader = self.image.device(Purpose::Read)?;
        let disk = image::superblock(&*reader).at(&name)?;
        let now = disk.geometry().map_err(uext4::Error::from).at(&name)?;
        let wanted = match self.size {
            Some(Wanted::Least) => Least::Possible,
            _ => Least::Bytes(self.size_bytes(&now, reader.size_bytes())?),
        };
        let done = match wanted {
            Least::Bytes(size_bytes) if size_bytes >= now.size_bytes() => {
                drop(reader);
                let plan = resize::plan(&disk, size_bytes).at(&name)?;
                let is_more = plan.after.size_bytes() > now.size_bytes();
                let mut longer = None;
                if is_more {
                    self.check_partitions(plan.after.size_bytes())?;
                    longer = Longer::plan(&self.image, plan.after.size_bytes())?;
                }
                if let (Some(longer), false, false) = (&longer, self.quiet, self.json) {
                    longer.say()?;
                }
                match (self.dry_run, longer) {
                    (true, _) => plan,
                    (false, Some(longer)) => self.grow_in(longer, size_bytes)?,
                    (false, None) => self.grow(&plan, size_bytes)?,
                }
            }
            least if self.dry_run => {
                check_recovery(&self.image, &disk)?;
                let options = self.image.journal_options(Purpose::Read).at(&name)?;
                resize::plan_shrink(reader, options, least).at(&name)?
            }
            least => {
                drop(reader);
                shrink(&self.image, least)?
            }
        };
        self.print_report(&done.report())
    }

    /// Grows the file system of a running mount.
    fn grow_mount(&self) -> Result<ResizeReport> {
        let mount = &self.image.image;
        let (size_bytes, more_bytes) = match self.size {
            None => (None, None),
            Some(Wanted::Size(size)) => (Some(bytes_of(size)?), None),
            Some(Wanted::More(more)) => (None, Some(bytes_of(more)?)),
            Some(Wanted::Least) => {
                let problem = "a mounted file system does not become smaller";
                let failure = Failure::new(Exit::Busy, format!("{}: {problem}", mount.display()));
                return Err(failure.hint("unmount it, and name its image"));
            }
        };
        let dry_run = self.dry_run;
        let ask = Ask::Grow {
            size_bytes,
            more_bytes,
            dry_run,
        };
        let answer = control::ask(mount, &ask)?;
        serde_json::from_value(answer).map_err(|error| {
            let problem = format!("{}: the server's answer: {error}", mount.display());
            Failure::new(Exit::Failed, problem)
        })
    }

    fn print_report(&self, report: &ResizeReport) -> Result<()> {
        match (self.json, self.quiet) {
            (true, _) => self.print_json(report),
            (false, true) => Ok(()),
            (false, false) => self.say(report),
        }
    }

    fn size_bytes(&self, now: &Geometry, device_bytes: u64) -> Result<u64> {
        let now = now.size_bytes();
        let wanted = match self.size {
            None | Some(Wanted::Least) => Some(device_bytes.max(now)),
            Some(Wanted::Size(size)) => size.bytes(1024),
            Some(Wanted::More(more)) => more.bytes(1024).and_then(|more| now.checked_add(more)),
        };
        wanted.ok_or_else(|| Failure::usage("SIZE: too large"))
    }

    /// Refuses a growth over the end of its partition, or into the next one, for a file system that
    /// `--offset` names on a disk with a partition table.
    fn check_partitions(&self, size_bytes: u64) -> Result<()> {
        let Some(bound) = bound_before(&self.image, size_bytes)? else {
            return Ok(());
        };
        let problem = format!("{}: it would reach over {bound}", self.image.name());
        Err(Failure::new(Exit::Failed, problem).hint("give a smaller SIZE"))
    }

    fn grow(&self, plan: &Plan, size_bytes: u64) -> Result<Plan> {
        let name = self.image.name();
        let options = self.image.journal_options(Purpose::Change).at(&name)?;
        let path = self.image.storage();
        let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
        if !is_file || self.image.place.partition.is_some() {
            let device = self.image.device(Purpose::Change)?;
            return resize::grow(device, options, size_bytes, DeviceContents::Unknown).at(&name);
        }
        let access = device::Access::ReadWrite;
        let offset = self.image.place.offset.unwrap_or(0);
        let file = FileDevice::open_window(path, access, offset, None).at(&name)?;
        let length = file.size_bytes();
        let contents = if file.is_hole_from(plan.before.size_bytes()) {
            DeviceContents::Zeroed
        } else {
            DeviceContents::Unknown
        };
        let needed = plan.after.size_bytes();
        if needed > length {
            file.set_size(needed).at(&name)?;
        }
        let file = Arc::new(file);
        let grown = resize::grow(file.clone(), options, size_bytes, contents);
        if grown.is_err() && needed > length {
            restore(&file, length);
        }
        grown.at(&name)
    }

    /// Grows the partition, then its file system.
    fn grow_in(&self, longer: Longer<'_>, size_bytes: u64) -> Result<Plan> {
        let name = self.image.name();
        let options = self.image.journal_options(Purpose::Change).at(&name)?;
        let device = longer.open()?;
        let grown = resize::grow(device, options, size_bytes, DeviceContents::Unknown);
        let place = self.image.place.partition.unwrap_or_default();
        grown.at(&name).map_err(|failure| {
            failure.hint(&format!("partition {place} has its new length already"))
        })
    }

    fn print_json(&self, report: &ResizeReport) -> Result<()> {
        let dry_run = self.dry_run;
        show::json(&mut std::io::stdout(), &Json { report, dry_run })
    }

    fn say(&self, report: &ResizeReport) -> Result<()> {
        let name = self.image.name();
        let (before, after) = (&report.before, &report.after);
        if before.blocks == after.blocks {
            let (size, blocks) = (readable(before), before.blocks);
            show::line(format_args!("{name}: has {size} ({blocks} blocks) already"))?;
            return Ok(());
        }
        show::line(format_args!(
            "{name}: from {} to {}, {} to {} blocks, {} to {} inodes",
            readable(before),
            readable(after),
            before.blocks,
            after.blocks,
            before.inodes,
            after.inodes,
        ))?;
        if report.turns_to_meta_bg {
            let reason = "no descriptor blocks are reserved for so many groups";
            show::line(format_args!("{name}: turns to meta_bg, because {reason}"))?;
        }
        self.say_inodes(report)?;
        if self.dry_run {
            show::line(format_args!("dry run: nothing was written"))?;
        }
        Ok(())
    }
}

fn readable(size: &Size) -> String {
    numbers::readable_size(size.size_bytes)
}

fn bytes_of(size: FsSize) -> Result<u64> {
    let bytes = size.bytes(1024);
    bytes.ok_or_else(|| Failure::usage("SIZE: too large"))
}

impl Args {
    /// Says that the space which came has few inodes: their number per group is settled when a file
    /// system is made.
    fn say_inodes(&self, report: &ResizeReport) -> Result<()> {
        let (before, after) = (&report.before, &report.after);
        let more_bytes = after.size_bytes.saturating_sub(before.size_bytes);
        let more = u64::from(after.inodes.saturating_sub(before.inodes));
        let options = MkfsOptions::new(Preset::Ext4);
        let usual = mkfs::usual_inodes(&options, after.size_bytes, more_bytes);
        if more >= usual / 2 {
            return Ok(());
        }
        show::line(format_args!(
            "{}: note: {} more have {more} inodes, and mke2fs would give them {usual}; \
             `uext4 mkfs` and `uext4 build --size` make a file system with more",
            self.image.name(),
            numbers::readable_size(more_bytes),
        ))?;
        Ok(())
    }
}

/// Shrinks a file system, then its file, unless it is a part of that.
pub(super) fn shrink(image: &ImageArgs, least: Least) -> Result<Plan> {
    let name = image.name();
    let options = image.journal_options(Purpose::Change).at(&name)?;
    let path = image.storage();
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    if !is_file || image.place.is_part() {
        let device = image.device_to_shrink()?;
        check_recovery(image, &image::superblock(&*device).at(&name)?)?;
        return resize::shrink(device, options, least).at(&name);
    }
    // One claim until the file is cut: no other program writes in between.
    let file = Arc::new(FileDevice::open(path, device::Access::ReadWrite).at(&name)?);
    let plan = resize::shrink(file.clone(), options, least).at(&name)?;
    file.set_size(plan.after.size_bytes()).at(&name)?;
    Ok(plan)
}

/// The bound of a partition over which a file system of `size_bytes` reaches, if `--offset` names
/// it on a disk with a partition table.
fn bound_before(image: &ImageArgs, size_bytes: u64) -> Result<Option<String>> {
    let Some(offset) = image.place.offset else {
        return Ok(None);
    };
    let name = image.name();
    let whole = FileDevice::open(image.storage(), device::Access::ReadOnly).at(&name)?;
    let room = partition::room_behind(&whole, offset).at(&name)?;
    let Some((room_bytes, number)) = room.filter(|(room_bytes, _)| size_bytes > *room_bytes) else {
        return Ok(None);
    };
    let end = offset.saturating_add(room_bytes);
    Ok(Some(format!("a bound of partition {number}, at {end}")))
}

/// Refuses a file system that is to be recovered first and reaches over a bound of a partition: a
/// log says itself where a replay writes.
fn check_recovery(image: &ImageArgs, disk: &Superblock) -> Result<()> {
    let features = disk.features();
    let is_unclean = features.has(Feature::RECOVER)
        || features.has(Feature::ORPHAN_PRESENT)
        || disk.last_orphan != 0;
    if !is_unclean {
        return Ok(());
    }
    let name = image.name();
    let geometry = disk.geometry().map_err(uext4::Error::from).at(&name)?;
    let Some(bound) = bound_before(image, geometry.size_bytes())? else {
        return Ok(());
    };
    let problem = format!("{name}: it reaches over {bound}, and a recovery would write there");
    Err(Failure::new(Exit::Failed, problem).hint("copy it to a file, and work on that"))
}

/// Gives a file its old length back after a failure, if its file system still ends there.
fn restore(file: &FileDevice, length: u64) {
    let Ok(disk) = uext4::read_superblock(file, None) else {
        return;
    };
    // The log may have the new size in it.
    let may_grow = disk.features().has(Feature::RECOVER);
    let ends_before = disk
        .geometry()
        .is_ok_and(|geometry| geometry.size_bytes() <= length);
    if ends_before && !may_grow {
        // The failure itself is reported; a longer file does no harm.
        let _best_effort = file.set_size(length);
    }
}
