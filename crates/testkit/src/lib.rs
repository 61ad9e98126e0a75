//! Everything that tests and experiments need and the library must not know: oracles that are not
//! ours, realistic trees, a naive model, and ways to damage an image.
//!
//! Nothing here decides what is right by asking our own code. The oracles are e2fsprogs, the
//! kernel and a `BTreeMap`.
//!
//! - [`oracle`]: e2fsck, mke2fs, debugfs, dumpe2fs and a kernel mount that always lets go.
//! - [`tree`]: a realistic tree from a seed. [`manifest`]: all that can be seen of a tree.
//! - [`ops`]: random streams of operations. [`model`]: what they must do.
//! - [`served`]: a mount that a server process serves, as ours.
//! - [`inside`]: calls of the system in the name of a process that is locked in.
//! - [`damage`]: wrong fields and flipped bits, with good checksums too.
//!
//! Not here: benchmarks (crate `lab`), full-size runs (`xtask`).
#![forbid(unsafe_code)]

pub mod damage;
#[cfg(target_arch = "x86_64")]
pub mod inside;
pub mod manifest;
pub mod model;
pub mod ops;
pub mod oracle;
pub mod rings;
pub mod rng;
pub mod served;
pub mod tree;
