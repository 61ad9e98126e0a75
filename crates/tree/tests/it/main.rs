//! Trees go into a file system and come back as they were.

mod archive;
#[path = "../../examples/copy_tree.rs"]
#[allow(dead_code, reason = "its main function")]
mod copy_tree;
mod damage;
mod deep;
mod events;
mod example;
mod policies;
mod replace;
mod rig;
mod round_trip;
