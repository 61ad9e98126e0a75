//! Attributes that many files share: mode, owner and extended attributes, each combination once.
//!
//! Extended attributes are kept as they are stored: first in the inode as far as they fit, then in
//! one block, from which large values may go to inodes of their own; names split, ACLs in the form
//! of the disk, sorted.

use std::collections::HashMap;
use std::sync::Arc;

use uext4_format::xattr::{
    Xattr as Stored, XattrName, XattrSet, XattrValue, block_capacity_bytes, decode_block,
    encode_block, encode_ibody, ibody_capacity_bytes,
};
use uext4_format::{BlockNr, DamageLocation};
use uext4_num::{clamp_u32, usize_of};

use crate::error::{Error, Result};
use crate::sources::entry::Attributes;
use crate::tree::ids::AttributesId;
use crate::tree::limits::{InlineData, LargeValues, Limits, max_inline_bytes};
use crate::tree::stored_xattrs::stored;
use crate::tree::values::Values;

/// Attributes in the inode, the index of those in a block, and the most bytes of inline data.
type Areas = (Vec<u8>, Option<u32>, Option<u64>);

/// A combination of attributes, as files have it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shared {
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The end of the inode; empty without attributes there.
    pub(crate) tail: Vec<u8>,
    /// The attribute block, by its index, for one user and without checksum.
    pub(crate) block: Option<u32>,
    /// Most bytes of a file in the inode beside the attributes there; `None`: no file is inline.
    pub(crate) inline_max: Option<u64>,
}

/// All combinations, each kept once.
pub(crate) struct Interned {
    limits: Limits,
    all: Vec<Arc<Shared>>,
    index: HashMap<Arc<Shared>, u32>,
    blocks: Vec<Arc<[u8]>>,
    block_index: HashMap<Arc<[u8]>, u32>,
    /// Large values to which the blocks refer.
    pub(crate) values: Values,
}

impl Interned {
    pub(crate) fn new(limits: Limits) -> Interned {
        Interned {
            limits,
            all: Vec::new(),
            index: HashMap::new(),
            blocks: Vec::new(),
            block_index: HashMap::new(),
            values: Values::default(),
        }
    }

    pub(crate) fn get(&self, id: AttributesId) -> &Shared {
        &self.all[usize_of(id.0)]
    }

    /// The blocks of all combinations.
    pub(crate) fn blocks(&self) -> &[Arc<[u8]>] {
        &self.blocks
    }

    /// The combination of a file at `path`, without its time.
    pub(crate) fn intern(&mut self, path: &[u8], given: &Attributes) -> Result<AttributesId> {
        let (tail, block, inline_max) = self.areas(path, given)?;
        let shared = Arc::new(Shared {
            permissions: given.permissions & 0o7777,
            uid: given.uid,
            gid: given.gid,
            tail,
            block,
            inline_max,
        });
        if let Some(at) = self.index.get(&shared) {
            return Ok(AttributesId(*at));
        }
        let at = clamp_u32(self.all.len());
        self.all.push(shared.clone());
        self.index.insert(shared, at);
        Ok(AttributesId(at))
    }

    /// The attributes in the inode, those in a block, and the bytes for inline data.
    fn areas(&mut self, path: &[u8], given: &Attributes) -> Result<Areas> {
        let mut inside = XattrSet::new();
        let mut outside = XattrSet::new();
        let room = ibody_capacity_bytes(self.limits.tail_bytes);
        for (name, value) in stored(path, given)? {
            let xattr = Stored {
                name,
                value: XattrValue::Here(value),
            };
            let fits = inside.area_bytes() + xattr.area_bytes() <= room;
            let set = if fits { &mut inside } else { &mut outside };
            set.set(xattr.name, xattr.value);
        }
        let inline_max = match self.limits.inline {
            InlineData::Used => max_inline_bytes(room - inside.area_bytes()),
            InlineData::Unused => None,
        };
        let mut tail = Vec::new();
        if !inside.is_empty() {
            tail.resize(self.limits.tail_bytes, 0);
            encode_ibody(&mut tail, &inside).expect("the attributes were measured");
        }
        if outside.is_empty() {
            return Ok((tail, None, inline_max));
        }
        let capacity = block_capacity_bytes(self.limits.block_bytes);
        while outside.area_bytes() > capacity && self.limits.large == LargeValues::Inodes {
            match largest(&outside) {
                Some((name, value)) => drop(outside.set(name, self.values.intern(value))),
                None => break,
            }
        }
        if outside.area_bytes() > capacity {
            let problem = format!(
                "its extended attributes take {} bytes and do not fit into the inode and one block",
                inside.area_bytes() + outside.area_bytes()
            );
            return Err(Error::refused(
                path,
                problem,
                "remove some, use larger blocks, or the feature ea_inode",
            ));
        }
        let mut bytes = vec![0; self.limits.block_bytes];
        encode_block(&mut bytes, &outside).expect("the attributes were measured");
        Ok((tail, Some(self.intern_block(bytes)), inline_max))
    }

    pub(crate) fn cluster_bytes(&self) -> usize {
        self.limits.cluster_bytes
    }

    /// The indices of the values of a block that have inodes, before these are numbered.
    pub(crate) fn values_of(&self, block: u32) -> Vec<u32> {
        let set = decoded(&self.blocks[usize_of(block)]);
        let inodes = set.iter().filter_map(|entry| match entry.value {
            XattrValue::Inode { inode, .. } => Some(inode.0 - 1),
            XattrValue::Here(_) => None,
        });
        inodes.collect()
    }

    /// Changes the entries of all blocks, none of which gets larger. No block is added afterwards.
    pub(crate) fn rewrite(&mut self, change: impl Fn(&mut Stored)) {
        for block in &mut self.blocks {
            let mut entries: Vec<Stored> = decoded(block).iter().cloned().collect();
            entries.iter_mut().for_each(&change);
            let mut bytes = vec![0; block.len()];
            let set: XattrSet = entries.into_iter().collect();
            encode_block(&mut bytes, &set).expect("the block had the same entries");
            *block = bytes.into();
        }
        self.block_index = HashMap::new();
    }

    fn intern_block(&mut self, bytes: Vec<u8>) -> u32 {
        if let Some(at) = self.block_index.get(&bytes[..]) {
            return *at;
        }
        let at = clamp_u32(self.blocks.len());
        let bytes: Arc<[u8]> = bytes.into();
        self.blocks.push(bytes.clone());
        self.block_index.insert(bytes, at);
        at
    }
}

fn decoded(block: &[u8]) -> XattrSet {
    decode_block(block, DamageLocation::Block(BlockNr(0))).expect("the builder encoded the block")
}

/// The largest value in an area, the first one of several; `None` if all have inodes.
fn largest(set: &XattrSet) -> Option<(XattrName, Vec<u8>)> {
    let mut largest: Option<(&XattrName, &Vec<u8>)> = None;
    for entry in set.iter() {
        if let XattrValue::Here(value) = &entry.value
            && value.len() > largest.map_or(0, |(_, value)| value.len())
        {
            largest = Some((&entry.name, value));
        }
    }
    largest.map(|(name, value)| (name.clone(), value.clone()))
}
