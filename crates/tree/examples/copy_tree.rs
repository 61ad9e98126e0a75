//! Copies a tree of the host into an image and out again, with progress:
//! `cargo run --example copy_tree -- disk.img site copy`.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Filesystem, MountOptions};
use uext4_tree::{Event, Export, Import};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let mut next = |what: &'static str| args.next().ok_or(what);
    let (image, tree) = (next("which image?")?, next("which tree?")?);
    let copy = next("which new name for the copy?")?;
    run(Path::new(&image), Path::new(&tree), Path::new(&copy))
}

pub(crate) fn run(image: &Path, tree: &Path, copy: &Path) -> Result<(), Box<dyn Error>> {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite)?);
    let fs = Filesystem::mount(device, MountOptions::default())?;

    // A file that fails is told, and the others are copied.
    let mut import = Import::new(&fs).on_event(|event| {
        match event {
            Event::File(path) => println!("{}", String::from_utf8_lossy(path)),
            Event::Failed(error) => eprintln!("{error}"),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    import.tree(tree, "/tree")?;
    println!("{} bytes", import.summary().bytes);
    drop(import);

    // Without a callback the first failure ends the copy.
    Export::new(&fs).tree("/tree", copy)?;
    fs.unmount()?;
    Ok(())
}
