//! Checks an image, which is not changed, and says what a repair would do:
//! `cargo run -p uext4-fsck --example check_image -- disk.img`.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use uext4_device::{Access, FileDevice};
use uext4_fsck::{Check, Limits, Preen, Problem, code};

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("which image?")?;
    run(Path::new(&image), &mut std::io::stdout())
}

pub(crate) fn run(image: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let device = Arc::new(FileDevice::open(image, Access::ReadOnly)?);
    let limits = Limits {
        memory_bytes: 64 << 20,
        // Beyond half of that, a temporary file.
        spill: Some(std::env::temp_dir()),
        ..Limits::default()
    };
    let report = Check::new(device).limits(limits).threads(2).run()?;
    for finding in &report.findings {
        writeln!(out, "{}: {finding}", code(&finding.corrupt))?;
        match Problem::of(&finding.corrupt) {
            Some(problem) if problem.preen == Preen::Repairs => {
                writeln!(out, "    repaired without a question: {}", problem.repair)?;
            }
            Some(problem) => writeln!(out, "    repaired if you agree: {}", problem.repair)?,
            None => writeln!(out, "    there is no repair")?,
        }
    }
    if let Some(why) = report.incomplete {
        writeln!(out, "not everything was checked: {why}")?;
    }
    let (inodes, directories) = (report.n_inodes, report.n_directories);
    writeln!(out, "{inodes} inodes, {directories} directories")?;
    Ok(())
}
