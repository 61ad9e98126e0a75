//! Contents in inodes (feature `inline_data`): small files and small directories.
//!
//! Layout: 60 bytes in `i_block`, the rest in the attribute `system.data` in the inode, which is
//! there even when it is empty. Other attributes come first: what they leave of the inode is for
//! contents. `uext4_mkfs::directory` makes those of directories.
//!
//! Invariants: whether a file is inline follows from its attributes and its size alone, so that
//! holes of the source do not matter. Values of attributes are never inline; nor is the root,
//! which the kernel mounts only with blocks, nor the new lost+found, whose blocks a checker needs,
//! nor the target of a link: the kernel makes none, and e2fsck 1.47 does not count its inode for
//! quotas, nor the block of its attributes.

use std::borrow::Cow;

use uext4_format::inline_data::split_file;
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody, encode_ibody};
use uext4_format::{DamageLocation, Inode, InodeFlags};
use uext4_num::usize_of;

use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, File};

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
