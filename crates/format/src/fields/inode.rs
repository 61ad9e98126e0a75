//! Fields of an inode.

use super::{Field, Form};

const fn field(name: &'static str, at: usize, form: Form) -> Field {
    Field::new(name, at, form)
}

/// Bytes of an inode without extra fields.
pub(super) const BASE_BYTES: usize = 128;
/// Offset of the size of the extra fields. Attributes begin behind them.
pub(super) const EXTRA_ISIZE_AT: usize = 0x80;

const fn extra(name: &'static str, at: usize, form: Form) -> Field {
    Field::extra(name, at, form)
}

/// Fields of an inode, by offset. Those behind byte 128 exist in larger inodes only.
pub const INODE: &[Field] = &[
    field("mode", 0x0, Form::U16),
    field("uid", 0x2, Form::U16And16(0x78)),
    field("size", 0x4, Form::U32And32(0x6C)),
    field("atime", 0x8, Form::U32),
    field("ctime", 0xC, Form::U32),
    field("mtime", 0x10, Form::U32),
    field("dtime", 0x14, Form::U32),
    field("gid", 0x18, Form::U16And16(0x7A)),
    field("links_count", 0x1A, Form::U16),
    field("blocks", 0x1C, Form::U32And16(0x74)),
    field("flags", 0x20, Form::U32),
    field("version", 0x24, Form::U32),
    field("block", 0x28, Form::Words(15)),
    field("generation", 0x64, Form::U32),
    field("file_acl", 0x68, Form::U32And16(0x76)),
    field("faddr", 0x70, Form::U32),
    field("checksum_lo", 0x7C, Form::U16),
    field("extra_isize", EXTRA_ISIZE_AT, Form::U16),
    extra("checksum_hi", 0x82, Form::U16),
    extra("ctime_extra", 0x84, Form::U32),
    extra("mtime_extra", 0x88, Form::U32),
    extra("atime_extra", 0x8C, Form::U32),
    extra("crtime", 0x90, Form::U32),
    extra("crtime_extra", 0x94, Form::U32),
    extra("version_hi", 0x98, Form::U32),
    extra("projid", 0x9C, Form::U32),
];
