//! Makes an ext4 image that holds one file: `cargo run --example make_image -- disk.img`.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions, SetMode};

const SIZE_BYTES: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("which image?")?;
    run(Path::new(&image))
}

pub(crate) fn run(image: &Path) -> Result<(), Box<dyn Error>> {
    File::create_new(image)?.set_len(SIZE_BYTES)?;
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite)?);
    mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4))?;

    let fs = Filesystem::mount(device, MountOptions::default())?;
    let paths = fs.paths();
    paths.create_dir_all("/srv/www")?;
    paths.write("/srv/www/index.html", "<h1>Hello</h1>")?;
    paths.set_xattr("/srv/www/index.html", "user.lang", "en", SetMode::Any)?;
    fs.unmount()?;
    Ok(())
}
