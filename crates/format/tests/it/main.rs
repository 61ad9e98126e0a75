//! Checks against images that mke2fs made.

mod images;
mod trees;
