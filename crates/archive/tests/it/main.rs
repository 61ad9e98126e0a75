//! Sources as a sink sees them, judged by the trees from which GNU tar, bsdtar, skopeo and umoci
//! made them, and by tables of made-up archives.

mod acceptance;
mod dialects;
mod hostile;
mod hostile_builds;
mod images;
mod linked_trees;
mod made;
mod mutations;
mod programs;
mod recorder;
