//! Single fields of an inode that is not parsed: an unused slot, a reserved inode, or the record of
//! a fast commit, which may end early.

use super::codec::EXTRA_ISIZE_AT;
use super::{GOOD_OLD_INODE_BYTES, I_BLOCK_BYTES, InodeFlags, fields_end};
use crate::bytes::{get_array, get_u16, get_u32, join_u32, put_u16, put_u32, upto};
use uext4_num::clamp_u16;

/// The bytes of an inode. Nothing is checked; fields past the end are 0.
#[derive(Clone, Copy, Debug)]
pub struct RawInode<'a>(pub &'a [u8]);

impl<'a> RawInode<'a> {
    /// The file type and the permissions (`i_mode`).
    pub fn mode(self) -> u16 {
        get_u16(self.0, 0x0)
    }

    /// Low half of the owner.
    pub fn uid_low(self) -> u16 {
        get_u16(self.0, 0x2)
    }

    /// Low half of the group.
    pub fn gid_low(self) -> u16 {
        get_u16(self.0, 0x18)
    }

    /// The link count (`i_links_count`); a directory's 1 may mean "many".
    pub fn links(self) -> u16 {
        get_u16(self.0, 0x1A)
    }

    /// Both words of the size, whatever the high one means for this type.
    pub fn size(self) -> u64 {
        join_u32(get_u32(self.0, 0x4), get_u32(self.0, 0x6C))
    }

    /// Low half of the block count.
    pub fn blocks_low(self) -> u32 {
        get_u32(self.0, 0x1C)
    }

    /// Deletion time or next orphan.
    pub fn dtime(self) -> u32 {
        get_u32(self.0, 0x14)
    }

    /// The flags (`i_flags`), with those of unknown meaning.
    pub fn flags(self) -> InodeFlags {
        InodeFlags(get_u32(self.0, 0x20))
    }

    /// The generation (`i_generation`), which NFS handles contain.
    pub fn generation(self) -> u32 {
        get_u32(self.0, 0x64)
    }

    /// Low half of the block of extended attributes.
    pub fn file_acl_low(self) -> u32 {
        get_u32(self.0, 0x68)
    }

    /// The 60 bytes of `i_block`: a map root, a symlink target or a device number.
    pub fn i_block(self) -> [u8; I_BLOCK_BYTES] {
        get_array(self.0, 0x28)
    }

    /// Bytes of the extra fields; 0 in inodes of 128 bytes.
    pub fn extra_isize(self) -> u16 {
        get_u16(self.0, EXTRA_ISIZE_AT)
    }

    /// Whether the extra fields end in the inode, at a multiple of 4 bytes.
    pub fn has_sound_extra_size(self) -> bool {
        let extra_isize = self.extra_isize();
        fields_end(extra_isize) <= self.0.len().max(GOOD_OLD_INODE_BYTES)
            && extra_isize.is_multiple_of(4)
    }

    /// The bytes before the area of attributes.
    pub fn fields(self) -> &'a [u8] {
        upto(self.0, fields_end(self.extra_isize()))
    }
}

/// Changes the size of the extra fields in the bytes of an inode; its checksum stays.
pub fn set_extra_isize(bytes: &mut [u8], extra_isize: u16) {
    put_u16(bytes, EXTRA_ISIZE_AT, extra_isize);
}

/// Changes the flags in the bytes of an inode; its checksum stays.
pub fn set_flags(bytes: &mut [u8], flags: InodeFlags) {
    put_u32(bytes, 0x20, flags.0);
}

/// Bytes of an encrypted target of a symbolic link, as it says at its start, with that number.
pub fn encrypted_target_bytes(target: &[u8]) -> usize {
    usize::from(get_u16(target, 0)).saturating_add(ENCRYPTED_LENGTH_BYTES)
}

/// Stores [`encrypted_target_bytes`] at the start of a target.
pub fn set_encrypted_target_bytes(target: &mut [u8], bytes: usize) {
    let len = bytes.saturating_sub(ENCRYPTED_LENGTH_BYTES);
    put_u16(target, 0, clamp_u16(len));
}

/// Bytes of the length at the start of an encrypted target.
const ENCRYPTED_LENGTH_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn fields_are_where_the_codec_writes_them() {
        let geometry = super::super::tests::geometry(256, &[]);
        let mut inode = super::super::Inode::new(&geometry, 32);
        (inode.mode, inode.uid, inode.gid, inode.links) = (0o100_644, 0x1_0007, 0x2_0008, 9);
        (inode.size, inode.blocks_raw, inode.dtime) = (0x12_3456_789A, 77, 88);
        (inode.flags, inode.generation) = (InodeFlags::INDEX, 99);
        inode.file_acl = crate::BlockNr(0x1_0000_0055);
        inode.i_block = [3; I_BLOCK_BYTES];
        inode.atime = Timestamp::new(5, 6);
        let mut bytes = [0; 256];
        inode.write_to(
            &mut bytes,
            crate::InodeNr(12),
            &geometry,
            &crate::Checksums::NONE,
        );
        let raw = RawInode(&bytes);
        assert_eq!((raw.mode(), raw.links()), (0o100_644, 9));
        assert_eq!((raw.uid_low(), raw.gid_low()), (7, 8));
        assert_eq!((raw.size(), raw.blocks_low()), (0x12_3456_789A, 77));
        assert_eq!((raw.dtime(), raw.flags()), (88, InodeFlags::INDEX));
        assert_eq!((raw.generation(), raw.file_acl_low()), (99, 0x55));
        assert_eq!((raw.i_block(), raw.extra_isize()), ([3; I_BLOCK_BYTES], 32));
        assert_eq!(raw.fields().len(), 160);
        assert!(raw.has_sound_extra_size());
    }

    #[test]
    fn bytes_that_end_early_read_as_zero() {
        let bytes = [0xFF; 131];
        for len in 0..bytes.len() {
            let raw = RawInode(&bytes[..len]);
            assert_eq!(raw.mode(), if len < 2 { 0 } else { 0xFFFF });
            assert_eq!(raw.generation() != 0, len >= 0x68);
            assert!(raw.fields().len() <= len);
            assert_eq!(raw.has_sound_extra_size(), len < 130);
        }
    }
}
