//! The identity of an image: a keyed hash of everything that it shows and of the places of
//! contents, or of its options only.
//!
//! UUID and hash seed follow from it, so equal trees make equal images, and images that differ have
//! different UUIDs: contents of streams are in the order of their entries.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use uext4_format::{Checksums, Geometry, Seed, Superblock};
use uext4_num::u64_of;

use crate::error::Result;
use crate::image::Image;
use crate::tree::arena::Tree;
use crate::tree::file::{DataLocation, File};
use crate::tree::ids::FileId;
use crate::tree::order::Sorted;

/// What follows from the tree where the options do not say it.
pub(crate) struct Identity {
    pub(crate) uuid: [u8; 16],
    pub(crate) hash_seed: [u8; 16],
    /// Time of creation, in seconds since 1970.
    pub(crate) time: u64,
    /// Sizes, with the largest possible or the given number of blocks.
    pub(crate) geometry: Geometry,
    pub(crate) checksums: Checksums,
}

impl Identity {
    /// That of the options, and of the tree where they leave it open. The numbers of the image get
    /// it as well.
    pub(crate) fn new(
        image: &mut Image,
        tree: &Tree,
        sorted: &Sorted,
        time: u64,
    ) -> Result<Identity> {
        let options = &image.options.format;
        let (uuid, hash_seed) = match (options.uuid, options.hash_seed) {
            (Some(uuid), Some(hash_seed)) => (uuid, hash_seed),
            (uuid, hash_seed) => {
                let own = of_tree(tree, sorted);
                (uuid.unwrap_or(own.0), hash_seed.unwrap_or(own.1))
            }
        };
        image.plan.identify(options, uuid, hash_seed, time)?;
        let superblock = &image.plan.superblock;
        Ok(Identity {
            uuid,
            hash_seed,
            time,
            geometry: superblock.geometry().map_err(uext4_mkfs::Error::from)?,
            checksums: superblock.checksums(),
        })
    }

    /// The seed of a file's checksums.
    pub(crate) fn seed(&self, file: &File) -> Option<Seed> {
        self.checksums.inode_seed(file.ino, 0)
    }
}

/// UUID and hash seed of the tree.
fn of_tree(tree: &Tree, sorted: &Sorted) -> ([u8; 16], [u8; 16]) {
    (own_rules(hash(tree, sorted, 1)), hash(tree, sorted, 2))
}

/// UUID and hash seed of all images with these numbers and this label.
pub(crate) fn of_options(numbers: &Superblock, label: &[u8]) -> ([u8; 16], [u8; 16]) {
    let of = |key: u64| {
        let mut hasher = SipHasher24::new_with_keys(0x6469_6666, key);
        hasher.write_u64(numbers.blocks_count);
        for number in [
            numbers.inodes_count,
            numbers.blocks_per_group,
            numbers.log_block_size,
            numbers.inode_size.into(),
        ] {
            hasher.write_u32(number);
        }
        let features = numbers.features();
        for bits in [features.compat, features.ro_compat, features.incompat] {
            hasher.write_u32(bits);
        }
        add_bytes(&mut hasher, label);
        hasher.finish128().as_bytes()
    };
    (own_rules(of(1)), of(2))
}

/// A UUID of version 8: made by the program's own rules.
fn own_rules(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}

fn hash(tree: &Tree, sorted: &Sorted, key: u64) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_keys(0x7565_7874, key);
    for id in &sorted.order {
        add_file(&mut hasher, tree, sorted, *id);
    }
    hasher.finish128().as_bytes()
}

fn add_file(hasher: &mut SipHasher24, tree: &Tree, sorted: &Sorted, id: FileId) {
    let file: &File = tree.file(id);
    let shared = tree.attributes.get(file.attributes);
    hasher.write_u32(file.ino.0);
    hasher.write_u16(file.kind.mode_bits() | shared.permissions);
    hasher.write_u32(shared.uid);
    hasher.write_u32(shared.gid);
    hasher.write_i64(file.seconds);
    hasher.write_u32(file.nanoseconds);
    hasher.write_u64(file.size);
    hasher.write_u64(file.digest);
    add_bytes(hasher, &shared.tail);
    let block = shared
        .block
        .map(|at| &tree.attributes.blocks()[uext4_num::usize_of(at)]);
    add_bytes(hasher, block.map_or(&[][..], |bytes| bytes));
    if let DataLocation::Kept(at) = file.location {
        add_bytes(hasher, tree.kept(at, file.size));
    }
    let one = match &file.location {
        DataLocation::One(run) => std::slice::from_ref(run),
        _ => tree.runs_of(file),
    };
    for run in one {
        hasher.write_u32(run.logical);
        hasher.write_u32(run.blocks);
        hasher.write_u64(run.start.0);
    }
    let children = sorted.children(file.location);
    hasher.write_u64(u64_of(children.len()));
    for name in children {
        add_bytes(hasher, tree.names.bytes(*name));
        hasher.write_u32(tree.file(tree.names.get(*name).file).ino.0);
    }
}

fn add_bytes(hasher: &mut SipHasher24, bytes: &[u8]) {
    hasher.write_u64(u64_of(bytes.len()));
    hasher.write(bytes);
}
