//! Extended attributes by path.

use super::error::{At, Result};
use super::{AsBytes, Paths};
use crate::parts::xattr::SetMode;

/// Symbolic links are followed; [`Paths::symlink_inode`] and the operations of
/// [`crate::Filesystem`] reach the attributes of a link itself.
impl Paths {
    /// Value of the extended attribute `name`, with its prefix (`user.`, `trusted.`, …).
    ///
    /// # Errors
    /// [`crate::Error::NoAttribute`].
    pub fn xattr(&self, path: impl AsBytes, name: impl AsBytes) -> Result<Vec<u8>> {
        let inode = self.inode(&path)?;
        let value = self.fs.get_xattr(&inode, name.as_bytes(), &self.caller);
        value.at(path.as_bytes())
    }

    /// Names of the extended attributes that the caller may see.
    pub fn xattrs(&self, path: impl AsBytes) -> Result<Vec<Vec<u8>>> {
        let names = self.fs.list_xattrs(&self.inode(&path)?, &self.caller);
        names.at(path.as_bytes())
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
        let (inode, name) = (self.inode(&path)?, name.as_bytes());
        let value = value.as_ref();
        let set = self.fs.set_xattr(&inode, name, value, mode, &self.caller);
        set.at(path.as_bytes())
    }

    /// Removes the extended attribute `name`.
    ///
    /// # Errors
    /// [`crate::Error::NoAttribute`].
    pub fn remove_xattr(&self, path: impl AsBytes, name: impl AsBytes) -> Result<()> {
        let inode = self.inode(&path)?;
        let removed = self.fs.remove_xattr(&inode, name.as_bytes(), &self.caller);
        removed.at(path.as_bytes())
    }
}
