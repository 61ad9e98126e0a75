//! Builds ext4 images from trees of files, in one pass and reproducibly.
//!
//! [`Builder`] takes entries and writes contents as they come; [`Builder::finish`] writes what was
//! left for later, then metadata, which are packed behind the contents. No mount, no journal run,
//! no root. The tables and the superblock are those of `uext4_mkfs`.
//!
//! ```
//! use uext4_builder::{Attributes, BuildOptions, Builder, Size, Timestamp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let (base, site) = (scratch.path().join("base"), scratch.path().join("site"));
//! # let image = scratch.path().join("root.img");
//! # for directory in [&base, &site] {
//! #     std::fs::create_dir(directory)?;
//! #     std::fs::write(directory.join("motd"), "hello")?;
//! # }
//! let mut options = BuildOptions::new(Size::Min);
//! options.format.label = b"root".to_vec();
//! let mut builder = Builder::create(&image, options)?;
//! let attributes = Attributes {
//!     permissions: 0o644,
//!     mtime: Timestamp::new(1_700_000_000, 0),
//!     ..Attributes::default()
//! };
//! builder.file(b"etc/hostname", b"example\n", attributes)?;
//! builder.directories(&[&base, &site], b"srv")?; // the later one hides what the earlier one has
//! let report = builder.finish()?;
//! assert_eq!(std::fs::metadata(&image)?.len(), report.geometry.size_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! Layers of a [`Sink`] come from the top down, because what upper ones hide is not written.
//! [`Builder::directories`] takes them as `uext4 build` does. Tar files and container images are
//! sources of the crate `uext4-archive`. A builder is [`Send`]; an error of it ends it. A program
//! that feeds a [`Sink`] must not finish after an error of its own source.
//!
//! Layout: [`Builder`] is the interface, `image` what it makes, and `finish` the order of the end:
//! collect, place, write. `sources` gives entries, `tree` holds them, `layout` chooses blocks,
//! inodes and the size, `content` writes what files contain, `metadata` all the rest.
//!
//! References: docs/internals/build.md.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod builder;
mod content;
mod error;
mod finish;
mod image;
mod layout;
mod metadata;
mod options;
mod progress;
mod report;
mod sources;
mod tree;

pub use builder::Builder;
pub use error::{Error, Result};
pub use options::{BuildOptions, PlacementRule, Size, Tables, source_date_epoch};
pub use progress::Progress;
pub use report::BuildReport;
pub use sources::entry::{Attributes, Content, Data, Entry, Node, ReadAt, Xattr};
pub use sources::host::directory::Host;
pub use sources::sink::Sink;
pub use uext4_device::BlockDevice;
pub use uext4_format::{DeviceNumber, Geometry, Superblock, Timestamp};
pub use uext4_mkfs::{InodeCount, JournalSize, MkfsOptions};
