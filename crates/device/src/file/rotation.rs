//! Detects whether a file lies on a rotating disk.
//!
//! References: kernel documentation, `ABI/stable/sysfs-block` (`queue/rotational`).

use rustix::fs::{FileType, major, minor};
use std::fs::File;

/// True if the kernel reports so. False for files on no disk, and where nothing is reported.
pub(super) fn is_on_rotating_disk(file: &File) -> bool {
    let Ok(stat) = rustix::fs::fstat(file) else {
        return false;
    };
    let device = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => stat.st_rdev,
        _ => stat.st_dev,
    };
    let disk = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // The queue of a partition is its disk's.
    let said = ["queue/rotational", "../queue/rotational"]
        .iter()
        .find_map(|place| std::fs::read_to_string(format!("{disk}/{place}")).ok());
    said.is_some_and(|said| said.trim() == "1")
}
