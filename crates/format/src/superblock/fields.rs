//! Offsets of the fields in the 1024 bytes.
//!
//! The table below is the layout. Three kinds of field are split on disk and joined here: block
//! counts (low and high 32 bits, the high half valid with the `64bit` feature only) and times (32
//! bits and one byte).

use super::{SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC};
use crate::Feature;
use crate::bytes::*;
use uext4_num::{high_u32, low_u8, low_u32};

/// A field's type and its encoding.
trait Field: Sized {
    fn get(raw: &[u8], at: usize) -> Self;
    fn put(&self, raw: &mut [u8], at: usize);
}

macro_rules! integer_field {
    ($($int:ident $get:ident $put:ident;)*) => {$(
        impl Field for $int {
            fn get(raw: &[u8], at: usize) -> Self {
                $get(raw, at)
            }
            fn put(&self, raw: &mut [u8], at: usize) {
                $put(raw, at, *self);
            }
        }
    )*};
}

integer_field! {
    u8 get_u8 put_u8;
    u16 get_u16 put_u16;
    u32 get_u32 put_u32;
    u64 get_u64 put_u64;
}

impl<const N: usize> Field for [u8; N] {
    fn get(raw: &[u8], at: usize) -> Self {
        get_array(raw, at)
    }
    fn put(&self, raw: &mut [u8], at: usize) {
        put_slice(raw, at, self);
    }
}

/// Arrays of 32-bit words.
impl<const N: usize> Field for [u32; N] {
    fn get(raw: &[u8], at: usize) -> Self {
        let (words, _) = rest(raw, at).as_chunks();
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        std::array::from_fn(|_| words.next().unwrap_or(0))
    }
    fn put(&self, raw: &mut [u8], at: usize) {
        let (words, _) = rest_mut(raw, at).as_chunks_mut();
        for (old, word) in words.iter_mut().zip(self) {
            *old = word.to_le_bytes();
        }
    }
}

macro_rules! superblock {
    (
        plain { $($(#[$doc:meta])* $name:ident: $type:ty = $at:literal,)* }
        counts { $($(#[$count_doc:meta])* $count:ident = $low:literal, $high:literal,)* }
        times { $($(#[$time_doc:meta])* $time:ident = $seconds:literal, $byte:literal,)* }
    ) => {
        /// The superblock's fields, named as in the kernel without the `s_`.
        ///
        /// Times count seconds since 1970, 40 bits. Inode numbers of 0 mean "none".
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Superblock {
            raw: Box<[u8; SUPERBLOCK_BYTES]>,
            $($(#[$doc])* pub $name: $type,)*
            $($(#[$count_doc])* pub $count: u64,)*
            $($(#[$time_doc])* pub $time: u64,)*
        }

        impl Superblock {
            pub(super) fn from_raw(raw: &[u8; SUPERBLOCK_BYTES]) -> Self {
                Superblock {
                    $($name: <$type as Field>::get(raw, $at),)*
                    $($count: join_u32(get_u32(raw, $low), high_half(raw, $high)),)*
                    $($time: join_u32(get_u32(raw, $seconds), u32::from(get_u8(raw, $byte))),)*
                    raw: Box::new(*raw),
                }
            }

            pub(super) fn to_raw(&self) -> [u8; SUPERBLOCK_BYTES] {
                let mut raw = *self.raw;
                $(self.$name.put(&mut raw, $at);)*
                let wide = self.features().has(Feature::SIXTY_FOUR_BIT);
                $(
                    put_u32(&mut raw, $low, low_u32(self.$count));
                    if wide {
                        put_u32(&mut raw, $high, high_u32(self.$count));
                    }
                )*
                $(
                    put_u32(&mut raw, $seconds, low_u32(self.$time));
                    put_u8(&mut raw, $byte, low_u8(self.$time >> 32));
                )*
                raw
            }
        }
    };
}

superblock! {
    plain {
        /// Inodes of the file system.
        inodes_count: u32 = 0x0,
        /// Free inodes, as of the last update.
        free_inodes_count: u32 = 0x10,
        /// Block of the superblock: 1 for blocks of 1 KiB without bigalloc, else 0.
        first_data_block: u32 = 0x14,
        /// log2 of the block size in KiB.
        log_block_size: u32 = 0x18,
        /// log2 of the cluster size in KiB.
        log_cluster_size: u32 = 0x1C,
        /// Blocks of a group; the last group may be shorter.
        blocks_per_group: u32 = 0x20,
        /// Clusters of a group; equals the blocks without `bigalloc`.
        clusters_per_group: u32 = 0x24,
        /// Inodes of a group, the same in all groups.
        inodes_per_group: u32 = 0x28,
        /// Mounts since the last check.
        mnt_count: u16 = 0x34,
        /// Mounts before a check is due; 0 or 0xFFFF: never.
        max_mnt_count: u16 = 0x36,
        /// [`SUPERBLOCK_MAGIC`] in a valid superblock.
        magic: u16 = 0x38,
        /// Flags of [`super::state`].
        state: u16 = 0x3A,
        /// Reaction to errors, as [`super::ErrorBehaviour`] numbers it.
        errors: u16 = 0x3C,
        /// Minor revision of the format; not interpreted.
        minor_rev_level: u16 = 0x3E,
        /// Seconds between checks; 0: never.
        checkinterval: u32 = 0x44,
        /// Operating system that created it: 0 is Linux.
        creator_os: u32 = 0x48,
        /// 0: inodes of 128 bytes, first inode 11, no features; 1: as the fields say.
        rev_level: u32 = 0x4C,
        /// Low half of the user id that may use reserved blocks.
        def_resuid: u16 = 0x50,
        /// Low half of the group id that may use reserved blocks.
        def_resgid: u16 = 0x52,
        /// First inode that is not reserved.
        first_ino: u32 = 0x54,
        /// Bytes of an inode in the table; 128 in revision 0.
        inode_size: u16 = 0x58,
        /// Group of this copy of the superblock.
        block_group_nr: u16 = 0x5A,
        /// Compat features; see [`Self::features`].
        feature_compat: u32 = 0x5C,
        /// Incompat features; see [`Self::features`].
        feature_incompat: u32 = 0x60,
        /// Read-only compat features; see [`Self::features`].
        feature_ro_compat: u32 = 0x64,
        /// UUID of the file system.
        uuid: [u8; 16] = 0x68,
        /// Label, padded with zeroes; see [`Self::label`].
        volume_name: [u8; 16] = 0x78,
        /// Directory of the last mount.
        last_mounted: [u8; 64] = 0x88,
        /// For compression, which was never implemented.
        algorithm_usage_bitmap: u32 = 0xC8,
        /// Blocks to preallocate for files; Linux ignores it.
        prealloc_blocks: u8 = 0xCC,
        /// Blocks to preallocate for directories; Linux ignores it.
        prealloc_dir_blocks: u8 = 0xCD,
        /// Descriptor blocks reserved for growth after the descriptors of each copy.
        reserved_gdt_blocks: u16 = 0xCE,
        /// UUID of the external journal.
        journal_uuid: [u8; 16] = 0xD0,
        /// Inode of the internal journal, or 0.
        journal_inum: u32 = 0xE0,
        /// Device number of the external journal.
        journal_dev: u32 = 0xE4,
        /// Head of the orphan list.
        last_orphan: u32 = 0xE8,
        /// Seed of directory hashes.
        hash_seed: [u32; 4] = 0xEC,
        /// Hash of new directories: 0 legacy, 1 half MD4, 2 TEA, 6 SipHash.
        def_hash_version: u8 = 0xFC,
        /// 1: [`Self::jnl_blocks`] holds a copy of the journal inode.
        jnl_backup_type: u8 = 0xFD,
        /// Bytes of a descriptor, with the `64bit` feature.
        desc_size: u16 = 0xFE,
        /// Flags of [`super::default_mount_option`].
        default_mount_opts: u32 = 0x100,
        /// First descriptor block that is in its meta group.
        first_meta_bg: u32 = 0x104,
        /// The journal inode's `i_block`, then high and low half of its size.
        jnl_blocks: [u32; 17] = 0x10C,
        /// Bytes past the first 128 that every inode has.
        min_extra_isize: u16 = 0x15C,
        /// Bytes past the first 128 that new inodes get.
        want_extra_isize: u16 = 0x15E,
        /// Flags of [`super::flag`].
        flags: u32 = 0x160,
        /// RAID chunk in blocks.
        raid_stride: u16 = 0x164,
        /// Seconds between checks of the MMP block.
        mmp_update_interval: u16 = 0x166,
        /// Block of multiple mount protection.
        mmp_block: u64 = 0x168,
        /// RAID stripe in blocks.
        raid_stripe_width: u32 = 0x170,
        /// log2 of the groups of a flexible group.
        log_groups_per_flex: u8 = 0x174,
        /// Checksum algorithm of metadata; 1, crc32c, is the only one.
        checksum_type: u8 = 0x175,
        /// Version of encryption; preserved only.
        encryption_level: u8 = 0x176,
        /// KiB written over the life of the file system.
        kbytes_written: u64 = 0x178,
        /// Inode of the active out-of-tree snapshot.
        snapshot_inum: u32 = 0x180,
        /// Sequential number of the active out-of-tree snapshot.
        snapshot_id: u32 = 0x184,
        /// Blocks reserved for the active out-of-tree snapshot.
        snapshot_r_blocks_count: u64 = 0x188,
        /// Inode at the head of the list of out-of-tree snapshots.
        snapshot_list: u32 = 0x190,
        /// Errors found since the last check.
        error_count: u32 = 0x194,
        /// Inode of the first error.
        first_error_ino: u32 = 0x19C,
        /// Block of the first error.
        first_error_block: u64 = 0x1A0,
        /// Function of the first error.
        first_error_func: [u8; 32] = 0x1A8,
        /// Line of the first error.
        first_error_line: u32 = 0x1C8,
        /// Inode of the last error.
        last_error_ino: u32 = 0x1D0,
        /// Line of the last error.
        last_error_line: u32 = 0x1D4,
        /// Block of the last error.
        last_error_block: u64 = 0x1D8,
        /// Function of the last error.
        last_error_func: [u8; 32] = 0x1E0,
        /// Default mount options as a string.
        mount_opts: [u8; 64] = 0x200,
        /// Inode of user quota.
        usr_quota_inum: u32 = 0x240,
        /// Inode of group quota.
        grp_quota_inum: u32 = 0x244,
        /// Clusters of metadata that never become free; 0: unknown.
        overhead_clusters: u32 = 0x248,
        /// Groups with backups, with `sparse_super2`.
        backup_bgs: [u32; 2] = 0x24C,
        /// Encryption algorithms in use.
        encrypt_algos: [u8; 4] = 0x254,
        /// Salt for keys from passphrases (string-to-key).
        encrypt_pw_salt: [u8; 16] = 0x258,
        /// Inode of `lost+found`, or 0.
        lpf_ino: u32 = 0x268,
        /// Inode of project quota.
        prj_quota_inum: u32 = 0x26C,
        /// Seed of checksums, with `metadata_csum_seed`.
        checksum_seed: u32 = 0x270,
        /// errno of the first error, in ext4's own numbering.
        first_error_errcode: u8 = 0x27A,
        /// errno of the last error.
        last_error_errcode: u8 = 0x27B,
        /// Encoding of names of case-insensitive directories.
        encoding: u16 = 0x27C,
        /// Flags of that encoding.
        encoding_flags: u16 = 0x27E,
        /// Inode of the orphan file.
        orphan_file_inum: u32 = 0x280,
        /// High half of [`Self::def_resuid`].
        def_resuid_hi: u16 = 0x284,
        /// High half of [`Self::def_resgid`].
        def_resgid_hi: u16 = 0x286,
    }
    counts {
        /// Blocks of the file system.
        blocks_count = 0x4, 0x150,
        /// Blocks reserved for the privileged user.
        r_blocks_count = 0x8, 0x154,
        /// Free blocks, as of the last update.
        free_blocks_count = 0xC, 0x158,
    }
    times {
        /// Time of the last mount, in seconds since 1970.
        mtime = 0x2C, 0x275,
        /// Last write of the superblock.
        wtime = 0x30, 0x274,
        /// Time of the last check, in seconds since 1970.
        lastcheck = 0x40, 0x277,
        /// When the file system was made.
        mkfs_time = 0x108, 0x276,
        /// Time of the first error, in seconds since 1970.
        first_error_time = 0x198, 0x278,
        /// Time of the last error, in seconds since 1970.
        last_error_time = 0x1CC, 0x279,
    }
}

impl Superblock {
    /// A superblock of zeroes except for the magic: the start of mkfs.
    pub fn blank() -> Superblock {
        let mut raw = [0; SUPERBLOCK_BYTES];
        put_u16(&mut raw, 0x38, SUPERBLOCK_MAGIC);
        Self::from_raw(&raw)
    }

    /// The bytes as they were read.
    pub(super) fn raw(&self) -> &[u8; SUPERBLOCK_BYTES] {
        &self.raw
    }
}

/// The high half of a count; 0 without the `64bit` feature, where the bytes are undefined.
fn high_half(raw: &[u8], at: usize) -> u32 {
    let wide = get_u32(raw, 0x60) & Feature::SIXTY_FOUR_BIT.bit != 0;
    if wide { get_u32(raw, at) } else { 0 }
}
