//! Inodes: 128 bytes, and with larger inodes the extra fields and an area for attributes.
//!
//! [`Inode`] keeps every byte: fields by name, the area after `i_extra_isize` as [`Inode::tail`],
//! and bytes without a name here unchanged.
//!
//! References: kernel doc `filesystems/ext4/inodes.rst`.

mod codec;
mod kind;
mod raw;
mod tail;

#[cfg(test)]
mod tests;

pub use kind::{DeviceNumber, InodeFlags};
pub use raw::{
    RawInode, encrypted_target_bytes, set_encrypted_target_bytes, set_extra_isize, set_flags,
};
pub use tail::Tail;

use crate::quota::QuotaKind;
use crate::times::{Timestamp, WithExtra};
use crate::{BlockNr, Feature, FileType, Geometry};
use uext4_num::clamp_u16;

/// Bytes of the inode that every file system has.
pub const GOOD_OLD_INODE_BYTES: usize = 128;
/// Bytes of `i_block`: fifteen words.
pub const I_BLOCK_BYTES: usize = 60;
/// End of the last extra field that has a name here.
pub(crate) const KNOWN_BYTES: usize = 0xA0;
/// Bytes of the extra fields that have a name here: `i_extra_isize` of new inodes.
pub const KNOWN_EXTRA_BYTES: u16 = 32;

/// An inode, as on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The file type and the permissions (`i_mode`).
    pub mode: u16,
    /// The user id of the owner, from two fields of 16 bits.
    pub uid: u32,
    /// The group id of the owner, from two fields of 16 bits.
    pub gid: u32,
    /// The size of the content, in bytes.
    pub size: u64,
    /// Block count in the unit that the flag HUGE_FILE selects: see [`Self::sectors`].
    pub blocks_raw: u64,
    /// Link count as stored; 1 on a directory with `dir_nlink` may mean "many".
    pub links: u16,
    /// The flags (`i_flags`), with those of unknown meaning.
    pub flags: InodeFlags,
    /// Generation: changes whenever the number is given to a new file.
    pub generation: u32,
    /// Deletion time in seconds; the next orphan while on the orphan list; 0 in use.
    pub dtime: u32,
    /// The time of the last access (`i_atime`).
    pub atime: Timestamp,
    /// Last change of the contents.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation; 1970 where there is no space for it.
    pub crtime: Timestamp,
    /// The block map, extent root, inline data, short symlink or device number.
    pub i_block: [u8; I_BLOCK_BYTES],
    /// Block of extended attributes; 0: none.
    pub file_acl: BlockNr,
    /// Project; 0 where there is no space for it.
    pub projid: u32,
    /// Change counter; the low 32 bits where there is no space for more. In a file that holds an
    /// attribute's value: the reference count's low part.
    pub version: u64,
    /// Bytes of the extra fields; 0 in inodes of 128 bytes.
    pub extra_isize: u16,
    /// The area for attributes, from the extra fields to the inode's end.
    pub tail: Tail,
    faddr: u32,
    reserved: u16,
    unknown: Box<[u8]>,
}

/// The block count does not fit into an inode of this file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block count does not fit into the inode")]
pub struct TooManyBlocks;

impl Inode {
    /// An unused inode with everything zero, with space for `want_extra_isize` bytes of extra
    /// fields (limited by the inode size, and a multiple of 4).
    pub fn new(geometry: &Geometry, want_extra_isize: u16) -> Inode {
        let room = usize::from(geometry.inode_size).saturating_sub(GOOD_OLD_INODE_BYTES);
        let extra_isize = (want_extra_isize & !3).min(clamp_u16(room));
        Inode {
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            blocks_raw: 0,
            links: 0,
            flags: InodeFlags::NONE,
            generation: 0,
            dtime: 0,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            crtime: Timestamp::default(),
            i_block: [0; I_BLOCK_BYTES],
            file_acl: BlockNr(0),
            projid: 0,
            version: 0,
            extra_isize,
            tail: Tail::zeroes(room.saturating_sub(extra_isize.into())),
            faddr: 0,
            reserved: 0,
            unknown: vec![0; unknown_bytes(extra_isize)].into(),
        }
    }

    /// The type; `None` for modes that name none (an unused inode).
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// Blocks in use, in units of 512 bytes.
    pub fn sectors(&self, geometry: &Geometry) -> u64 {
        let in_blocks =
            geometry.features.has(Feature::HUGE_FILE) && self.flags.contains(InodeFlags::HUGE_FILE);
        if in_blocks {
            self.blocks_raw << sector_bits(geometry)
        } else {
            self.blocks_raw
        }
    }

    /// Sets the blocks in use, in units of 512 bytes, and the flag HUGE_FILE to match.
    ///
    /// # Errors
    /// [`TooManyBlocks`]: 2^32 sectors or more without the feature `huge_file`, or 2^48 blocks or
    /// more.
    pub fn set_sectors(&mut self, sectors: u64, geometry: &Geometry) -> Result<(), TooManyBlocks> {
        let huge = geometry.features.has(Feature::HUGE_FILE);
        let max = if huge {
            (1 << 48) - 1
        } else {
            u64::from(u32::MAX)
        };
        if sectors <= max {
            self.flags.remove(InodeFlags::HUGE_FILE);
            self.blocks_raw = sectors;
            return Ok(());
        }
        let blocks = sectors >> sector_bits(geometry);
        if !huge || blocks > max {
            return Err(TooManyBlocks);
        }
        self.flags.insert(InodeFlags::HUGE_FILE);
        self.blocks_raw = blocks;
        Ok(())
    }

    /// The device of a character or block special file.
    pub fn device_number(&self) -> DeviceNumber {
        DeviceNumber::decode(&self.i_block)
    }

    /// Makes `i_block` name a device.
    pub fn set_device_number(&mut self, device: DeviceNumber) {
        self.i_block = device.encode();
    }

    /// The owner whose quota of this kind the inode counts for.
    pub fn owner(&self, kind: QuotaKind) -> u32 {
        match kind {
            QuotaKind::User => self.uid,
            QuotaKind::Group => self.gid,
            QuotaKind::Project => self.projid,
        }
    }

    /// A time as the inode stores it: without extra fields in whole seconds, and within its range.
    pub fn stored(&self, time: Timestamp) -> Timestamp {
        time.as_stored(self.times_have_extra())
    }

    /// Sets the access time, as [`Self::stored`].
    pub fn set_atime(&mut self, time: Timestamp) {
        self.atime = self.stored(time);
    }

    /// Sets the time of the last change of the data, as [`Self::stored`].
    pub fn set_mtime(&mut self, time: Timestamp) {
        self.mtime = self.stored(time);
    }

    /// Sets the time of the last change of the inode, as [`Self::stored`].
    pub fn set_ctime(&mut self, time: Timestamp) {
        self.ctime = self.stored(time);
    }

    /// Whether atime, mtime and ctime have their extra fields in this inode.
    pub fn times_have_extra(&self) -> WithExtra {
        if codec::fits(self.extra_isize, 0x8C, 4) {
            WithExtra::Yes
        } else {
            WithExtra::No
        }
    }

    /// Whether the inode has space for a project identifier.
    pub fn has_projid(&self) -> bool {
        codec::fits(self.extra_isize, 0x9C, 4)
    }

    /// The project that a directory passes on to new entries.
    pub fn project_of_children(&self) -> Option<u32> {
        let hands_on = self.flags.contains(InodeFlags::PROJINHERIT);
        hands_on.then_some(self.projid)
    }

    /// Enlarges the extra fields: `tail` is the rest of the inode after them. New fields are zero.
    pub fn set_extra_isize(&mut self, extra_isize: u16, tail: &[u8]) {
        let mut bytes = std::mem::take(&mut self.unknown).into_vec();
        bytes.resize(unknown_bytes(extra_isize), 0);
        self.unknown = bytes.into();
        self.extra_isize = extra_isize;
        self.tail = tail.into();
    }

    /// Offset of [`Self::tail`] in the inode, in bytes.
    pub fn tail_offset(&self) -> usize {
        fields_end(self.extra_isize)
    }
}

/// log2 of the sectors of a block.
fn sector_bits(geometry: &Geometry) -> u32 {
    geometry.block_bits.saturating_sub(9)
}

/// The end of the fields of an inode with this many bytes of extra fields.
fn fields_end(extra_isize: u16) -> usize {
    usize::from(extra_isize).saturating_add(GOOD_OLD_INODE_BYTES)
}

/// Bytes of the extra fields that have no name here.
fn unknown_bytes(extra_isize: u16) -> usize {
    fields_end(extra_isize).saturating_sub(KNOWN_BYTES)
}
