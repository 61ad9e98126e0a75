//! The image that is made: its options, its numbers and where it is written.

use std::sync::Arc;

use uext4_device::{BlockDevice, NewFile};
use uext4_mkfs::{Draft, Plan};

use crate::error::{Error, Result};
use crate::options::BuildOptions;

/// What is made, and where it goes.
pub(crate) struct Image {
    pub(crate) options: BuildOptions,
    /// Numbers of the file system; those that the size decides are for the largest one.
    pub(crate) plan: Plan,
    /// The file system without contents, where their places follow from paths.
    pub(crate) early: Option<Draft>,
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The new file, if the device is one.
    pub(crate) file: Option<Arc<NewFile>>,
}

impl Image {
    /// Cuts a new file to its size, and gives it its name.
    pub(crate) fn keep(&self, size_bytes: u64) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        file.keep(size_bytes).map_err(|error| Error::Image {
            path: file.describe(),
            error,
        })
    }
}
