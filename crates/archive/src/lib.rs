//! Reads tar files, OCI layouts and `docker save` archives as sources of ext4 images.
//!
//! Mechanism: one pass over the source, whose entries go to a [`uext4_builder::Sink`].
//! Layout: `source` opens and `work` decides, `tar` reads tar files, `image` finds the layers of an
//! image, `compression`, `lz4`, `ahead` and `budget` are the way of compressed bytes; [`manifest`]
//! changes what any source says.
//! Invariants: memory is bounded whatever the input says; names never lead out of the tree; bytes
//! of an image are used only if their digest is right, else the whole build fails.
//! Not here: the tree (a name below a symbolic link is the builder's to refuse).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod ahead;
mod budget;
mod compression;
mod exclude;
mod fault;
#[cfg(feature = "oci")]
mod image;
#[cfg(feature = "lz4")]
mod lz4;
pub mod manifest;
mod options;
mod platform;
mod source;
mod tar;
mod work;

pub use exclude::Patterns;
pub use options::{Form, Options};
pub use platform::{NoPlatform, Platform};
pub use source::Source;
