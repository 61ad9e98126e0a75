//! Quota files: initial usage of a new file system. The format is [`uext4_format::quota`].

use uext4_format::quota::{Patch, QuotaEntry, QuotaKind, QuotaTree};
use uext4_num::clamp_usize;

/// Usage of one owner by the files of the program, per kind of owner.
pub type Usages<'a> = &'a dyn Fn(QuotaKind) -> Vec<QuotaEntry>;

/// Grace time of soft limits in seconds.
const GRACE_SECONDS: u32 = 7 * 24 * 3600;

/// Adds a file to the usage of its owner.
pub(super) fn charge(usages: &mut Vec<QuotaEntry>, id: u32, bytes: u64) {
    match usages.iter_mut().find(|usage| usage.id == id) {
        Some(usage) => {
            usage.inodes += 1;
            usage.space_bytes += bytes;
        }
        None => usages.push(QuotaEntry {
            id,
            inodes: 1,
            space_bytes: bytes,
            ..QuotaEntry::default()
        }),
    }
}

/// The contents of a quota file of this kind with these owners, each of which occurs once.
pub fn render(kind: QuotaKind, usages: &[QuotaEntry]) -> Vec<u8> {
    let mut tree = QuotaTree::new(kind, GRACE_SECONDS);
    let mut patches = Vec::new();
    for usage in usages {
        let (at, others) = tree.insert(usage.id);
        let bytes = usage.encode().to_vec();
        patches.extend(others);
        patches.push(Patch { at, bytes });
    }
    patches.push(tree.info_patch());
    let mut file = vec![0; clamp_usize(tree.used_bytes())];
    for patch in patches {
        let at = clamp_usize(patch.at);
        file[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    file
}
