//! What `uext4 build` tells: progress while it works, and the result.

use super::build_made;
use super::build_output::Output;
use crate::failure::Result;
use crate::{numbers, show};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use uext4::format::Uuid;
use uext4_builder::{BuildReport, Builder};
use uext4_image::Made;

const TEMPLATE: &str = "{spinner} {bytes} ({bytes_per_sec}) {wide_msg}";

/// Shows progress on a terminal, and ends the build on Ctrl-C.
pub(super) fn meter(builder: &mut Builder, visible: bool) -> ProgressBar {
    let bar = if visible {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template(TEMPLATE);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    let shown = bar.clone();
    builder.watch(move |progress| {
        shown.set_position(progress.bytes);
        shown.set_message(match progress.total_files {
            Some(total) => format!("{} of {total} files", progress.files),
            None => format!("{} files", progress.files),
        });
        if uext4_fuse::is_interrupted() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    bar
}

/// The image that was built.
pub(super) struct Built<'a> {
    pub(super) name: &'a str,
    pub(super) path: &'a Path,
    pub(super) report: &'a BuildReport,
    pub(super) made: &'a Made,
    pub(super) output: &'a Output,
    pub(super) seconds: f64,
}

/// The same for programs. Sizes are in bytes.
#[derive(Serialize)]
struct Json<'a> {
    image: &'a str,
    size_bytes: u64,
    allocated_bytes: Option<u64>,
    block_size: u32,
    blocks: u64,
    blocks_free: u64,
    inodes: u32,
    inodes_free: u32,
    journal_blocks: u32,
    files: u64,
    uuid: String,
    #[serde(flatten)]
    output: build_made::Json<'a>,
    seconds: f64,
}

impl Built<'_> {
    /// Bytes that the image takes on the host; `None` for a block device.
    fn allocated(&self) -> Option<u64> {
        let found = std::fs::metadata(self.path).ok()?;
        found.is_file().then(|| found.blocks() * 512)
    }

    pub(super) fn json(&self) -> Result<()> {
        let (disk, geometry) = (&self.report.superblock, &self.report.geometry);
        let json = Json {
            image: self.name,
            size_bytes: geometry.size_bytes(),
            allocated_bytes: self.allocated(),
            block_size: geometry.block_size(),
            blocks: geometry.blocks_count,
            blocks_free: disk.free_blocks_count,
            inodes: geometry.inodes_count,
            inodes_free: disk.free_inodes_count,
            journal_blocks: self.report.journal_blocks,
            files: self.report.files,
            uuid: Uuid(&disk.uuid).to_string(),
            output: self.output.json(self.path, self.made),
            seconds: self.seconds,
        };
        show::json(&mut std::io::stdout(), &json)
    }

    pub(super) fn say(&self, mut out: &mut dyn Write) -> Result<()> {
        let (disk, geometry) = (&self.report.superblock, &self.report.geometry);
        let size = numbers::readable_size(geometry.size_bytes());
        let on_host = self.allocated().map(numbers::readable_size);
        let on_host = on_host.map_or(String::new(), |bytes| format!(", {bytes} on the host"));
        let free = disk.free_blocks_count << geometry.block_bits;
        let journal = match self.report.journal_blocks {
            0 => "no journal".to_owned(),
            blocks => {
                let bytes = u64::from(blocks) << geometry.block_bits;
                format!("a journal of {}", numbers::readable_size(bytes))
            }
        };
        writeln!(
            out,
            "{}: {size}{on_host}, {} and {} inodes free; {} files, {journal}\nUUID {}",
            self.name,
            numbers::readable_size(free),
            disk.free_inodes_count,
            self.report.files,
            Uuid(&disk.uuid),
        )?;
        build_made::say(self.made, &mut out)?;
        Ok(out.flush()?)
    }
}
