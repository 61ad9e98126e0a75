//! Contents in inodes (feature `inline_data`): small files and small directories.
//!
//! Layout: 60 bytes in `i_block`, the rest in the attribute `system.data` in the inode, which is
//! there even when it is empty. A directory has the number of its parent and a first area of names
//! in `i_block`, and a second area behind. Other attributes come first: what they leave of the
//! inode is for contents.
//!
//! Invariants: whether a file is inline follows from its attributes and its size alone, so that
//! holes of the source do not matter. Values of attributes are never inline; nor is the root,
//! which the kernel mounts only with blocks, nor the new lost+found, whose blocks a checker needs,
//! nor the target of a link: the kernel makes none, and e2fsck 1.47 does not count its inode for
//! quotas, nor the block of its attributes.

use std::borrow::Cow;

use uext4_format::dirent::{DirLeaf, LeafTail, NewEntry};
use uext4_format::inline_data::init_directory;
use uext4_format::inline_data::{PARENT_BYTES, ROOT_AREA_BYTES, ROOT_BYTES, split_file};
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody, encode_ibody};
use uext4_format::{DamageLocation, Inode, InodeFlags, InodeNr};
use uext4_num::{u64_of, usize_of};

use crate::metadata::directory_blocks::{Item, Owner};
use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, File};

/// A directory with these names as an inode of up to `max` bytes holds it; `None` if it needs
/// blocks. Each name goes to the first area in which it fits.
pub(crate) fn directory(owner: Owner, items: &[Item<'_>], max: u64) -> Option<Vec<u8>> {
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

/// Puts the bytes of a file into its inode.
pub(crate) fn fill(tree: &Tree, file: &File, inode: &mut Inode) {
    let bytes: Cow<'_, [u8]> = match file.location {
        DataLocation::Kept(at) => tree.kept(at, file.size).into(),
        _ => vec![0; usize_of(uext4_num::clamp_u32(file.size))].into(),
    };
    let (i_block, value) = split_file(&bytes);
    let attributes = decode_ibody(&inode.tail, DamageLocation::Inode(file.ino));
    let mut attributes = attributes.expect("the builder encoded the attributes");
    attributes.set(XattrName::inline_data(), XattrValue::Here(value.to_vec()));
    encode_ibody(&mut inode.tail, &attributes).expect("the contents were measured");
    inode.i_block = i_block;
    inode.size = file.size;
    inode.flags.insert(InodeFlags::INLINE_DATA);
}
