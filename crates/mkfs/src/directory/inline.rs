//! Directories in inodes (feature `inline_data`).
//!
//! Layout: the number of the parent and a first area of names in `i_block`, a second area in the
//! attribute `system.data`. Each name goes to the first area in which it fits.

use uext4_format::dirent::{DirLeaf, LeafTail, NewEntry};
use uext4_format::inline_data::{PARENT_BYTES, ROOT_AREA_BYTES, ROOT_BYTES, init_directory};
use uext4_format::{DamageLocation, InodeNr};
use uext4_num::u64_of;

use crate::directory::{Item, Owner};

/// A directory with these names as an inode of up to `max` bytes holds it: `i_block`, then the
/// value of `system.data`. `None` if it needs blocks. The root always does: the kernel mounts it
/// only so.
pub fn inline(owner: Owner, items: &[Item<'_>], max: u64) -> Option<Vec<u8>> {
    if owner.blocks_min > 1 || owner.inode == InodeNr::ROOT {
        return None;
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let (mut in_first, mut in_second) = (0, 0);
    for entry in items.iter().map(Item::entry) {
        let bytes = entry.space_needed();
        if in_first + bytes <= ROOT_AREA_BYTES {
            in_first += bytes;
            first.push(entry);
        } else {
            in_second += bytes;
            second.push(entry);
        }
        if u64_of(ROOT_BYTES + in_second) > max {
            return None;
        }
    }
    let mut root = [0; ROOT_BYTES];
    init_directory(&mut root, owner.parent);
    pack(&mut root[PARENT_BYTES..], &first, owner);
    let mut bytes = root.to_vec();
    bytes.resize(ROOT_BYTES + in_second, 0);
    pack(&mut bytes[ROOT_BYTES..], &second, owner);
    Some(bytes)
}

fn pack(area: &mut [u8], entries: &[NewEntry<'_>], owner: Owner) {
    if entries.is_empty() {
        return;
    }
    let mut leaf = DirLeaf::new(area, LeafTail::None, DamageLocation::Inode(owner.inode));
    leaf.pack(entries.iter().copied())
        .expect("the entries were measured");
}
