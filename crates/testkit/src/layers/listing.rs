//! Listings of an image and of a directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Seen, join};
use crate::oracle::{self, debugfs};

/// All paths of an image, with one call of debugfs for each level, without `lost+found`.
///
/// # Panics
/// debugfs fails, or prints a line of another form.
pub fn listing(image: &Path) -> Seen {
    let mut seen = Seen::new();
    let mut level = vec![String::new()];
    while !level.is_empty() {
        let mut next = Vec::new();
        let commands: Vec<String> = level
            .iter()
            .map(|directory| format!("ls -p \"/{directory}\""))
            .collect();
        let text = debugfs(image, oracle::Access::Read, &commands).expect("debugfs");
        let mut directories = level.iter();
        let mut directory = "";
        for line in text.lines() {
            if line.starts_with("debugfs: ls") {
                directory = directories.next().expect("a directory");
            }
            let fields: Vec<&str> = line.split('/').collect();
            let [_, ino, mode, _, _, name, size, ..] = fields[..] else {
                continue;
            };
            if !line.starts_with('/') || matches!(name, "." | ".." | "lost+found") {
                continue;
            }
            let mode = u32::from_str_radix(mode, 8).expect("a mode");
            let path = join(directory, name);
            let is_directory = mode >> 12 == 4;
            if is_directory {
                next.push(path.clone());
            }
            let size = if is_directory {
                0
            } else {
                size.parse().expect("a size")
            };
            seen.insert(path, (mode, size, ino.to_owned()));
        }
        level = next;
    }
    with_first_paths(seen)
}

/// All paths below a directory of this machine.
///
/// # Panics
/// It cannot be read, or has a name that is not UTF-8.
pub fn listing_of_dir(root: &Path) -> Seen {
    let mut seen = Seen::new();
    let mut left = vec![String::new()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(root.join(&directory)).expect("a directory") {
            let entry = entry.expect("a name");
            let path = join(&directory, entry.file_name().to_str().expect("UTF-8"));
            let stat = entry.metadata().expect("its attributes");
            let mut size = stat.size();
            if stat.is_dir() {
                left.push(path.clone());
                size = 0;
            }
            seen.insert(path, (stat.mode(), size, stat.ino().to_string()));
        }
    }
    with_first_paths(seen)
}

/// With the first path of each file instead of its inode number.
fn with_first_paths(mut seen: Seen) -> Seen {
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for (path, (_, _, same)) in &mut seen {
        *same = first.entry(same.clone()).or_insert(path.clone()).clone();
    }
    seen
}
