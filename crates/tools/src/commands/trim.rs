//! `uext4 trim`: gives free space back to what the image lies on.

use crate::failure::{At, Result};
use crate::image::ImageArgs;
use crate::numbers;

/// Discard free space, so that a sparse image or an SSD gets it back
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 trim disk.img
  uext4 trim disk.img --minimum 1M         leave short runs alone
  uext4 trim disk.img --from 1G --length 1G

For a mounted file system use fstrim, or mount it with -o discard.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Leave free runs alone that are shorter
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = numbers::size)]
    minimum: u64,
    /// Begin at this byte of the file system
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = numbers::size)]
    from: u64,
    /// Look at so many bytes
    #[arg(long, value_name = "BYTES", value_parser = numbers::size)]
    length: Option<u64>,
    /// Say nothing
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let end = self
            .length
            .map_or(u64::MAX, |length| self.from.saturating_add(length));
        let trimmed = self
            .image
            .change(|fs| fs.trim(self.from..end, self.minimum).at(&name))?;
        if !self.quiet {
            let readable = numbers::readable_size(trimmed);
            println!("{name}: {readable} ({trimmed} bytes) trimmed");
        }
        Ok(())
    }
}
