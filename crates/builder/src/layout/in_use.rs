//! What the tree uses of the file system: inodes, and blocks without those of replaced files.

use uext4_format::{BlockNr, Geometry};
use uext4_mkfs::Contents;

use crate::layout::bump::cluster_end;
use crate::tree::arena::Tree;
use crate::tree::file::DataLocation;
use crate::tree::ids::FileId;
use crate::tree::order::LOST_FOUND;

/// The inodes of files in the order of their numbers.
pub(crate) fn contents(tree: &Tree, files: &[(FileId, BlockNr)]) -> Contents {
    let mut contents = Contents::default();
    for (id, _) in files {
        let file = tree.file(*id);
        if file.is_directory() {
            contents.directories.push(file.ino);
        }
        match contents.inodes.last_mut() {
            _ if file.ino < LOST_FOUND => {}
            Some(run) if run.end == file.ino.0 => run.end += 1,
            _ => contents.inodes.push(file.ino.0..file.ino.0 + 1),
        }
    }
    contents
}

/// The clusters of files that later entries of their layer replaced.
pub(crate) fn replaced(tree: &Tree, geometry: &Geometry) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    for file in tree.files.iter().filter(|file| file.links == 0) {
        let one = match file.location {
            DataLocation::One(run) => Some(run),
            _ => None,
        };
        for run in tree.runs_of(file).iter().copied().chain(one) {
            let start = run.start.0;
            let end = cluster_end(geometry, start + u64::from(run.blocks));
            runs.push((start, end));
        }
    }
    runs
}
