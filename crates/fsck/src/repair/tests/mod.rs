//! Damage of images in memory, and what a repair makes of it: the check finds nothing, and the
//! files that were not damaged are the same.

mod ahead;
mod attributes;
mod connection;
mod decisions;
mod directories;
mod image;
mod inodes;
mod maps;
mod optimise;
mod own;
mod places;
mod policies;
mod quota;
mod random;
mod space;
mod threads;
mod tree;
mod unshare;
