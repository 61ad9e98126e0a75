//! `-o loop`: the image file is mounted through a loop device of its own, as by `mount -o loop`.
//!
//! Linux sends `sync` and `syncfs` to the server of a block device only. A read-only mount has
//! nothing to sync, and reads the file itself.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use std::os::unix::fs::FileTypeExt;
use uext4::Access;
use uext4::device::{AttachedLoop, LoopIo};

/// Attaches a loop device for a writable mount with the option, and opens it instead of the image
/// from now on. The device goes with the last descriptor and mount of it.
pub(super) fn attach(
    image: &mut ImageArgs,
    how: Option<LoopIo>,
    access: Access,
) -> Result<Option<AttachedLoop>> {
    let (Some(how), Access::ReadWrite) = (how, access) else {
        return Ok(None);
    };
    if !rustix::process::geteuid().is_root() {
        let why = "-o loop: only the superuser may attach a loop device and mount it";
        return Err(Failure::new(Exit::Failed, why));
    }
    let found = std::fs::metadata(&image.image).at(image.name())?;
    if found.file_type().is_block_device() {
        let why = format!("-o loop: {} is a block device already", image.name());
        return Err(Failure::usage(why));
    }
    let attached = AttachedLoop::attach(&image.image, how);
    let attached = attached.at(format!("{}: -o loop", image.name()))?;
    image.show_by(attached.path());
    Ok(Some(attached))
}
