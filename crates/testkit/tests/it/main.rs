//! The test kit against the real tools.
mod oracles;
mod trees;
