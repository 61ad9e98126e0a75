//! What uses a feature: one that goes must have no users, and some parameters have some.

use crate::state::engine::Fs;
use crate::types::error::{Error, Result};
use uext4_format::{
    BlockNr, Feature, FileType, GroupDescriptor, GroupNr, Inode, InodeFlags, InodeNr,
};
use uext4_num::usize_of;

/// First size of a file that needs the feature `large_file`, in bytes.
const LARGE_BYTES: u64 = 1 << 31;

/// Refuses to turn a feature off that is in use.
///
/// # Errors
/// [`Error::NotSupported`] if so; damage.
pub(super) fn refuse(fs: &Fs, feature: Feature) -> Result<()> {
    let problem = match feature {
        Feature::DIR_INDEX if any_file(fs, has_index)? => {
            "dir_index off: a directory has an index, which would have to be rewritten; tune2fs -O \
             ^dir_index and then e2fsck -f do it"
        }
        Feature::LARGE_FILE if any_file(fs, is_large)? => {
            "large_file off: there is a file of 2 GiB or more, or an inode of the file system"
        }
        Feature::FLEX_BG if any_table_elsewhere(fs)? => {
            "flex_bg off: bitmaps or inode tables are outside of their groups"
        }
        _ => return Ok(()),
    };
    Err(Error::NotSupported(problem))
}

/// Whether an inode is a directory with an index.
pub(super) fn has_index(inode: &Inode) -> bool {
    inode.file_type() == Some(FileType::Directory) && inode.flags.contains(InodeFlags::INDEX)
}

fn is_large(inode: &Inode) -> bool {
    inode.file_type() == Some(FileType::Regular) && inode.size >= LARGE_BYTES
}

/// Whether any file or directory is such.
pub(super) fn any_file(fs: &Fs, is: fn(&Inode) -> bool) -> Result<bool> {
    for nr in fs.space.inodes_in_use(&fs.base) {
        let nr = nr?;
        if is_file(fs, nr) && is(&fs.load_inode(nr)?.read().disk) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an inode in use has contents. The journal and the resize inode may be large ones.
fn is_file(fs: &Fs, nr: InodeNr) -> bool {
    let has_journal = fs.base.superblock.read().disk.journal_inum == nr.0;
    match nr {
        InodeNr::ROOT => true,
        InodeNr::JOURNAL if has_journal => true,
        InodeNr::RESIZE => fs.base.features.has(Feature::RESIZE_INODE),
        _ => nr.0 >= fs.base.geometry.first_inode,
    }
}

/// Whether a group has a bitmap or its table in another one. These places never change during a
/// mount, so the descriptors on the device have them.
fn any_table_elsewhere(fs: &Fs) -> Result<bool> {
    let geometry = *fs.base.geometry;
    let mut read: Option<(BlockNr, Vec<u8>)> = None;
    for group in (0..geometry.group_count).map(GroupNr) {
        let (block, at) = geometry.descriptor_location(group);
        if read.as_ref().is_none_or(|(nr, _)| *nr != block) {
            let mut bytes = vec![0; fs.block_size()];
            fs.base
                .device
                .read_at(block.0 << geometry.block_bits, &mut bytes)?;
            read = Some((block, bytes));
        }
        let bytes = read.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        let raw = &bytes[usize_of(at)..][..usize::from(geometry.desc_size)];
        let found = GroupDescriptor::parse_unverified(raw);
        let start = geometry.group_first_block(group).0;
        let own = start..start + u64::from(geometry.blocks_in_group(group));
        let table = found.inode_table.0;
        let last = table + u64::from(geometry.inode_table_blocks()) - 1;
        let places = [found.block_bitmap.0, found.inode_bitmap.0, table, last];
        if places.iter().any(|place| !own.contains(place)) {
            return Ok(true);
        }
    }
    Ok(false)
}
