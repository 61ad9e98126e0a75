//! Fields of a group descriptor.

use super::{Field, Form};

const fn field(name: &'static str, at: usize, form: Form) -> Field {
    Field::new(name, at, form)
}

/// Fields of a descriptor of 64 bytes.
const WIDE: &[Field] = &[
    field("block_bitmap", 0x0, Form::U32And32(0x20)),
    field("inode_bitmap", 0x4, Form::U32And32(0x24)),
    field("inode_table", 0x8, Form::U32And32(0x28)),
    field("free_blocks_count", 0xC, Form::U16And16(0x2C)),
    field("free_inodes_count", 0xE, Form::U16And16(0x2E)),
    field("used_dirs_count", 0x10, Form::U16And16(0x30)),
    field("flags", 0x12, Form::U16),
    field("exclude_bitmap", 0x14, Form::U32And32(0x34)),
    field("block_bitmap_csum", 0x18, Form::U16And16(0x38)),
    field("inode_bitmap_csum", 0x1A, Form::U16And16(0x3A)),
    field("itable_unused", 0x1C, Form::U16And16(0x32)),
    field("checksum", 0x1E, Form::U16),
];

/// Fields of a descriptor of 32 bytes.
const NARROW: &[Field] = &[
    field("block_bitmap", 0x0, Form::U32),
    field("inode_bitmap", 0x4, Form::U32),
    field("inode_table", 0x8, Form::U32),
    field("free_blocks_count", 0xC, Form::U16),
    field("free_inodes_count", 0xE, Form::U16),
    field("used_dirs_count", 0x10, Form::U16),
    field("flags", 0x12, Form::U16),
    field("exclude_bitmap", 0x14, Form::U32),
    field("block_bitmap_csum", 0x18, Form::U16),
    field("inode_bitmap_csum", 0x1A, Form::U16),
    field("itable_unused", 0x1C, Form::U16),
    field("checksum", 0x1E, Form::U16),
];

/// The fields of a descriptor of this size.
pub const fn group_fields(desc_size: u16) -> &'static [Field] {
    if desc_size >= 64 { WIDE } else { NARROW }
}
