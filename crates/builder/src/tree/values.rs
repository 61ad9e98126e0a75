//! Large values of extended attributes, each kept once (feature `ea_inode`).
//!
//! Attribute blocks refer to values by their index until inodes are numbered;
//! [`crate::metadata::xattr_values`] numbers and writes them.

use std::collections::HashMap;
use std::sync::Arc;

use uext4_format::xattr::{EaInodeFields, XattrValue};
use uext4_format::{Inode, InodeFlags, InodeNr, Timestamp, WithExtra};
use uext4_num::clamp_u32;

use crate::tree::ids::FileId;

/// Values, by their index.
#[derive(Default)]
pub(crate) struct Values {
    pub(crate) all: Vec<Arc<[u8]>>,
    index: HashMap<Arc<[u8]>, u32>,
    /// Those of the image, in order.
    pub(crate) used: Vec<Used>,
    /// Clusters of all values of an attribute block, by its index.
    pub(crate) clusters: HashMap<u32, u64>,
}

/// A value that gets an inode of its own.
pub(crate) struct Used {
    pub(crate) value: u32,
    pub(crate) file: FileId,
    pub(crate) fields: EaInodeFields,
}

impl Values {
    /// A value as an entry has it until inodes are numbered.
    pub(crate) fn intern(&mut self, bytes: Vec<u8>) -> XattrValue {
        let size = clamp_u32(bytes.len());
        let known = self.index.get(&bytes[..]).copied();
        let at = known.unwrap_or_else(|| {
            let at = clamp_u32(self.all.len());
            let bytes: Arc<[u8]> = bytes.into();
            self.all.push(bytes.clone());
            self.index.insert(bytes, at);
            at
        });
        XattrValue::Inode {
            inode: InodeNr(at + 1),
            size,
            entry_hash: 0,
        }
    }

    /// Clusters of all values of an attribute block. Each file that has it counts them as its own.
    pub(crate) fn clusters(&self, block: Option<u32>) -> u64 {
        let clusters = block.and_then(|block| self.clusters.get(&block));
        clusters.copied().unwrap_or(0)
    }

    /// Number of values that the image has.
    pub(crate) fn count(&self) -> usize {
        self.used.len()
    }

    /// Makes the inode of a file that of a value, if the file is one.
    pub(crate) fn mark(&self, file: FileId, inode: &mut Inode) {
        let index = self.used.binary_search_by_key(&file, |used| used.file);
        let Ok(at) = index else {
            return;
        };
        let fields = &self.used[at].fields;
        let wide = inode.times_have_extra() == WithExtra::Yes;
        let time = |raw: u32| Timestamp {
            seconds: if wide {
                i64::from(raw)
            } else {
                i64::from(raw.cast_signed())
            },
            nanoseconds: 0,
        };
        inode.flags.insert(InodeFlags::EA_INODE);
        inode.atime = time(fields.atime());
        inode.ctime = time(fields.ctime());
        inode.version = u64::from(fields.version_low());
    }
}
