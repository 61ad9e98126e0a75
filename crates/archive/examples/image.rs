//! Builds the smallest image of an archive or a container image:
//! `cargo run -p uext4-archive --example image -- disk.img layers.tar.zst`

use std::path::Path;

use uext4_archive::{Options, Source};
use uext4_builder::{BuildOptions, Builder, Size};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(image), Some(source)) = (arguments.next(), arguments.next()) else {
        return Err("give an image and a source".into());
    };
    let mut builder = Builder::create(Path::new(&image), BuildOptions::new(Size::Min))?;
    Source::open(source)?.feed(&mut builder, &Options::default())?;
    let report = builder.finish()?;
    println!("{} files", report.files);
    Ok(())
}
