//! The engines against a plain model, and many threads against the same promises.
mod disk;
mod events;
mod inodes;
mod model;
mod threads;
mod trees;
mod tunables;
