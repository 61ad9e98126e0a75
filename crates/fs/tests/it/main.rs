//! The engine as a whole, judged by e2fsck.

mod basic;
mod damage;
mod image;
mod races;
mod threads;
