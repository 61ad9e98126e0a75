//! The readers of this crate on images of the engine and of the kernel, whole and damaged; debugfs
//! judges.
#![allow(missing_docs)]

mod base;
mod deleted;
mod fields;
mod log;
mod rescue;
mod wounds;
