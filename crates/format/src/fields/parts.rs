//! Fields of structures inside of blocks: directory entries, nodes of maps, attributes.

use super::{Field, Form};

const fn field(name: &'static str, at: usize, form: Form) -> Field {
    Field::new(name, at, form)
}

/// Fields of a directory entry; its name follows.
pub const ENTRY: &[Field] = &[
    field("inode", 0, Form::U32),
    field("rec_len", 4, Form::U16),
    field("name_len", 6, Form::U8),
    field("file_type", 7, Form::U8),
];

/// Fields of the header of a node of an extent tree.
pub const NODE: &[Field] = &[
    field("magic", 0, Form::U16),
    field("entries", 2, Form::U16),
    field("max", 4, Form::U16),
    field("depth", 6, Form::U16),
    field("generation", 8, Form::U32),
];

/// Fields of an extent, in a node of depth 0. A length above 32,768 is that of an unwritten one.
pub const EXTENT: &[Field] = &[
    field("block", 0, Form::U32),
    field("len", 4, Form::U16),
    field("start", 8, Form::U32And16(6)),
];

/// Fields of an index, in a node of another depth.
pub const INDEX: &[Field] = &[
    field("block", 0, Form::U32),
    field("leaf", 4, Form::U32And16(8)),
];

/// Fields of the header of a block of attributes.
pub const ATTRIBUTES: &[Field] = &[
    field("magic", 0, Form::U32),
    field("refcount", 4, Form::U32),
    field("blocks", 8, Form::U32),
    field("hash", 12, Form::U32),
    field("checksum", 16, Form::U32),
];

/// Fields of the block of multiple mount protection.
pub const MMP: &[Field] = &[
    field("magic", 0, Form::U32),
    field("seq", 4, Form::U32),
    field("time", 8, Form::U64),
    field("nodename", 0x10, Form::Text(64)),
    field("bdevname", 0x50, Form::Text(32)),
    field("check_interval", 0x70, Form::U16),
    field("checksum", 0x3FC, Form::U32),
];
