//! `uext4 trim`: discards free space of an image or mount.

use super::control;
use crate::failure::{At, Result};
use crate::image::ImageArgs;
use crate::{numbers, show};
use serde::Serialize;
use uext4_fuse::Ask;

/// Discard free space, for sparse images and SSDs
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 trim disk.img
  uext4 trim disk.img --minimum 1M         ignore shorter runs
  uext4 trim disk.img --from 1G --length 1G

  uext4 trim /mnt/data                     a mount, as fstrim does

With -o discard a mount discards freed blocks continuously.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Minimum length of a free run to discard
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = numbers::size)]
    minimum: u64,
    /// Start at this byte of the file system
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = numbers::size)]
    from: u64,
    /// Number of bytes to search from there; default: to the end
    #[arg(long, value_name = "BYTES", value_parser = numbers::size)]
    length: Option<u64>,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Trimmed {
    trimmed_bytes: u64,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let end = self
            .length
            .map_or(u64::MAX, |length| self.from.saturating_add(length));
        let trimmed = if control::is_running(&self.image)? {
            let ask = Ask::Trim {
                from_bytes: self.from,
                end_bytes: end,
                min_len_bytes: self.minimum,
            };
            let answer = control::ask(&self.image.image, &ask)?;
            answer.as_u64().unwrap_or(0)
        } else {
            self.image
                .change(|fs| fs.trim(self.from..end, self.minimum).at(&name))?
        };
        if self.json {
            let trimmed = Trimmed {
                trimmed_bytes: trimmed,
            };
            show::json(&mut std::io::stdout(), &trimmed)?;
        } else if !self.quiet {
            let readable = numbers::readable_size(trimmed);
            show::line(format_args!("{name}: {readable} ({trimmed} bytes) trimmed"))?;
        }
        Ok(())
    }
}
