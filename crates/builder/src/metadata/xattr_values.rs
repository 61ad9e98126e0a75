//! Values of extended attributes in inodes of their own (feature `ea_inode`).
//!
//! A value that does not fit into the attribute block of its file becomes a file without a name,
//! one for all attributes of this value. Blocks refer to values by their index until inodes are
//! numbered; then they are written again with inodes, and with hashes when their seed is known.
//!
//! Invariant: values are numbered in the order in which files of the image refer to them, so that
//! nothing depends on the order of entries. Zero blocks of values are no holes.

use std::collections::HashMap;
use std::convert::Infallible;

use uext4_format::xattr::{
    EaInodeFields, REFCOUNT_MAX, XattrValue, entry_hash_of_inode, value_hash,
};
use uext4_format::{FileType, InodeNr, Seed};
use uext4_num::{clamp_i64, clamp_u32, u64_of, usize_of};

use crate::content::batch::Batch;
use crate::content::chunks::{CHUNK_BYTES, chunk_len};
use crate::content::writer::ContentWriter;
use crate::error::Result;
use crate::layout::inode_numbers::InodeNumbers;
use crate::sources::entry::Attributes;
use crate::tree::arena::Tree;
use crate::tree::attributes::Interned;
use crate::tree::file::Origin;
use crate::tree::ids::FileId;
use crate::tree::keys::Key;
use crate::tree::order::Sorted;
use crate::tree::values::Used;

/// Gives files and numbers to the values of the image, and puts the numbers into the blocks.
pub(crate) fn number(
    tree: &mut Tree,
    sorted: &mut Sorted,
    numbers: &mut InodeNumbers,
    time: u64,
) -> Result<()> {
    if tree.attributes.values.all.is_empty() {
        return Ok(());
    }
    let mut files: HashMap<u32, usize> = HashMap::new();
    for (block, users) in users(tree, sorted) {
        for value in tree.attributes.values_of(block) {
            let at = match files.get(&value) {
                Some(at) => *at,
                None => {
                    sorted.order.push(add_file(tree, value, numbers, time)?);
                    let at = tree.attributes.values.used.len() - 1;
                    files.insert(value, at);
                    at
                }
            };
            let cluster_bytes = tree.attributes.cluster_bytes();
            let values = &mut tree.attributes.values;
            values.used[at].fields.refcount += u64::from(users.div_ceil(REFCOUNT_MAX));
            let clusters = values.all[usize_of(value)].len().div_ceil(cluster_bytes);
            *values.clusters.entry(block).or_default() += u64_of(clusters);
        }
    }
    let of: HashMap<u32, InodeNr> = files
        .iter()
        .map(|(value, at)| {
            let file = tree.attributes.values.used[*at].file;
            (*value, tree.file(file).ino)
        })
        .collect();
    tree.attributes.rewrite(|entry| {
        if let XattrValue::Inode { inode, .. } = &mut entry.value {
            *inode = of.get(&(inode.0 - 1)).copied().unwrap_or(*inode);
        }
    });
    Ok(())
}

/// Adds the file of a value, which nothing refers to yet.
fn add_file(tree: &mut Tree, value: u32, numbers: &mut InodeNumbers, time: u64) -> Result<FileId> {
    let attributes = Attributes {
        permissions: 0o600,
        ..Attributes::default()
    };
    let attributes = tree.attributes.intern(b"", &attributes)?;
    let file = tree.new_file(FileType::Regular, Origin::Value, attributes)?;
    let bytes = tree.attributes.values.all[usize_of(value)].clone();
    tree.keys.set(file, || Key::ROOT.child(&bytes));
    let key = tree.keys.get(file);
    let new = tree.file_mut(file);
    new.ino = numbers.take(key)?;
    (new.links, new.size, new.seconds) = (1, u64_of(bytes.len()), clamp_i64(time));
    let fields = EaInodeFields {
        refcount: 0,
        hash: 0,
    };
    let used = Used {
        value,
        file,
        fields,
    };
    tree.attributes.values.used.push(used);
    Ok(file)
}

/// The attribute blocks of the image in the order of their first users, and the users of each.
fn users(tree: &Tree, sorted: &Sorted) -> Vec<(u32, u32)> {
    let mut counts: Vec<(u32, u32)> = Vec::new();
    let mut index: HashMap<u32, usize> = HashMap::new();
    for id in &sorted.order {
        let Some(block) = tree.attributes.get(tree.file(*id).attributes).block else {
            continue;
        };
        let at = *index.entry(block).or_insert(counts.len());
        if at == counts.len() {
            counts.push((block, 0));
        }
        counts[at].1 += 1;
    }
    counts
}

/// Writes the values of the image, whose zero blocks are no holes.
pub(crate) fn write(tree: &mut Tree, writer: &mut ContentWriter) -> Result<()> {
    let block_size = writer.block_size();
    let mut batch = Batch::default();
    for at in 0..tree.attributes.values.used.len() {
        let values = &tree.attributes.values;
        let used = &values.used[at];
        let (file, bytes) = (used.file, values.all[usize_of(used.value)].clone());
        let size = u64_of(bytes.len());
        for offset in (0..size).step_by(usize_of(clamp_u32(CHUNK_BYTES))) {
            let chunk = (offset, chunk_len(offset, size));
            let whole = 0..size;
            let filled = batch.fill::<Infallible>(chunk, block_size, &[whole], |from, part| {
                let from = uext4_num::clamp_usize(from);
                part.copy_from_slice(&bytes[from..from + part.len()]);
                Ok(())
            });
            let Ok(range) = filled;
            let blocks = clamp_u32(u64_of(range.len()).div_ceil(block_size.into()));
            batch.complete(file, offset, range, block_size, false);
            if let Some(part) = batch.parts.last_mut() {
                part.data = std::iter::once(0..blocks).collect();
            }
            if batch.is_full() {
                writer.write_batch(tree, std::mem::take(&mut batch))?;
            }
        }
    }
    writer.write_batch(tree, batch)
}

/// Puts the hashes into inodes and blocks; `seed` is the file system's.
pub(crate) fn seal(tree: &mut Tree, seed: Seed) {
    let mut hashes = HashMap::new();
    let attributes: &mut Interned = &mut tree.attributes;
    let values = &mut attributes.values;
    for used in &mut values.used {
        used.fields.hash = value_hash(seed, &values.all[usize_of(used.value)]);
        hashes.insert(tree.files[usize_of(used.file.0)].ino, used.fields.hash);
    }
    attributes.rewrite(|entry| {
        if let XattrValue::Inode {
            inode, entry_hash, ..
        } = &mut entry.value
        {
            let hash = hashes.get(inode).copied().unwrap_or(0);
            *entry_hash = entry_hash_of_inode(&entry.name.rest, hash);
        }
    });
}
