//! The names of a directory in the order of their bytes, which no hash seed of the image changes.

use uext4::{Filesystem, InodeRef, Visit};

/// The names without `.` and `..`, each once, and the error that ended the listing. Before an error
/// come the names that were read.
pub(crate) fn names(fs: &Filesystem, dir: &InodeRef) -> (Vec<Vec<u8>>, Option<uext4::Error>) {
    let mut names = Vec::new();
    let listed = fs.read_dir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push(entry.name.to_vec());
        }
        Visit::Continue
    });
    names.sort_unstable();
    names.dedup();
    (names, listed.err())
}

/// Whether a file of a tree can have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let is_special = name.is_empty() || name == b"." || name == b"..";
    !is_special && !name.iter().any(|byte| b"/\0".contains(byte))
}
