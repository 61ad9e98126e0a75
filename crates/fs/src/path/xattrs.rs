//! Extended attributes by path.

use super::{AsBytes, Paths};
use crate::{Result, SetMode};

/// Symbolic links are followed; [`Paths::symlink_inode`] and the operations of
/// [`crate::Filesystem`] reach the attributes of a link itself.
impl Paths<'_> {
    /// Value of the extended attribute `name`, with its prefix (`user.`, `trusted.`, …).
    ///
    /// # Errors
    /// [`crate::Error::NoAttribute`].
    pub fn xattr(&self, path: impl AsBytes, name: impl AsBytes) -> Result<Vec<u8>> {
        let inode = self.inode(path)?;
        self.fs.get_xattr(&inode, name.as_bytes(), &self.caller)
    }

    /// Names of the extended attributes that the caller may see.
    pub fn xattrs(&self, path: impl AsBytes) -> Result<Vec<Vec<u8>>> {
        self.fs.list_xattrs(&self.inode(path)?, &self.caller)
    }

    /// Sets the extended attribute `name`.
    ///
    /// # Errors
    /// [`crate::Error::Exists`] or [`crate::Error::NoAttribute`], as `mode` demands.
    pub fn set_xattr(
        &self,
        path: impl AsBytes,
        name: impl AsBytes,
        value: impl AsRef<[u8]>,
        mode: SetMode,
    ) -> Result<()> {
        let (inode, value) = (self.inode(path)?, value.as_ref());
        self.fs
            .set_xattr(&inode, name.as_bytes(), value, mode, &self.caller)
    }

    /// Removes the extended attribute `name`.
    ///
    /// # Errors
    /// [`crate::Error::NoAttribute`].
    pub fn remove_xattr(&self, path: impl AsBytes, name: impl AsBytes) -> Result<()> {
        let inode = self.inode(path)?;
        self.fs.remove_xattr(&inode, name.as_bytes(), &self.caller)
    }
}
