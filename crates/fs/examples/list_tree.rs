//! Lists all files of an image, which is not changed: `cargo run --example list_tree -- disk.img`.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Filesystem, MountOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("which image?")?;
    run(Path::new(&image), &mut std::io::stdout())
}

pub(crate) fn run(image: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let device = Arc::new(FileDevice::open(image, Access::ReadOnly)?);
    let fs = Filesystem::mount(device, MountOptions::read_only())?;
    for file in fs.paths().walk("/")? {
        let file = file?;
        let attr = fs.attr(&file.inode);
        let path = String::from_utf8_lossy(&file.path);
        writeln!(out, "{:04o} {:>8} {path}", attr.mode, attr.size_bytes)?;
    }
    Ok(())
}
