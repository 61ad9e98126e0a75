//! First and second write to a large, fragmented file system after a cold mount.
//!
//! Layout: [`generator`] makes the image in a sparse file; each row mounts it and writes in a child
//! process ([`row`]), which the parent stops at a time limit. After each row its files are removed
//! and the image is restored, so rows may run in any order.

mod generator;
mod owner;
mod pattern;
mod row;
mod rows;

pub(crate) use row::{measure_directory, measure_library};
pub(crate) use rows::names;

use crate::cleanup::Cleanup;
use crate::collection::{Collection, Sample};
use crate::measure::{Results, progress};
use crate::system::System;
use anyhow::{Context, Result, bail, ensure};
use rows::Row;
use std::path::Path;
use std::time::{Duration, Instant};
use uext4_testkit::oracle;

const EXPERIMENT: &str = "fragmented";

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) size_bytes: u64,
    pub(crate) rows: Vec<String>,
    pub(crate) systems: Vec<System>,
    pub(crate) runs: u32,
    pub(crate) limit: Duration,
    /// Pause before the last write of a row, for background work to finish.
    pub(crate) settle: Duration,
}

/// Generates the image and keeps it.
pub(crate) fn write_image(path: &Path, size_bytes: u64) -> Result<()> {
    ensure!(!path.exists(), "{} is there already", path.display());
    let start = Instant::now();
    generator::generate(path, size_bytes)?;
    eprintln!("made in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs all rows in turn.
pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let rows = rows::pick(&plan.rows, &plan.systems)?;
    if rows.is_empty() {
        bail!("nothing to run: no row of the list suits");
    }
    let mut cleanup = Cleanup::start()?;
    let dir = oracle::scratch_dir()?;
    cleanup.watch(dir.path())?;
    let image = dir.path().join("fragmented.img");
    let progress = progress(rows.len() as u64 * u64::from(plan.runs) + 1);
    progress.set_message("makes the file system");
    generator::generate(&image, plan.size_bytes)?;
    progress.inc(1);
    let mut all = Collection::new(&progress);
    for _ in 0..plan.runs {
        for row in &rows {
            progress.set_message(format!("{} {}", row.system.name(), row.name));
            let samples = one_run(plan, row, &image, &mut cleanup)
                .with_context(|| format!("{} {}", row.system.name(), row.name))?;
            all.add(&row.key(), samples);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(all.results(&plan.systems))
}

fn one_run(plan: &Plan, row: &Row, image: &Path, cleanup: &mut Cleanup) -> Result<Vec<Sample>> {
    let samples = row::run(row, image, plan, cleanup);
    // Also after a failure: the next row needs the image without the files of this one.
    let restored = row::restore(image);
    let samples = samples?;
    restored?;
    Ok(samples)
}

/// Parses a number of bytes with a unit: `60T`, `64G`, `512M`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.iter().find(|(name, _)| text.ends_with(*name));
    let (digits, shift) = unit.map_or((text, 0), |(_, shift)| (&text[..text.len() - 1], *shift));
    let number: u64 = digits.parse().map_err(|_| format!("{text} is no size"))?;
    let bytes = number.checked_mul(1 << shift);
    bytes.ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("60T"), Ok(60 << 40));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert!(parse_size("T").is_err() && parse_size("99999999T").is_err());
    }
}
