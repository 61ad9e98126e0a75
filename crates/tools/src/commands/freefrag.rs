//! `uext4 freefrag`: fragmentation and location of free space.

use super::control;
use crate::failure::{At, Result};
use crate::image::{ImageArgs, Purpose};
use crate::{numbers, show};
use std::io::Write;
use uext4::FreeFragments;
use uext4_fuse::Ask;
use uext4_num::clamp_u32;

const COLUMNS: usize = 64;
const ROWS: usize = 16;
/// From completely used to completely free.
const SHADES: [char; 5] = ['█', '▓', '▒', '░', '·'];
/// The same for terminals that show ASCII only.
const ASCII_SHADES: [char; 5] = ['#', '+', '=', '-', '.'];

/// Show the fragmentation and location of free space, as e2freefrag does
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 freefrag disk.img
  uext4 freefrag disk.img --json | jq .max_bytes
  uext4 freefrag /mnt/data                 of a mount

In the map each cell is an equal part of the device, from █ (in use) to · (free), or from # to . if
the locale is not UTF-8.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let found = self.measure()?;
        let mut out = show::stdout();
        if self.json {
            show::json(&mut out, &found)?;
        } else {
            totals(&mut out, &found)?;
            histogram(&mut out, &found)?;
            picture(&mut out, &found)?;
        }
        Ok(out.flush()?)
    }

    fn measure(&self) -> Result<FreeFragments> {
        if control::is_running(&self.image)? {
            let slices = clamp_u32(COLUMNS * ROWS);
            let answer = control::ask(&self.image.image, &Ask::FreeFragments { slices })?;
            let found = serde_json::from_value(answer).map_err(std::io::Error::from);
            return found.at(self.image.name());
        }
        let fs = self.image.mount(Purpose::Read)?;
        fs.free_fragments(COLUMNS * ROWS).at(self.image.name())
    }
}

fn totals(out: &mut dyn Write, found: &FreeFragments) -> Result<()> {
    let size = numbers::readable_size;
    let share = percent(found.free_bytes, found.size_bytes);
    let average = found.free_bytes.checked_div(found.extents).unwrap_or(0);
    writeln!(
        out,
        "free      {} of {} ({share:.1}%)",
        size(found.free_bytes),
        size(found.size_bytes)
    )?;
    writeln!(out, "extents   {}", found.extents)?;
    writeln!(out, "shortest  {}", size(found.min_bytes))?;
    writeln!(out, "longest   {}", size(found.max_bytes))?;
    writeln!(out, "average   {}", size(average))?;
    Ok(())
}

fn histogram(out: &mut dyn Write, found: &FreeFragments) -> Result<()> {
    writeln!(
        out,
        "\n{:>24} {:>10} {:>12} {:>7}",
        "extent size", "extents", "free", "share"
    )?;
    for row in &found.histogram {
        let to = numbers::readable_size(row.from_bytes * 2);
        let from = numbers::readable_size(row.from_bytes);
        let free = numbers::readable_size(row.bytes);
        let share = percent(row.bytes, found.free_bytes);
        let range = format!("{from} up to {to}");
        writeln!(
            out,
            "{range:>24} {:>10} {free:>12} {share:>6.1}%",
            row.extents
        )?;
    }
    Ok(())
}

fn picture(out: &mut dyn Write, found: &FreeFragments) -> Result<()> {
    writeln!(out)?;
    let shades = if show::takes_unicode() {
        SHADES
    } else {
        ASCII_SHADES
    };
    for row in found.picture.chunks(COLUMNS) {
        let cells: String = row.iter().map(|free| shade(shades, *free)).collect();
        writeln!(out, "{cells}")?;
    }
    Ok(())
}

/// The first shade means no free space, the last no used space.
fn shade(shades: [char; 5], free_thousandths: u16) -> char {
    match free_thousandths {
        0 => shades[0],
        1..334 => shades[1],
        334..667 => shades[2],
        667..1000 => shades[3],
        _ => shades[4],
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        numbers::nearest(part) * 100.0 / numbers::nearest(whole)
    }
}
