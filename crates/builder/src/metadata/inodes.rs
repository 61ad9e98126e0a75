//! Inodes of the tree's files.

use uext4_format::{
    BlockNr, DeviceNumber, FileType, Geometry, Inode, InodeFlags, KNOWN_EXTRA_BYTES, Seed,
};
use uext4_mkfs::extent_tree;
use uext4_num::{clamp_u16, high_u32, low_u32};

use crate::error::{Error, Result};
use crate::layout::identity::Identity;
use crate::metadata::extent_maps::{DeepMaps, extents};
use crate::metadata::inline;
use crate::tree::arena::Tree;
use crate::tree::file::DataLocation;
use crate::tree::ids::FileId;
use crate::tree::lookup::path_of;

/// Most links of a directory that are counted; more count as 1.
const DIRECTORY_LINKS_MAX: u32 = 65_000;

/// The inode of a file; `attribute_block` is 0 for none.
pub(crate) fn inode(
    tree: &Tree,
    id: FileId,
    identity: &Identity,
    deep: &DeepMaps,
    attribute_block: BlockNr,
) -> Result<Inode> {
    let file = tree.file(id);
    let geometry = &identity.geometry;
    let shared = tree.attributes.get(file.attributes);
    let mut inode = Inode::new(geometry, KNOWN_EXTRA_BYTES);
    inode.mode = file.kind.mode_bits() | shared.permissions;
    (inode.uid, inode.gid) = (shared.uid, shared.gid);
    inode.links = match file.links {
        links if file.is_directory() && links > DIRECTORY_LINKS_MAX => 1,
        links => clamp_u16(links),
    };
    let time = file.mtime().as_stored(inode.times_have_extra());
    (inode.atime, inode.mtime, inode.ctime) = (time, time, time);
    if inode.extra_isize > 0 {
        inode.crtime = time;
    }
    if !shared.tail.is_empty() {
        inode.tail = shared.tail[..].into();
    }
    inode.file_acl = attribute_block;
    let clusters = fill_map(tree, id, &mut inode, geometry, deep)
        + u64::from(attribute_block.0 != 0)
        + tree.attributes.values.clusters(shared.block);
    let sectors = clusters * (geometry.cluster_size() >> 9);
    inode.set_sectors(sectors, geometry).map_err(|_| {
        let problem = "the file has more blocks than an inode can count";
        Error::refused(&path_of(tree, id), problem, "use the feature huge_file")
    })?;
    tree.attributes.values.mark(id, &mut inode);
    Ok(inode)
}

/// Sets size, flags and map; returns the clusters of contents and map.
fn fill_map(
    tree: &Tree,
    id: FileId,
    inode: &mut Inode,
    geometry: &Geometry,
    deep: &DeepMaps,
) -> u64 {
    let file = tree.file(id);
    match (file.kind, file.location) {
        (FileType::CharDevice | FileType::BlockDevice, _) => {
            inode.set_device_number(DeviceNumber {
                major: high_u32(file.size),
                minor: low_u32(file.size),
            });
            return 0;
        }
        (FileType::Fifo | FileType::Socket, _) => return 0,
        _ if tree.is_inline(id) => {
            inline::fill(tree, file, inode);
            return 0;
        }
        (_, DataLocation::Kept(at)) => {
            let target = tree.kept(at, file.size);
            let (start, _) = inode.i_block.split_at_mut(target.len());
            start.copy_from_slice(target);
            inode.size = file.size;
            return 0;
        }
        _ => {}
    }
    inode.size = file.size;
    inode.flags.insert(InodeFlags::EXTENTS);
    if file.is_indexed() {
        inode.flags.insert(InodeFlags::INDEX);
    }
    let extents = extents(tree, file);
    let clusters = extents.iter();
    let clusters: u64 = clusters
        .map(|extent| geometry.blocks_to_clusters(extent.len.into()))
        .sum();
    if let Some((root, nodes)) = deep.roots.get(&id.0) {
        inode.i_block = *root;
        return clusters + nodes;
    }
    let map = extent_tree(&extents, 1024, None::<Seed>, &mut || Err(()));
    inode.i_block = map.expect("four extents need no node").i_block;
    clusters
}
