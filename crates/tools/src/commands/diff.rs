//! `uext4 diff`: compares two images, by path or by block.

use super::diff_blocks::Runs;
use super::diff_owners::{Image, Owners};
use super::diff_rows::{Form, Printer};
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show::{self, Name};
use crate::{date, image};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use uext4::{FileType, Filesystem};
use uext4_tree::{Change, Compare, CompareTimes, Compared, Error, Side};

/// Memory for unused inodes and metadata blocks, in bytes.
const METADATA_CACHE_BYTES: u64 = 32 << 20;

/// Runs of blocks with an owner that are in memory at a time: 64 bytes each, and their names.
const CLAIMS_MAX: usize = 1 << 20;

/// Show the differences between two images
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 diff old.img new.img
  uext4 diff old.img /mnt                  a running mount, as it is at one moment
  uext4 diff old.img new.img --json | jq -r '.differences[].path'
  uext4 diff old.img new.img --blocks      differing blocks, and their use in new.img

Compares names, types, modes, owners, sizes, device numbers, link targets, extended attributes,
contents and hard links; timestamps only with --times. --blocks compares the devices without
replaying journals; both file systems must have the same geometry. --offset and --partition apply to
both images.

Exit status:
  0  no differences
  1  differences found
  2  wrong arguments, or the comparison failed
  3  not an ext4 file system, or one with a feature that uext4 does not support
  4  an image is damaged; its readable parts were compared
  5  busy: an image is mounted or open for writing elsewhere")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Second image
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// Also compare timestamps: atime, mtime, ctime, crtime
    #[arg(long, conflicts_with = "blocks")]
    times: bool,
    /// Compare blocks instead of files
    #[arg(long)]
    blocks: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Counts of a comparison by path.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    added: u64,
    removed: u64,
    changed: u64,
    unreadable: u64,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        self.compare().map_err(Failure::of_comparison)
    }

    fn compare(&self) -> Result<()> {
        if self.image.without_journal().is_err() {
            let text = "--journal-path names one journal, but two images are compared";
            return Err(Failure::usage(text).hint("mount both and compare the mounts"));
        }
        let other = self.image.beside(self.other.clone());
        super::snapshot::read_mount(&self.image)?;
        super::snapshot::read_mount(&other)?;
        if self.blocks {
            self.compare_blocks(&other)
        } else {
            self.compare_files(&other)
        }
    }

    fn compare_files(&self, other: &ImageArgs) -> Result<()> {
        let (a, b) = (read_once(&self.image)?, read_once(other)?);
        let times = if self.times {
            CompareTimes::All
        } else {
            CompareTimes::No
        };
        let mut teller = Teller::new(&self.image, other, self.json);
        teller.begin().map_err(quiet)?;
        let mut written = Ok(());
        let done = Compare::new(&a, &b).times(times).run(&mut |compared| {
            written = teller.take(compared);
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        written.map_err(quiet)?;
        if let Err(error) = done {
            return Err(teller.failure(Side::A, &error));
        }
        teller.end().map_err(quiet)?;
        let Counts { unreadable, .. } = teller.counts;
        match (teller.exit, teller.is_equal()) {
            (Some(exit), _) if unreadable > 0 => Err(Failure::said(exit)),
            (_, true) => Ok(()),
            (_, false) => Err(Failure::different()),
        }
    }

    fn compare_blocks(&self, other: &ImageArgs) -> Result<()> {
        let (a, b) = (
            self.image.device(Purpose::Read)?,
            other.device(Purpose::Read)?,
        );
        let disk_a = image::superblock(&*a).at(self.image.name())?;
        let disk_b = image::superblock(&*b).at(other.name())?;
        let geometry_a = disk_a.geometry().map_err(uext4::Error::from);
        let geometry_a = geometry_a.at(self.image.name())?;
        let geometry_b = disk_b.geometry().map_err(uext4::Error::from);
        let geometry = geometry_b.at(other.name())?;
        super::diff_blocks::same_geometry(&geometry_a, &geometry).map_err(|what| {
            let text = format!("the file systems differ in {what}; --blocks needs one geometry");
            Failure::new(Exit::Failed, text).hint("without it files are compared")
        })?;
        let differing = Runs::compare(&*a, &*b, &geometry).at(self.image.name())?;
        let image = Image {
            a: &*a,
            b: &*b,
            disk: &disk_b,
            geometry: &geometry,
            differing: &differing,
        };
        self.print_blocks(other, &image).map_err(quiet)?;
        match differing.count() {
            0 => Ok(()),
            _ => Err(Failure::different()),
        }
    }

    /// Prints the runs of blocks that differ and their owners, window by window.
    fn print_blocks(&self, other: &ImageArgs, image: &Image<'_>) -> Result<()> {
        let form = if self.json { Form::Json } else { Form::Text };
        let (mut out, geometry) = (show::stdout(), image.geometry);
        let count = image.differing.count();
        let mut printer = Printer::begin(&mut out, form, geometry.block_size(), count)?;
        let mut from = match count {
            0 => geometry.blocks_count,
            _ => 0,
        };
        while from < geometry.blocks_count {
            let owners = Owners::find(image, from, CLAIMS_MAX).at(other.name())?;
            from = owners.end();
            for row in owners.named(|| read_once(other))? {
                printer.print(&row)?;
            }
        }
        printer.end()
    }
}

/// A reader that closed the pipe has seen a difference.
fn quiet(failure: Failure) -> Failure {
    if failure.is_quiet() {
        Failure::different()
    } else {
        failure
    }
}

/// Mounts for a walk in the order of names, in which inodes are in disorder.
fn read_once(image: &ImageArgs) -> Result<Filesystem> {
    image.mount_to_read_once(METADATA_CACHE_BYTES)
}

/// Prints differences as they are found.
struct Teller<'t> {
    a: &'t ImageArgs,
    b: &'t ImageArgs,
    json: bool,
    out: std::io::BufWriter<std::io::StdoutLock<'static>>,
    counts: Counts,
    /// The most severe status of what could not be read.
    exit: Option<Exit>,
}

impl<'t> Teller<'t> {
    fn new(a: &'t ImageArgs, b: &'t ImageArgs, json: bool) -> Self {
        Self {
            a,
            b,
            json,
            out: show::stdout(),
            counts: Counts::default(),
            exit: None,
        }
    }

    fn is_equal(&self) -> bool {
        self.counts.added + self.counts.removed + self.counts.changed == 0
    }

    fn begin(&mut self) -> Result<()> {
        if self.json {
            write!(self.out, "{{\"differences\": [")?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if self.json {
            let counts = serde_json::to_string(&self.counts).map_err(std::io::Error::from)?;
            let equal = self.is_equal() && self.counts.unreadable == 0;
            writeln!(self.out, "\n], \"counts\": {counts}, \"equal\": {equal}}}")?;
        }
        Ok(self.out.flush()?)
    }

    fn take(&mut self, compared: Compared<'_>) -> Result<()> {
        let is_first = self.is_equal();
        let (word, path, count) = match &compared {
            Compared::Added(path, _) => ("added", *path, &mut self.counts.added),
            Compared::Removed(path, _) => ("removed", *path, &mut self.counts.removed),
            Compared::Changed(path, _) => ("changed", *path, &mut self.counts.changed),
            Compared::Failed(side, error) => return self.unreadable(*side, error),
            _ => return Ok(()),
        };
        *count += 1;
        let (kind, changes): (Option<FileType>, &[Change]) = match &compared {
            Compared::Added(_, kind) | Compared::Removed(_, kind) => (Some(*kind), &[]),
            Compared::Changed(_, changes) => (None, changes),
            _ => (None, &[]),
        };
        if self.json {
            let mut row = json!({"path": Name::new(path), "what": word});
            if let Some(kind) = kind {
                row["type"] = json!(show::kind(kind));
            } else {
                row["changes"] = changes.iter().map(value).collect();
            }
            let comma = if is_first { "" } else { "," };
            return Ok(write!(self.out, "{comma}\n  {row}")?);
        }
        let path = show::name(path);
        let told = match kind {
            Some(kind) => show::kind(kind).to_owned(),
            None => changes.iter().map(text).collect::<Vec<_>>().join(", "),
        };
        Ok(writeln!(self.out, "{word:<8} {path}: {told}")?)
    }

    fn unreadable(&mut self, side: Side, error: &Error) -> Result<()> {
        self.counts.unreadable += 1;
        // Both streams go to one terminal in order.
        self.out.flush()?;
        let exit = self.failure(side, error).say();
        if self.exit != Some(Exit::Damaged) {
            self.exit = Some(match exit {
                Exit::Failed => Exit::Usage,
                other => other,
            });
        }
        Ok(())
    }

    fn failure(&self, side: Side, error: &Error) -> Failure {
        let image = match side {
            Side::A => self.a,
            Side::B => self.b,
        };
        match error {
            Error::Image(failed) => image.failure(failed),
            Error::Damaged { path, damage } => Failure::at(damage, image.name_of(path)),
            other => Failure::new(Exit::Failed, other.to_string()),
        }
    }
}

/// The old and the new value, for a terminal.
fn text(change: &Change) -> String {
    match change {
        Change::Kind(a, b) => format!("{} -> {}", show::kind(*a), show::kind(*b)),
        Change::Mode(a, b) => format!("mode {a:04o} -> {b:04o}"),
        Change::Owner(a, b) => format!("owner {}:{} -> {}:{}", a.0, a.1, b.0, b.1),
        Change::Size(a, b) => format!("size {a} -> {b}"),
        Change::Device(a, b) => format!("device {}, {} -> {}, {}", a.0, a.1, b.0, b.1),
        Change::Target(a, b) => format!("target {} -> {}", show::name(a), show::name(b)),
        Change::Time(name, a, b) => {
            format!(
                "{name} {} -> {}",
                date::show_exact(*a),
                date::show_exact(*b)
            )
        }
        Change::Xattr(name, a, b) => {
            let how = match (a, b) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            };
            format!("attribute {} {how}", show::name(name))
        }
        Change::Content(first) => format!("contents from byte {first} on"),
        Change::Links(a, b) => {
            format!("a link of {} -> of {}", show::name(a), show::name(b))
        }
        _ => "something else".into(),
    }
}

/// The old and the new value, for programs.
fn value(change: &Change) -> Value {
    match change {
        Change::Kind(a, b) => row("type", json!(show::kind(*a)), json!(show::kind(*b))),
        Change::Mode(a, b) => row("mode", json!(a), json!(b)),
        Change::Owner(a, b) => row("owner", json!([a.0, a.1]), json!([b.0, b.1])),
        Change::Size(a, b) => row("size", json!(a), json!(b)),
        Change::Device(a, b) => row("device", json!([a.0, a.1]), json!([b.0, b.1])),
        Change::Target(a, b) => row("target", json!(Name::new(a)), json!(Name::new(b))),
        Change::Time(name, a, b) => {
            let ns = |time| json!(date::nanoseconds(time).to_string());
            row(name, ns(*a), ns(*b))
        }
        Change::Xattr(name, a, b) => {
            let hex = |value: &Option<Vec<u8>>| json!(value.as_deref().map(show::hex));
            let mut row = row("attribute", hex(a), hex(b));
            row["name"] = json!(Name::new(name));
            row
        }
        Change::Content(first) => json!({"what": "contents", "first_byte": first}),
        Change::Links(a, b) => row("links", json!(Name::new(a)), json!(Name::new(b))),
        _ => json!({"what": "other"}),
    }
}

fn row(what: &str, a: Value, b: Value) -> Value {
    json!({"what": what, "a": a, "b": b})
}
