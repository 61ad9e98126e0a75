//! The test kit against the real tools.
mod model;
mod oracles;
mod trees;
