//! Several threads write files of one image: `cargo run --example threads -- disk.img`.
//!
//! Each thread owns a clone of the file system. The unmount comes with the last clone.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use uext4::device::{Access, FileDevice};
use uext4::{Filesystem, MountOptions};

const THREADS: u64 = 4;
const FILES: u64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("which image?")?;
    run(Path::new(&image))
}

pub(crate) fn run(image: &Path) -> Result<(), Box<dyn Error>> {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite)?);
    let fs = Filesystem::mount(device, MountOptions::default())?;
    let start = |nr| {
        let fs = fs.clone();
        thread::spawn(move || write_files(&fs, nr))
    };
    let threads: Vec<_> = (0..THREADS).map(start).collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    // Without this call errors of the last writes would not be seen.
    fs.unmount()?;
    Ok(())
}

fn write_files(fs: &Filesystem, nr: u64) -> uext4::Result<()> {
    let dir = format!("/thread-{nr}");
    let paths = fs.paths();
    paths.create_dir(&dir)?;
    for file in 0..FILES {
        paths.write(format!("{dir}/{file}"), file.to_string())?;
    }
    // Durable now, whatever happens until the unmount.
    fs.fsync(&paths.inode(&dir)?)
}
