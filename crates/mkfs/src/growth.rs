//! Groups behind the end of a file system that exists, laid out as those of a new one.
//!
//! Only blocks of the new groups are written, which nothing refers to yet.
//! Not here: descriptors and copies of the superblock; the caller has those of the old groups too.

use uext4_device::BlockDevice;
use uext4_format::{Checksums, Geometry, GroupDescriptor, GroupNr};
use uext4_num::clamp_u32;

use crate::options::{DeviceContents, InodeTables};
use crate::space::Space;
use crate::write::{Policy, UsedInodes, Writer};
use crate::{Error, Placement, layout};

/// What [`add_groups`] has laid out.
#[derive(Clone, Debug)]
pub struct AddedGroups {
    /// The descriptors, from the first new group on.
    pub descriptors: Vec<GroupDescriptor>,
    /// Clusters in use in the new groups.
    pub used_clusters: u64,
}

/// Lays out the groups of `geometry` from `first` on: writes their bitmaps, and zeroes the inode
/// tables that would be read. `contents` is what the device holds behind the old end.
///
/// # Errors
/// [`Error::NoSpace`] if bitmaps and tables do not fit, with nothing written; [`Error::Device`].
pub fn add_groups(
    device: &dyn BlockDevice,
    geometry: Geometry,
    first: GroupNr,
    checksums: Checksums,
    contents: DeviceContents,
) -> Result<AddedGroups, Error> {
    let mut space = Space::behind(geometry, first);
    let mut descriptors = layout::allocate(&mut space, Placement::Spread, first)?;
    let writer = Writer {
        device,
        geometry,
        checksums,
        policy: Policy {
            contents,
            tables: InodeTables::Lazy,
        },
    };
    let used = UsedInodes::new(Vec::new(), Vec::new());
    let mut used_clusters = 0;
    for (at, descriptor) in descriptors.iter_mut().enumerate() {
        let group = GroupNr(first.0 + clamp_u32(at));
        writer.group(&space, group, descriptor, &used)?;
        used_clusters += u64::from(space.used_clusters(group));
    }
    Ok(AddedGroups {
        descriptors,
        used_clusters,
    })
}
