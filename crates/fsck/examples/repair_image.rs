//! Repairs an image by decisions of its own, and keeps what it overwrites:
//! `cargo run -p uext4-fsck --example repair_image -- disk.img undo-file`.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use uext4_device::{Access, FileDevice};
use uext4_fsck::{Decision, Decisions, Finding, Problem, Repair};

/// Repairs everything but names.
struct KeepNames;

impl Decisions for KeepNames {
    fn decide(&mut self, finding: &Finding, problem: Option<&Problem>) -> Decision {
        let what = problem.map_or("there is no repair", |problem| problem.repair);
        println!("{finding}: {what}");
        if finding.corrupt.structure == "directory entry" {
            Decision::Leave
        } else {
            Decision::Repair
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (image, undo) = args
        .next()
        .zip(args.next())
        .ok_or("which image and file?")?;
    let is_sound = run(Path::new(&image), Path::new(&undo))?;
    println!("{}", if is_sound { "sound" } else { "damaged" });
    Ok(())
}

/// True if nothing is left to repair. `uext4 undo` takes the file.
pub(crate) fn run(image: &Path, undo: &Path) -> Result<bool, Box<dyn Error>> {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite)?);
    let mut options = File::options();
    // It has old contents of the file system.
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let repair = Repair::new(device).undo(options.open(undo)?);
    let report = repair.decisions(&mut KeepNames).threads(2).run()?;
    Ok(report.is_sound())
}
