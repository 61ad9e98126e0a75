//! The seed of directory hashes.
//!
//! An index is sorted by hashes that depend on the seed. So the seed changes only while no
//! directory has one; `e2fsck -fD` makes small directories do without. tune2fs has no such option.

use super::users;
use crate::state::engine::Fs;
use crate::types::error::{Error, Result};

/// Refuses a new seed if a directory has an index.
///
/// # Errors
/// [`Error::NotSupported`] if so; damage.
pub(super) fn check(fs: &Fs) -> Result<()> {
    if users::any_file(fs, users::has_index)? {
        Err(Error::NotSupported(
            "a directory has an index (dir_index), whose hashes depend on the present seed; copy \
             the tree to a new file system instead",
        ))
    } else {
        Ok(())
    }
}
