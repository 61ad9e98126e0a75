//! The seed of directory hashes.
//!
//! An index is sorted by hashes that depend on the seed. So the seed changes only while no
//! directory has one; `e2fsck -fD` makes small directories do without. tune2fs has no such option.

use crate::{Error, Fs, Result};
use uext4_format::{FileType, InodeFlags, InodeNr};

/// Refuses a new seed if a directory has an index.
///
/// # Errors
/// [`Error::NotSupported`] if so; damage.
pub(super) fn check(fs: &Fs) -> Result<()> {
    for nr in fs.space.inodes_in_use(fs) {
        let nr = nr?;
        if nr.0 >= fs.geometry.first_inode || nr == InodeNr::ROOT {
            let inode = fs.load_inode(nr)?;
            let state = inode.read();
            let disk = &state.disk;
            let is_directory = disk.file_type() == Some(FileType::Directory);
            if is_directory && disk.flags.contains(InodeFlags::INDEX) {
                return Err(Error::NotSupported(
                    "a directory has an index (dir_index), whose hashes depend on the present \
                     seed; copy the tree to a new file system instead",
                ));
            }
        }
    }
    Ok(())
}
