//! The interface between sources and the builder.
//!
//! Layers come from the top down: what a layer has, hides what comes later. So hidden files are
//! never written, and no space of the image is given back. In one layer, a later entry replaces an
//! earlier one of the same path, except that a directory only gets new attributes.

use crate::{Entry, Result};

/// Takes the entries of sources.
pub trait Sink {
    /// Begins the next layer, below all layers before it.
    ///
    /// # Errors
    /// Those of the builder, after which it takes nothing more; so for all methods.
    fn next_layer(&mut self) -> Result<()>;

    /// Adds a file to the layer, unless a layer above hides it. Directories above the path that no
    /// layer has are made, with mode 0755, owner 0 and the time of the image.
    fn add(&mut self, entry: Entry<'_>) -> Result<()>;

    /// Hides the path and everything below it in later layers (a whiteout).
    fn hide(&mut self, path: &[u8]) -> Result<()>;

    /// Hides everything below the path in later layers, not the directory itself (an opaque
    /// directory).
    fn hide_below(&mut self, path: &[u8]) -> Result<()>;
}
