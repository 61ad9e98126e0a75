//! Images against e2fsck, debugfs and the kernel, from directories of the host and from entries.

mod devices;
mod diff_friendly;
mod hostile;
mod inline;
mod large_values;
mod layers;
mod memory;
mod minimum;
mod sizes;
mod stacks;
mod support;
mod tables;
mod trees;
