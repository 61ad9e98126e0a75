//! Other names of the bytes of a file or block device: a walk up and down the block layer.

use super::loops::{self, Loop};
use super::storage::{DeviceNr, Storage};
use super::sysfs;
use std::path::PathBuf;

/// Relation of a place to its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// A loop device over it.
    Above,
    /// The storage below a loop device.
    Below,
    /// The disk of a partition, or a device that device mapper or RAID has claimed: the kernel
    /// itself keeps others out.
    Part,
}

/// A file or block device with the same bytes.
#[derive(Clone, Debug)]
pub(super) struct Alias {
    pub(super) storage: Storage,
    pub(super) path: PathBuf,
    pub(super) relation: Relation,
}

/// All other names of `start`, without `start`.
pub(super) fn around(start: Storage) -> Vec<Alias> {
    let loops = loops::attached();
    let mut found: Vec<Alias> = Vec::new();
    let mut todo = vec![start];
    while let Some(here) = todo.pop() {
        for place in neighbours(here, &loops) {
            if place.storage != start && !found.iter().any(|other| other.storage == place.storage) {
                todo.push(place.storage);
                found.push(place);
            }
        }
    }
    found
}

fn neighbours(here: Storage, loops: &[Loop]) -> Vec<Alias> {
    let over = loops.iter().filter(|device| device.below == Some(here));
    let mut places: Vec<Alias> = over.map(above).collect();
    if let Storage::Block(device) = here {
        let itself = loops.iter().find(|entry| entry.device == device);
        places.extend(itself.and_then(below));
        let parts = sysfs::slaves(device).into_iter().chain(sysfs::disk(device));
        places.extend(parts.map(part));
    }
    places
}

fn above(device: &Loop) -> Alias {
    Alias {
        storage: Storage::Block(device.device),
        path: device.node.clone(),
        relation: Relation::Above,
    }
}

fn below(device: &Loop) -> Option<Alias> {
    Some(Alias {
        storage: device.below?,
        path: device.below_path.clone(),
        relation: Relation::Below,
    })
}

fn part(device: DeviceNr) -> Alias {
    Alias {
        storage: Storage::Block(device),
        path: sysfs::node(device),
        relation: Relation::Part,
    }
}
