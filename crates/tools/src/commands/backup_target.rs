//! Where a copy of a mount goes.

use crate::failure::{At, Exit, Failure, Result};
use std::fs::Metadata;
use std::path::Path;
use uext4::device::{Access, FileDevice};

/// A file that the copy replaces. It is open for writing until then, so that no other program uses
/// it: no mount either, such as the copied one.
pub(super) struct OldCopy {
    there: Metadata,
    device: FileDevice,
}

impl OldCopy {
    /// `None` if no regular file has the name.
    pub(super) fn open(out: &Path) -> Result<Option<Self>> {
        let there = match std::fs::metadata(out) {
            Ok(there) if there.is_file() => there,
            _ => return Ok(None),
        };
        let device = FileDevice::open(out, Access::ReadWrite).at(out.display())?;
        Ok(Some(Self { there, device }))
    }

    pub(super) fn refuse_swapped(&self, out: &Path) -> Result<()> {
        uext4::device::refuse_swapped(out, &self.there, &self.device).at(out.display())
    }
}

/// Whether a copy goes onto a device, which no later one continues.
pub(super) fn is_device(out: &Path) -> bool {
    std::fs::metadata(out).is_ok_and(|there| !there.is_file())
}

/// The failure of an image that cannot be made.
pub(super) fn failed(out: &Path, error: &uext4_image::Error) -> Failure {
    match error {
        uext4_image::Error::Refused { .. } => Failure::usage(error.to_string()),
        uext4_image::Error::Device(uext4::device::Error::Busy { .. }) => {
            Failure::new(Exit::Busy, error.to_string())
        }
        _ => Failure::new(Exit::Failed, format!("{}: {error}", out.display())),
    }
}
