//! Block device attributes in `/sys`; empty where it cannot be read.
//!
//! References: kernel documentation, `ABI/stable/sysfs-block`.

use super::storage::DeviceNr;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of a block device.
fn dir(device: DeviceNr) -> PathBuf {
    format!("/sys/dev/block/{}:{}", device.major, device.minor).into()
}

/// The number in the directory of a block device.
pub(super) fn number(dir: &Path) -> Option<DeviceNr> {
    DeviceNr::parse(&fs::read_to_string(dir.join("dev")).ok()?)
}

/// Path of its node in `/dev`.
pub(super) fn node(device: DeviceNr) -> PathBuf {
    let dir = fs::canonicalize(dir(device)).unwrap_or_default();
    let name = dir.file_name().unwrap_or_default();
    Path::new("/dev").join(name.to_string_lossy().replace('!', "/"))
}

/// The disk that has `device` as a partition; `None` if it is no partition.
pub(super) fn disk(device: DeviceNr) -> Option<DeviceNr> {
    let dir = fs::canonicalize(dir(device)).ok()?;
    let is_partition = dir.join("partition").exists();
    number(dir.parent().filter(|_| is_partition)?)
}

/// The partitions of the disk `device`.
pub(super) fn partitions(device: DeviceNr) -> Vec<DeviceNr> {
    let parts = entries(&dir(device)).into_iter();
    parts
        .filter(|dir| dir.join("partition").exists())
        .filter_map(|dir| number(&dir))
        .collect()
}

/// Names of the block devices stacked on it.
pub(super) fn holders(device: DeviceNr) -> Vec<String> {
    let holders = entries(&dir(device).join("holders"));
    holders
        .iter()
        .filter_map(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()))
        .collect()
}

/// The block devices below it.
pub(super) fn slaves(device: DeviceNr) -> Vec<DeviceNr> {
    let slaves = entries(&dir(device).join("slaves")).into_iter();
    slaves.filter_map(|dir| number(&dir)).collect()
}

/// Paths of a directory's entries; none if it cannot be read.
pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}
