//! The engine as a whole, judged by e2fsck.

mod basic;
mod crashed;
mod damage;
mod beside_kernel;
mod full;
mod fast_commits;
mod faults;
mod image;
mod journals;
mod old_formats;
mod options;
mod races;
mod statfs;
mod threads;
mod worker;
