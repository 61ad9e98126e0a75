//! The interface between sources and the builder.
//!
//! Layers come from the top down, so that files which upper layers hide are not written. The image
//! is what the layers make when they are applied from the bottom up. In one layer, a later entry
//! replaces an earlier one of the same path, except that a directory only gets new attributes.
//!
//! A directory that an upper layer has no entry for, and that is a symbolic link below, is the
//! directory to which the link leads; [`crate::BuildReport::followed`] says so.

use crate::error::Result;
use crate::sources::entry::Entry;

/// Takes the entries of sources.
pub trait Sink {
    /// Begins the next layer, below all layers before it.
    ///
    /// # Errors
    /// Those of the builder. After one, every method returns [`crate::Error::Ended`].
    fn next_layer(&mut self) -> Result<()>;

    /// Adds a file to the layer. Directories above the path that no layer has are made, with mode
    /// 0755, owner 0 and the time of the image. A link names a file that the layer has, or one of
    /// the layers below.
    fn add(&mut self, entry: Entry<'_>) -> Result<()>;

    /// Hides the path and everything below it in later layers (a whiteout).
    fn hide(&mut self, path: &[u8]) -> Result<()>;

    /// Hides everything below the path in later layers, not the directory itself (an opaque
    /// directory).
    fn hide_below(&mut self, path: &[u8]) -> Result<()>;
}
