//! The engines against a plain model, and the same properties with many threads.
mod disk;
mod events;
mod growth;
mod inodes;
mod model;
mod threads;
mod trees;
mod tunables;
