//! Mount options from the superblock: `s_default_mount_opts` (`tune2fs -o`), then the string
//! `s_mount_opts` (`tune2fs -E mount_opts=`).
//!
//! `data=journal` is handled as `data=ordered`.
//!
//! The bits only turn options on. `acl` and `user_xattr` are on without them, and `block_validity`
//! is always on; `debug` only prints, and `nouid32` is not supported.

use super::fields::{DataMode, MountOptions};
use super::words;
use uext4_format::Superblock;
use uext4_format::superblock::default_mount_option as bit;

/// Applies the superblock's options. An invalid string is ignored as a whole, as in the kernel.
pub(super) fn apply(options: &mut MountOptions, superblock: &Superblock) {
    let bits = superblock.default_mount_opts;
    options.group_from_parent |= bits & bit::BSDGROUPS != 0;
    options.barrier &= bits & bit::NOBARRIER == 0;
    if bits & bit::NODELALLOC != 0 {
        options.delalloc.get_or_insert(false);
    }
    options.discard |= bits & bit::DISCARD != 0;
    options.data = match bits & bit::JMODE {
        bit::JMODE_DATA => DataMode::Journal,
        bit::JMODE_WBACK => DataMode::Writeback,
        _ => options.data,
    };
    let id = |low: u16, high: u16| u32::from(high) << 16 | u32::from(low);
    options
        .reserved_uid
        .get_or_insert(id(superblock.def_resuid, superblock.def_resuid_hi));
    options
        .reserved_gid
        .get_or_insert(id(superblock.def_resgid, superblock.def_resgid_hi));
    let string = superblock
        .mount_opts
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or(&[]);
    let mut tried = options.clone();
    let understood =
        std::str::from_utf8(string).is_ok_and(|list| words::apply_list(&mut tried, list).is_ok());
    if understood {
        *options = tried;
    }
    // Not refused, unlike the caller's word: `data=ordered` exposes no stale data either, and the
    // mount replays what Linux left in the log.
    if options.data == DataMode::Journal {
        options.data = DataMode::Ordered;
    }
}
