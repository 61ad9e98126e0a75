//! The root block: its information, and the conversion of a one-block directory into an indexed
//! one.

use super::node::DxNode;
use super::{INFO_BYTES, INFO_START, MaxLevels};
use crate::bytes::{get_u8, get_u16, get_u32, put_u8, put_u16, rest_mut};
use crate::dirent::{LeafTail, decode_rec_len, encode_rec_len};
use crate::hash::HashVersion;
use crate::{Corrupt, CorruptKind, DamageLocation, LogicalBlock};

const FLAG_UNKNOWN_HASH: u8 = 1;
/// Length of the information, as stored.
const INFO_LEN: u8 = 8;
const _: () = assert!(INFO_BYTES == 8);

/// Fields of `dx_root_info`, between ".." and the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootInfo {
    /// The hash that orders the entries.
    pub hash_version: HashVersion,
    /// Levels of nodes between root and leaves.
    pub indirect_levels: u8,
}

impl RootInfo {
    /// Reads and checks block 0 of an indexed directory; the entries are checked by
    /// [`DxNode::parse_root`].
    pub fn parse(
        block: &[u8],
        levels: MaxLevels,
        place: DamageLocation,
    ) -> Result<RootInfo, Corrupt> {
        let bad = |problem| Err(Corrupt::new(place, "htree root", problem));
        if !has_dots(block) {
            return bad(CorruptKind::RootDots);
        }
        // One flag marks an unimplemented hash; the other flags have no meaning.
        let flags = get_u8(block, INFO_START + 7);
        if get_u32(block, INFO_START) != 0 || flags & FLAG_UNKNOWN_HASH != 0 {
            return bad(CorruptKind::RootReserved);
        }
        let found = get_u8(block, INFO_START + 5);
        if found != INFO_LEN {
            return bad(CorruptKind::RootInfo { found });
        }
        let indirect_levels = get_u8(block, INFO_START + 6);
        if indirect_levels > levels.indirect() {
            return bad(CorruptKind::Levels {
                found: indirect_levels,
            });
        }
        let found = get_u8(block, INFO_START + 4);
        let Some(hash_version) = HashVersion::from_code(found) else {
            return bad(CorruptKind::HashFunction { found });
        };
        Ok(RootInfo {
            hash_version,
            indirect_levels,
        })
    }

    /// Writes the number of levels (when the tree grows).
    pub fn set_indirect_levels(block: &mut [u8], indirect_levels: u8) {
        put_u8(block, INFO_START + 6, indirect_levels);
    }
}

/// True if the bytes after ".." are the information of a root, for the choice of the checksum.
pub(crate) fn has_info(block: &[u8]) -> bool {
    get_u32(block, INFO_START) == 0 && get_u8(block, INFO_START + 5) == INFO_LEN
}

fn has_dots(block: &[u8]) -> bool {
    let rest = block.len().wrapping_sub(12);
    get_u16(block, 4) == 12
        && block.get(6) == Some(&1)
        && block.get(8) == Some(&b'.')
        && decode_rec_len(get_u16(block, 16), block.len()) == rest
        && block.get(18) == Some(&2)
        && block.get(20..22) == Some(b"..")
}

/// Turns block 0 of a linear directory, which begins with "." and "..", into a root with one entry
/// for `child`. The other entries of the block are lost: the caller has moved them. The caller
/// writes the checksum.
pub fn init_root(block: &mut [u8], version: HashVersion, tail: LeafTail, child: LogicalBlock) {
    let block_size = block.len();
    put_u16(block, 4, 12);
    put_u16(
        block,
        16,
        encode_rec_len(block_size.saturating_sub(12), block_size),
    );
    rest_mut(block, 22).fill(0);
    put_u8(block, INFO_START + 4, version.code());
    put_u8(block, INFO_START + 5, INFO_LEN);
    DxNode::root(block).init_entries(tail, child);
}
