//! `uext4 extents`: lists the extents of a file.

use crate::failure::{At, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use uext4::Extent;

/// Show the extents of a file
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 extents disk.img /var/db
  uext4 extents disk.img /var/db --json | jq length     number of extents

All numbers are bytes; device offsets count from the start of the file system.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// File in the image
    path: OsString,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    offset: u64,
    device_offset: u64,
    length: u64,
    unwritten: bool,
    inline: bool,
}

impl Row {
    fn new(extent: &Extent) -> Self {
        Self {
            offset: extent.logical_bytes,
            device_offset: extent.physical_bytes,
            length: extent.len_bytes,
            unwritten: extent.flags & Extent::UNWRITTEN != 0,
            inline: extent.flags & Extent::DATA_INLINE != 0,
        }
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        super::snapshot::read_mount(&self.image)?;
        let fs = self.image.mount(Purpose::Read)?;
        let at = self.image.name_of(self.path.as_bytes());
        let inode = fs.paths().inode(&self.path).at(&at)?;
        let extents = fs.fiemap(&inode, 0, u64::MAX).at(&at)?;
        let rows: Vec<Row> = extents.iter().map(Row::new).collect();
        let mut out = show::stdout();
        if self.json {
            show::json(&mut out, &rows)?;
            return Ok(out.flush()?);
        }
        writeln!(out, "{:>16} {:>16} {:>16}", "offset", "on device", "length")?;
        for row in &rows {
            let note = match (row.unwritten, row.inline) {
                (true, _) => "  unwritten",
                (_, true) => "  in the inode",
                _ => "",
            };
            writeln!(
                out,
                "{:>16} {:>16} {:>16}{note}",
                row.offset, row.device_offset, row.length
            )?;
        }
        Ok(out.flush()?)
    }
}
