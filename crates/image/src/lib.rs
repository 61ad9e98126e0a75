//! Containers of file system images: what is around a file system in the file that holds it.
//!
//! [`Container`] gives a device for the file system, and finishes the file when the file system is
//! complete: a hash tree of dm-verity, a partition table, the tables of qcow2, or a conversion to
//! Android's sparse format. The same file system gives the same bytes. The final name appears when
//! all is complete.
//!
//! Layout: `container` has the order, `options` what is asked for, `qcow2` is a device, `sparse` a
//! conversion, `verity` a hash tree. `table` reads tables of partitions and finds their places;
//! `disk` copies the files of a table by `content`, and writes it by `gpt` or `mbr`. `identity`
//! derives UUIDs and salts, `samples` tells two states of a file apart, `backing` finds the image
//! behind another one.
//!
//! References: docs/internals/containers.md.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod backing;
mod container;
mod content;
mod disk;
mod error;
mod gpt;
mod identity;
mod mbr;
mod options;
mod progress;
mod qcow2;
mod samples;
mod sparse;
mod table;
mod verity;

pub use container::{Container, Made, Partition, Tree};
pub use error::{Error, Result};
pub use options::{Backing, Format, Options, PartitionKind, Verity, VerityPlace};
pub use progress::Progress;
pub use qcow2::Qcow2;
pub use samples::samples_of;
pub use table::{Fault, Problem, Table};
