//! Every structure of a fresh image parses, verifies, and encodes to the same bytes.

use std::os::unix::fs::FileExt;

use uext4_format::bitmap::{uninit_block_bitmap, uninit_inode_bitmap};
use uext4_format::mmp::Mmp;
use uext4_format::orphan_file::verify_orphan_block;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::{
    BlockNr, Checksums, Feature, Geometry, GroupDescriptor, GroupNr, Inode, InodeNr, Superblock,
    group_flag,
};
use uext4_testkit::oracle::mke2fs_image;

struct Image {
    file: std::fs::File,
    superblock: Superblock,
    geometry: Geometry,
    checksums: Checksums,
}

impl Image {
    fn open(path: &std::path::Path) -> Image {
        let file = std::fs::File::open(path).expect("mke2fs made it");
        let mut bytes = [0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)
            .expect("the image has a superblock");
        let superblock = Superblock::parse(&bytes).expect("superblock");
        assert_eq!(
            superblock.to_bytes(),
            bytes,
            "the superblock must render as it was"
        );
        let geometry = superblock.geometry().expect("geometry");
        let checksums = superblock.checksums();
        Image {
            file,
            superblock,
            geometry,
            checksums,
        }
    }

    fn block(&self, nr: BlockNr) -> Vec<u8> {
        let size = self.geometry.block_size();
        let mut block = vec![0; size as usize];
        self.file
            .read_exact_at(&mut block, nr.0 * u64::from(size))
            .expect("inside the image");
        block
    }

    fn groups(&self) -> impl Iterator<Item = GroupNr> + use<> {
        (0..self.geometry.group_count).map(GroupNr)
    }

    fn descriptor(&self, group: GroupNr) -> GroupDescriptor {
        let (nr, offset) = self.geometry.descriptor_location(group);
        let block = self.block(nr);
        let bytes = &block[offset as usize..][..usize::from(self.geometry.desc_size)];
        let descriptor = GroupDescriptor::parse(bytes, group, &self.geometry, &self.checksums)
            .expect("descriptor");
        let mut rendered = vec![0; bytes.len()];
        descriptor.write_to(&mut rendered, group, &self.geometry, &self.checksums);
        assert_eq!(rendered, bytes, "descriptor of group {group}");
        descriptor
    }

    fn inode_bytes(&self, ino: InodeNr) -> Vec<u8> {
        let (group, index) = self.geometry.split_inode(ino).expect("inode number");
        let table = self.descriptor(group).inode_table;
        let (nr, offset) = self.geometry.inode_location(table, index);
        self.block(nr)[offset as usize..][..usize::from(self.geometry.inode_size)].to_vec()
    }

    fn check_backups(&self) -> usize {
        let mut backups = 0;
        for group in self.groups().skip(1) {
            let Some(nr) = self.geometry.superblock_block(group) else {
                continue;
            };
            let backup = Superblock::parse(&self.block(nr)).expect("backup superblock");
            assert_eq!(u32::from(backup.block_group_nr), group.0);
            assert_eq!(backup.uuid, self.superblock.uuid);
            if let Some((index, run)) = self.geometry.descriptor_run(group) {
                let primary = self.block(self.geometry.descriptor_block(index));
                let copy = self.block(run.start);
                assert_eq!(
                    &copy[..8],
                    &primary[..8],
                    "copy of descriptors in group {group}"
                );
            }
            backups += 1;
        }
        backups
    }

    fn check_bitmaps(&self) {
        for group in self.groups() {
            let descriptor = self.descriptor(group);
            if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
                let bitmap = uninit_block_bitmap(&self.geometry, group, &descriptor);
                assert_eq!(zeroes(&bitmap), descriptor.free_clusters, "group {group}");
            }
            if descriptor.has_flag(group_flag::INODE_UNINIT) {
                let bitmap = uninit_inode_bitmap(&self.geometry);
                assert_eq!(zeroes(&bitmap), descriptor.free_inodes, "group {group}");
            }
            if !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
                let bitmap = self.block(descriptor.block_bitmap);
                let check =
                    descriptor.verify_block_bitmap(&bitmap, group, &self.geometry, &self.checksums);
                check.expect("block bitmap");
                let base = self.geometry.base_metadata_blocks(group);
                let used = base.div_ceil(self.geometry.blocks_per_cluster());
                for bit in 0..used as usize {
                    assert!(
                        bitmap[bit / 8] & 1 << (bit % 8) != 0,
                        "cluster {bit} of {group}"
                    );
                }
            }
            if !descriptor.has_flag(group_flag::INODE_UNINIT) {
                let bitmap = self.block(descriptor.inode_bitmap);
                let check =
                    descriptor.verify_inode_bitmap(&bitmap, group, &self.geometry, &self.checksums);
                check.expect("inode bitmap");
            }
        }
    }

    fn check_inodes(&self) -> usize {
        let mut inodes = 0;
        for ino in (1..=40)
            .map(InodeNr)
            .filter(|ino| self.geometry.contains_inode(*ino))
        {
            let bytes = self.inode_bytes(ino);
            let inode = Inode::parse(&bytes, ino, &self.geometry, &self.checksums).expect("inode");
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            let mut rendered = vec![0xFF; bytes.len()];
            inode.write_to(&mut rendered, ino, &self.geometry, &self.checksums);
            assert_eq!(rendered, bytes, "inode {ino}");
            inodes += 1;
        }
        inodes
    }

    fn check_orphan_file(&self) {
        if !self.geometry.features.has(Feature::ORPHAN_FILE) {
            return;
        }
        let ino = InodeNr(self.superblock.orphan_file_inum);
        let bytes = self.inode_bytes(ino);
        let inode = Inode::parse(&bytes, ino, &self.geometry, &self.checksums).expect("inode");
        // Extent root with one extent: header of 12 bytes, then block, length, start.
        let start = u32::from_le_bytes(inode.i_block[20..24].try_into().expect("4 bytes"));
        let nr = BlockNr(u64::from(start));
        let seed = self.checksums.inode_seed(ino, inode.generation);
        verify_orphan_block(&self.block(nr), nr, seed).expect("orphan block");
    }

    fn check_mmp(&self) {
        if self.geometry.features.has(Feature::MMP) {
            let nr = BlockNr(self.superblock.mmp_block);
            let mut block = self.block(nr);
            let before = block.clone();
            let mmp = Mmp::parse(&block, nr, &self.checksums).expect("mmp");
            mmp.write_to(&mut block, &self.checksums);
            assert_eq!(block, before);
        }
    }
}

fn zeroes(bitmap: &[u8]) -> u32 {
    bitmap.iter().map(|byte| byte.count_zeros()).sum()
}

fn check(size_mib: u64, options: &[&str]) -> Image {
    let (_dir, path) = mke2fs_image(size_mib << 20, options).expect("mke2fs");
    let image = Image::open(&path);
    println!("{options:?}: {} groups", image.geometry.group_count);
    let backups = image.check_backups();
    assert!(image.geometry.group_count == 1 || backups > 0 || options.len() > 4);
    image.check_bitmaps();
    assert!(image.check_inodes() >= 4);
    image.check_orphan_file();
    image.check_mmp();
    image
}

#[test]
fn defaults_at_several_block_sizes() {
    check(8, &["-b", "1024"]);
    check(64, &["-b", "1024"]);
    check(300, &["-b", "2048"]);
    check(600, &["-b", "4096"]);
    check(64, &["-b", "65536"]);
}

#[test]
fn checksum_kinds() {
    let none = check(64, &["-b", "1024", "-O", "^metadata_csum,^uninit_bg"]);
    assert_eq!(none.checksums, Checksums::NONE);
    let crc16 = check(64, &["-b", "1024", "-O", "^metadata_csum,uninit_bg"]);
    assert!(crc16.checksums.metadata.is_none());
    check(64, &["-b", "1024", "-O", "^metadata_csum,uninit_bg,^64bit"]);
    check(
        64,
        &[
            "-b",
            "1024",
            "-O",
            "metadata_csum,metadata_csum_seed,^64bit",
        ],
    );
}

#[test]
fn layouts() {
    check(300, &["-b", "1024", "-O", "meta_bg,^resize_inode"]);
    check(
        300,
        &[
            "-b",
            "1024",
            "-O",
            "meta_bg,^resize_inode,^sparse_super,^flex_bg",
        ],
    );
    check(300, &["-b", "1024", "-O", "sparse_super2"]);
    check(
        300,
        &["-b", "1024", "-O", "^resize_inode,^flex_bg,^sparse_super"],
    );
    check(300, &["-b", "1024", "-O", "bigalloc", "-C", "16384"]);
    check(300, &["-b", "4096", "-O", "bigalloc", "-C", "65536"]);
}

#[test]
fn inode_sizes_and_extra_features() {
    check(64, &["-I", "128"]);
    check(64, &["-I", "1024"]);
    check(
        64,
        &[
            "-O",
            "orphan_file,mmp,inline_data,ea_inode,large_dir,encrypt",
        ],
    );
    check(
        64,
        &[
            "-O",
            "orphan_file,quota,project,verity,casefold,stable_inodes",
        ],
    );
    check(
        64,
        &[
            "-O",
            "^has_journal,^extent,^64bit,^huge_file,^dir_index,^ext_attr",
        ],
    );
}
