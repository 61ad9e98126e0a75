//! What the superblock asks for: `s_default_mount_opts` (`tune2fs -o`), then the string
//! `s_mount_opts` (`tune2fs -E mount_opts=`).
//!
//! `data=journal` is done as `data=ordered`.
//!
//! The bits only turn things on. `acl` and `user_xattr` are on without them,
//! `block_validity` is how it is; `debug` only prints, `nouid32` is not there.

use super::{DataMode, MountOptions, words};
use uext4_format::Superblock;
use uext4_format::superblock::default_mount_option as bit;

/// Puts the superblock's wishes under the options. A string that cannot be understood is left out
/// as a whole, as the kernel does.
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
    // A wish, unlike the word of a caller, which is refused: data=ordered shows no stale data
    // either, and whatever Linux left in the log is replayed before.
    if options.data == DataMode::Journal {
        options.data = DataMode::Ordered;
    }
}
