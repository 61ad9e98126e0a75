//! The engine as a whole, judged by e2fsck.

mod basic;
mod image;
mod threads;
