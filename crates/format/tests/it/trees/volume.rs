//! Reads inodes and blocks of an image, and maps files with uext4's trees.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tempfile::TempDir;
use uext4_format::extent::{Expect, ExtentNode, ExtentState};
use uext4_format::indirect::{IndirectPath, pointer, validate};
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::{
    BlockNr, Checksums, DamageLocation, Geometry, GroupDescriptor, Inode, InodeFlags, InodeNr,
    LogicalBlock, Seed, Superblock,
};

pub(super) struct Volume {
    _dir: TempDir,
    file: File,
    pub(super) superblock: Superblock,
    pub(super) geometry: Geometry,
    checksums: Checksums,
}

/// An inode with the values that the checks need.
pub(super) struct Node {
    pub(super) ino: InodeNr,
    pub(super) inode: Inode,
    pub(super) raw: Vec<u8>,
    pub(super) seed: Option<Seed>,
}

impl Node {
    pub(super) fn has(&self, flags: InodeFlags) -> bool {
        self.inode.flags.contains(flags)
    }
}

impl Volume {
    pub(super) fn open(dir: TempDir, path: &Path) -> Volume {
        let file = File::open(path).expect("the image is there");
        let mut bytes = [0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)
            .expect("superblock");
        let superblock = Superblock::parse(&bytes).expect("superblock");
        let geometry = superblock.geometry().expect("geometry");
        let checksums = superblock.checksums();
        Volume {
            _dir: dir,
            file,
            superblock,
            geometry,
            checksums,
        }
    }

    pub(super) fn seed(&self) -> Option<Seed> {
        self.checksums.metadata
    }

    pub(super) fn block(&self, nr: BlockNr) -> Vec<u8> {
        let size = self.geometry.block_size() as usize;
        let mut block = vec![0; size];
        self.file
            .read_exact_at(&mut block, nr.0 * size as u64)
            .expect("inside the image");
        block
    }

    pub(super) fn node(&self, ino: InodeNr) -> Option<Node> {
        let (group, index) = self.geometry.split_inode(ino)?;
        let (nr, offset) = self.geometry.descriptor_location(group);
        let descriptor = &self.block(nr)[offset as usize..][..usize::from(self.geometry.desc_size)];
        let descriptor =
            GroupDescriptor::parse(descriptor, group, &self.geometry, &self.checksums).ok()?;
        let (nr, offset) = self.geometry.inode_location(descriptor.inode_table, index);
        let raw =
            self.block(nr)[offset as usize..][..usize::from(self.geometry.inode_size)].to_vec();
        let inode = Inode::parse(&raw, ino, &self.geometry, &self.checksums).ok()?;
        let seed = self.checksums.inode_seed(ino, inode.generation);
        (inode.links > 0).then_some(Node {
            ino,
            inode,
            raw,
            seed,
        })
    }

    /// The root and all inodes in use that are not reserved.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> {
        let usual = self.geometry.first_inode..=self.geometry.inodes_count;
        std::iter::once(2)
            .chain(usual)
            .filter_map(|ino| self.node(InodeNr(ino)))
    }

    fn blocks(&self) -> std::ops::Range<u64> {
        u64::from(self.geometry.first_data_block)..self.geometry.blocks_count
    }

    /// Logical block, physical block, state of everything mapped; checks each tree node.
    pub(super) fn map(&self, node: &Node) -> Vec<(u32, BlockNr, ExtentState)> {
        let mut found = Vec::new();
        if node.has(InodeFlags::EXTENTS) {
            let root = ExtentNode::new(&node.inode.i_block[..]);
            self.walk(node, &root, &Expect::root(self.blocks()), &mut found);
            return found;
        }
        let size = u64::from(self.geometry.block_size());
        for logical in 0..node.inode.size.div_ceil(size) as u32 {
            let mut bytes = node.inode.i_block.to_vec();
            let path = IndirectPath::new(LogicalBlock(logical), size as usize).expect("in reach");
            let mut at = BlockNr(0);
            for (level, &offset) in path.offsets().iter().enumerate() {
                validate(&bytes, &self.blocks(), DamageLocation::Inode(node.ino))
                    .expect("pointers");
                at = pointer(&bytes, offset as usize);
                if at.0 == 0 {
                    break;
                }
                if level < path.indirect_levels() {
                    bytes = self.block(at);
                }
            }
            if at.0 != 0 {
                found.push((logical, at, ExtentState::Written));
            }
        }
        found
    }

    fn walk<B: AsRef<[u8]>>(
        &self,
        node: &Node,
        tree: &ExtentNode<B>,
        expect: &Expect,
        found: &mut Vec<(u32, BlockNr, ExtentState)>,
    ) {
        tree.validate(expect, DamageLocation::Inode(node.ino))
            .expect("extent node");
        if tree.depth() == 0 {
            for extent in tree.extents() {
                let one = |at| {
                    (
                        extent.logical.0 + at,
                        BlockNr(extent.start.0 + u64::from(at)),
                    )
                };
                let run = (0..u32::from(extent.len)).map(one);
                found.extend(run.map(|(logical, block)| (logical, block, extent.state)));
            }
            return;
        }
        for (at, index) in tree.indexes().enumerate() {
            let block = self.block(index.child);
            let child = ExtentNode::new(&block[..]);
            if let Some(seed) = node.seed {
                child
                    .verify_checksum(seed, DamageLocation::Block(index.child))
                    .expect("extent checksum");
            }
            self.walk(node, &child, &expect.child(tree, at), found);
        }
    }
}
