//! Contents of files on their way to the device.
//!
//! Layout: `chunks` of 1 MiB of files make a `batch`. `streams` are read when they come, and
//! `deferred` contents at the end, by `readers`. `writer` gives each batch its blocks, and `output`
//! is the thread that writes; `gather` joins blocks of metadata. `targets` are those of long
//! symbolic links.

pub(crate) mod batch;
pub(crate) mod chunks;
pub(crate) mod deferred;
pub(crate) mod gather;
pub(crate) mod output;
pub(crate) mod readers;
pub(crate) mod streams;
pub(crate) mod targets;
pub(crate) mod writer;
