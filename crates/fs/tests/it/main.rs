//! The engine as a whole, judged by e2fsck.

mod basic;
mod damage;
mod full;
mod image;
mod options;
mod races;
mod statfs;
mod threads;
