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
//! sources of the crate `uext4-archive`. A builder is [`Send`]; an error ends it.
//!
//! Layout: `entry` is what a source says of one file, `sink` takes entries from sources, `host`
//! is the source for directories of the host. `layers` puts entries into the tree of their layer,
//! `merge` makes one tree of all layers, `resolve` follows links there, and `spool` keeps contents
//! that may be hidden. `tree` keeps names and files, `attributes` what
//! many of them share, `values` attributes that have inodes, `sorting` the order of files,
//! `numbers` those of inodes. `places` gives out blocks: `bump` in order, `scatter` by `key`s of
//! paths, for which `stable` prepares. `contents` cuts files into pieces, `readers` read them,
//! `output` writes them. `finish` is the order of the end: `implicit` adds what no source has,
//! `manifest` identifies the tree, `directories` and `attribute_blocks` make blocks, `inodes`
//! inodes, `inline` what small files have there, `usage` quotas, `sizing` chooses the size.
//!
//! References: docs/internals/build.md.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod attribute_blocks;
mod attributes;
mod builder;
mod bump;
mod contents;
mod directories;
mod entry;
mod error;
mod finish;
mod host;
mod implicit;
mod inline;
mod inodes;
mod key;
mod layers;
mod manifest;
mod merge;
mod names;
mod numbers;
mod options;
mod output;
mod places;
mod readers;
mod resolve;
mod scatter;
mod sink;
mod sizing;
mod sorting;
mod spool;
mod stable;
mod streams;
mod tree;
mod usage;
mod values;

pub use builder::Builder;
pub use entry::{Attributes, Content, Data, Entry, Node, ReadAt, Xattr};
pub use error::{Error, Result};
pub use host::Host;
pub use options::{BuildOptions, PlaceRule, Progress, Size, Tables, source_date_epoch};
pub use sink::Sink;
pub use sizing::Report;
pub use uext4_device::BlockDevice;
pub use uext4_format::{DeviceNumber, Geometry, Superblock, Timestamp};
pub use uext4_mkfs::{InodeCount, JournalSize, MkfsOptions};
