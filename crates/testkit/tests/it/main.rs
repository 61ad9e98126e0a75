//! Tests of the test kit against the real tools.
mod damage;
mod model;
mod oracles;
mod trees;
