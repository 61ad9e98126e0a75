//! Attributes that many files share: mode, owner and extended attributes, each combination once.
//!
//! Extended attributes are kept as they are stored: first in the inode as far as they fit, then in
//! one block; names split, ACLs in the form of the disk, sorted.

use std::collections::HashMap;
use std::rc::Rc;

use uext4_format::acl::Acl;
use uext4_format::xattr::{
    NameIndex, VALUE_MAX_BYTES, Xattr as Stored, XattrName, XattrSet, XattrValue,
    block_capacity_bytes, encode_block, encode_ibody, ibody_capacity_bytes,
};
use uext4_num::{clamp_u32, usize_of};

use crate::{Attributes, Error, Result};

/// A combination, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttributesId(pub(crate) u32);

/// Space for extended attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of an inode after its fields.
    pub(crate) tail_bytes: usize,
    /// Bytes of a block.
    pub(crate) block_bytes: usize,
}

/// A combination.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shared {
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The end of the inode; empty without attributes there.
    pub(crate) tail: Vec<u8>,
    /// The attribute block, by its index, for one user and without checksum.
    pub(crate) block: Option<u32>,
}

/// All combinations.
pub(crate) struct Interned {
    limits: Limits,
    all: Vec<Rc<Shared>>,
    index: HashMap<Rc<Shared>, u32>,
    blocks: Vec<Rc<[u8]>>,
    block_index: HashMap<Rc<[u8]>, u32>,
}

impl Interned {
    pub(crate) fn new(limits: Limits) -> Interned {
        Interned {
            limits,
            all: Vec::new(),
            index: HashMap::new(),
            blocks: Vec::new(),
            block_index: HashMap::new(),
        }
    }

    pub(crate) fn get(&self, id: AttributesId) -> &Shared {
        &self.all[usize_of(id.0)]
    }

    /// The blocks of all combinations.
    pub(crate) fn blocks(&self) -> &[Rc<[u8]>] {
        &self.blocks
    }

    /// The combination of a file at `path`, without its time.
    pub(crate) fn intern(&mut self, path: &[u8], given: &Attributes) -> Result<AttributesId> {
        let (tail, block) = self.areas(path, given)?;
        let shared = Rc::new(Shared {
            permissions: given.permissions & 0o7777,
            uid: given.uid,
            gid: given.gid,
            tail,
            block,
        });
        if let Some(at) = self.index.get(&shared) {
            return Ok(AttributesId(*at));
        }
        let at = clamp_u32(self.all.len());
        self.all.push(shared.clone());
        self.index.insert(shared, at);
        Ok(AttributesId(at))
    }

    /// The attributes in the inode, and those in a block.
    fn areas(&mut self, path: &[u8], given: &Attributes) -> Result<(Vec<u8>, Option<u32>)> {
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
        let mut tail = Vec::new();
        if !inside.is_empty() {
            tail.resize(self.limits.tail_bytes, 0);
            encode_ibody(&mut tail, &inside).expect("the attributes were measured");
        }
        if outside.is_empty() {
            return Ok((tail, None));
        }
        if outside.area_bytes() > block_capacity_bytes(self.limits.block_bytes) {
            let problem = format!(
                "its extended attributes take {} bytes and do not fit into the inode and one block",
                inside.area_bytes() + outside.area_bytes()
            );
            return Err(Error::refused(
                path,
                problem,
                "remove some, or use larger blocks",
            ));
        }
        let mut bytes = vec![0; self.limits.block_bytes];
        encode_block(&mut bytes, &outside).expect("the attributes were measured");
        Ok((tail, Some(self.intern_block(bytes))))
    }

    fn intern_block(&mut self, bytes: Vec<u8>) -> u32 {
        if let Some(at) = self.block_index.get(&bytes[..]) {
            return *at;
        }
        let at = clamp_u32(self.blocks.len());
        let bytes: Rc<[u8]> = bytes.into();
        self.blocks.push(bytes.clone());
        self.block_index.insert(bytes, at);
        at
    }
}

/// Extended attributes as they are stored, sorted.
fn stored(path: &[u8], given: &Attributes) -> Result<Vec<(XattrName, Vec<u8>)>> {
    let mut found = Vec::with_capacity(given.xattrs.len());
    for xattr in &given.xattrs {
        let refuse = |problem: &str| {
            let problem = format!("the attribute {} {problem}", xattr.name.escape_ascii());
            Err(Error::refused(path, problem, "remove the attribute"))
        };
        let Some(name) = XattrName::from_full(&xattr.name) else {
            return refuse("has no name that ext4 can store");
        };
        if xattr.value.len() > VALUE_MAX_BYTES {
            return refuse("is longer than 16 MiB");
        }
        let is_acl = [NameIndex::POSIX_ACL_ACCESS, NameIndex::POSIX_ACL_DEFAULT];
        if !is_acl.contains(&name.index) {
            found.push((name, xattr.value.clone()));
            continue;
        }
        match Acl::from_xattr(&xattr.value) {
            Ok(Some(acl)) => found.push((name, acl.to_disk())),
            Ok(None) => {}
            Err(error) => return refuse(&format!("is no list: {error}")),
        }
    }
    found.sort();
    let twice = found.windows(2).find(|pair| pair[0].0 == pair[1].0);
    match twice {
        None => Ok(found),
        Some(pair) => {
            let name = pair[0].0.full().unwrap_or_default();
            let problem = format!("the attribute {} is there twice", name.escape_ascii());
            Err(Error::refused(path, problem, "keep one of them"))
        }
    }
}
