//! What a file system that is not mounted still holds: the transactions in its log, the owner of
//! each block, deleted files, and the files behind damage.
//!
//! [`Image`] reads blocks as they are behind a replay, [`Ring`] the log, [`Owners`] names the owner
//! of blocks, [`deleted`] finds deleted files, [`Rescue`] walks a damaged tree. Only
//! [`debug`] writes: single fields.
//!
//! Invariants: images are hostile. No number of an image is trusted as an index or a length; each
//! walk has a bound that the size of the image gives, and memory is counted before it is allocated
//! ([`Memory`]).
//!
//! Not here: repair (`fsck`), writing to the host (`tools`).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::as_conversions,
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used
    )
)]

mod backups;
mod content;
pub mod debug;
mod deleted;
mod error;
mod fast;
mod image;
mod inodes;
mod log_blocks;
mod map;
mod memory;
mod owners;
mod rescue;
mod ring;
mod visit;

pub use content::{Content, Remains, TakePart};
pub use deleted::{Deleted, deleted};
pub use error::{Error, Result};
pub use fast::{FastCommits, fast_commits};
pub use image::Image;
pub use memory::Memory;
pub use owners::{Owner, Owners};
pub use rescue::{Kind, Rescue, Rescued};
pub use ring::{Commit, Ring, Transaction, TransactionState};
pub use visit::{Entry, ImageState, Logged};
