//! Mount options, by their ext4 names.
//!
//! Three sources, later ones win: the fields of [`MountOptions`], the superblock's defaults
//! (`tune2fs -o`, `-E mount_opts`), and the words given to [`MountOptions::parse`]. A default bit
//! yields to a field that is `Some`. An option takes effect, or is refused with a reason. The only
//! words without effect are those that the kernel accepts and ignores, and those of `mount(8)` and
//! the VFS (`table`).
//!
//! References: kernel documentation, `admin-guide/ext4`; man page `ext4(5)`.

mod defaults;
mod fields;
mod table;
#[cfg(test)]
mod tests;
mod values;
mod words;

pub use fields::{Allocator, DataMode, MountOptions, OnError, QuotaLimits, Threads};
pub use uext4_volume::Access;
pub use words::OptionHelp;

use crate::types::error::Result;

impl MountOptions {
    /// Parses a comma separated list, as `mount -o` takes it, on top of `self`.
    ///
    /// # Errors
    /// [`crate::Error::Option`] names an option that is unknown, has a bad value or is not
    /// supported.
    pub fn parse(mut self, list: &str) -> Result<Self> {
        words::apply_list(&mut self, list)?;
        self.words.push(list.to_owned());
        Ok(self)
    }

    /// Every word that [`Self::parse`] takes, and those of ext4 that it refuses with a reason, in
    /// the order of help pages.
    pub fn help() -> Vec<OptionHelp> {
        words::help()
    }

    /// The effective options for a mount of this superblock.
    pub(crate) fn settled(&self, superblock: &uext4_format::Superblock) -> Result<Self> {
        let mut options = self.clone();
        defaults::apply(&mut options, superblock);
        for list in &self.words {
            words::apply_list(&mut options, list)?;
        }
        // A program may force a read-only mount after it parsed the words.
        options.access = self.access;
        options.check_together()?;
        Ok(options)
    }

    /// Refuses options that exclude each other.
    pub(crate) fn check_together(&self) -> Result<()> {
        words::check_together(self)
    }
}
