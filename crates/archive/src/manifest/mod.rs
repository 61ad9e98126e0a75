//! Changes to what a source says of its files: owners, modes, devices, labels.
//!
//! A [`Changed`] sink stands before another one. It applies, in this order: maps of owners, one
//! owner for all, one time for all, the lines of an mtree, the latest time, SELinux labels. Its
//! [`Changed::finish`] adds the devices, directories, links and pipes of the mtree that the source
//! does not have.
//! Layout: `owners` maps numbers, `mtree` reads specifications, `contexts` labels; `changed` is the
//! sink.

mod changed;
mod contexts;
mod mtree;
mod owners;
#[cfg(test)]
mod tests;

pub use changed::{Changed, Changes, Times};
pub use contexts::FileContexts;
pub use mtree::Mtree;
pub use owners::{IdRange, NoIdRange};
