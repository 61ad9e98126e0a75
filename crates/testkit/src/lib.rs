//! Test kit: independent oracles, realistic trees, a naive model, and ways to damage an image.
//!
//! Tests and experiments use it, the library does not. No part of it decides with our own code what
//! is right. The oracles are e2fsprogs, the kernel and a `BTreeMap`.
//!
//! - [`oracle`]: e2fsck, mke2fs, debugfs, dumpe2fs and a kernel mount that is always released.
//! - [`tree`]: a realistic tree from a seed. [`manifest`]: everything visible of a tree.
//! - [`ops`]: random streams of operations. [`model`]: their expected results.
//! - [`layers`]: random stacks of layers of an OCI image, and their merged tree.
//! - [`served`]: a mount with a server process, as ours.
//! - [`inside`]: system calls issued from inside a sandboxed process.
//! - [`wait`]: polling of a state with a deadline.
//! - [`damage`]: wrong fields and flipped bits, also with valid checksums.
//!
//! Not here: benchmarks (crate `lab`), full-size runs (`xtask`).
#![forbid(unsafe_code)]

pub mod damage;
#[cfg(target_arch = "x86_64")]
pub mod inside;
pub mod layers;
pub mod manifest;
pub mod model;
pub mod ops;
pub mod oracle;
pub mod rings;
pub mod rng;
pub mod served;
pub mod skip;
pub mod tree;
pub mod wait;
