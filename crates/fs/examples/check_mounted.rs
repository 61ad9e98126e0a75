//! Checks an image that is mounted, by a snapshot, while files are written:
//! `cargo run --example check_mounted -- disk.img`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use uext4::check::{CheckReport, Limits, check};
use uext4::device::{Access, FileDevice, SnapshotLimits};
use uext4::{Filesystem, MountOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("which image?")?;
    let report = run(Path::new(&image))?;
    println!(
        "{} inodes, {} findings",
        report.n_inodes,
        report.findings.len()
    );
    Ok(())
}

pub(crate) fn run(image: &Path) -> Result<CheckReport, Box<dyn Error>> {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite)?);
    let fs = Filesystem::mount(device, MountOptions::default())?;
    fs.paths().write("/before", "in the snapshot")?;
    let snapshot = fs.snapshot(SnapshotLimits::default())?;
    fs.paths().write("/after", "not in the snapshot")?;
    let options = MountOptions {
        journal_device: snapshot.journal_device(),
        ..MountOptions::default()
    };
    // The log of the snapshot is replayed in memory by a mount, with its fast commits.
    let report = check(snapshot.device.clone(), options, &Limits::default())?;
    drop(snapshot);
    fs.unmount()?;
    Ok(report)
}
