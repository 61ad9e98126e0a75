//! Builds an image of a directory: `build OUT DIR [SIZE|min] [THREADS]`.

use std::path::Path;

use uext4_builder::{BuildOptions, Builder, Size, source_date_epoch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [out, directory, rest @ ..] = &words[..] else {
        return Err("usage: build OUT DIR [SIZE|min] [THREADS]".into());
    };
    let size = match rest.first().map(String::as_str) {
        None | Some("min") => Size::Min,
        Some(bytes) => Size::Bytes(bytes.parse()?),
    };
    let mut options = BuildOptions::new(size);
    options.format.time = source_date_epoch()?;
    if let Some(threads) = rest.get(1) {
        options.threads = threads.parse()?;
    }
    let mut builder = Builder::create(Path::new(out), options)?;
    builder.directory(Path::new(directory), b"")?;
    let report = builder.finish()?;
    println!(
        "{} files, {} blocks",
        report.files, report.geometry.blocks_count
    );
    Ok(())
}
