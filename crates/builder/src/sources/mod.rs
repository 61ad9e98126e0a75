//! Sources of entries, and the entries of all layers as they come.
//!
//! Layout: `entry` is one file of a source, `sink` the interface between sources and the builder,
//! `host` the source for directories of the host. `collector` takes the entries: `layers` puts them
//! into the tree of their layer, `whiteouts` marks what upper layers hide, `spool` keeps contents
//! that may be hidden.

pub(crate) mod collector;
pub(crate) mod entry;
pub(crate) mod host;
pub(crate) mod layers;
pub(crate) mod sink;
pub(crate) mod spool;
pub(crate) mod whiteouts;
