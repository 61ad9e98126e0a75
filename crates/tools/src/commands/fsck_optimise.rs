//! `-D` of `uext4 fsck`.

use crate::failure::{At, Exit, Failure, Result};
use crate::show;
use serde_json::json;
use uext4::MountOptions;
use uext4::check::Limits;
use uext4::device::BlockDevice;
use uext4::repair::Optimised;
use uext4_sync::Arc;

/// Builds directories anew, and says what came of it.
pub(super) fn optimise(
    name: &str,
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    limits: &Limits,
    json: bool,
) -> Result<()> {
    let done = uext4::repair::optimise(Arc::clone(device), options.clone(), limits);
    let done = done.at(name)?;
    if json {
        let value = json!({
            "directories_built": done.directories,
            "blocks_freed": done.blocks_freed,
            "casefolded": done.casefolded,
            "too_large": done.too_large,
            "incomplete": done.incomplete,
        });
        show::line(format_args!("{value}"))?;
    } else {
        let Optimised {
            directories,
            blocks_freed,
            ..
        } = done;
        show::line(format_args!(
            "{name}: {directories} directories were built anew, {blocks_freed} blocks of them \
             are free"
        ))?;
        if done.casefolded > 0 {
            show::line(format_args!(
                "{name}: {} directories with casefold stay as they are: their hashes need \
                 tables of letters",
                done.casefolded
            ))?;
        }
        if done.too_large > 0 {
            show::line(format_args!(
                "{name}: {} directories stay as they are: they need more memory than \
                 --memory, or a larger log",
                done.too_large
            ))?;
        }
    }
    match done.incomplete {
        Some(why) => {
            let text = format!("{name}: not all directories are optimised: {why}");
            Err(Failure::new(Exit::Failed, text))
        }
        None => Ok(()),
    }
}
