//! The smallest size of trees and options of 200 seeds.

use std::ops::Range;

use uext4_builder::{
    Attributes, BuildOptions, Builder, Content, Data, Entry, Node, ReadAt, Result, Sink, Xattr,
};
use uext4_format::{DeviceNumber, Timestamp};
use uext4_mkfs::{InodeCount, JournalSize};

use crate::sizes::check_minimum;

const SEEDS: u64 = 200;

/// Numbers of a seed: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A file of any size whose bytes are never zero.
struct Filled(u8);

impl ReadAt for Filled {
    fn read_at(&self, _: u64, buf: &mut [u8]) -> std::io::Result<()> {
        buf.fill(self.0);
        Ok(())
    }
}

fn file(size: u64, ranges: Vec<Range<u64>>) -> Node<'static> {
    Node::File(Content {
        size,
        data: Data::Later {
            ranges,
            file: Box::new(Filled(0xA5)),
        },
    })
}

/// A large file with few blocks.
fn sparse(random: &mut Random) -> Node<'static> {
    let size = 1 + random.below(1 << 38);
    let mut ranges = Vec::new();
    let mut at = 0;
    for _ in 0..random.below(12) {
        let start = at + random.below(1 << 34);
        at = (start + 1 + random.below(20_000)).min(size);
        if start < at {
            ranges.push(start..at);
        }
    }
    file(size, ranges)
}

fn xattrs(random: &mut Random, block_size: u64) -> Vec<Xattr> {
    let one = |name: &str, len: u64| Xattr {
        name: format!("user.{name}").into(),
        value: vec![b'v'; len as usize],
    };
    match random.below(12) {
        0 => vec![one("small", 1 + random.below(40))],
        1 => vec![one("large", 100 + random.below(block_size - 300))],
        2 => vec![one("a", 20), one("b", 200), one("c", random.below(300))],
        _ => Vec::new(),
    }
}

fn node(random: &mut Random, block_size: u64) -> Node<'static> {
    match random.below(20) {
        0..9 => file(0, Vec::new()),
        9..13 => {
            let size = 1 + random.below(40_000);
            let whole = 0..size;
            file(size, vec![whole])
        }
        13 => sparse(random),
        14..17 => {
            let most = block_size.min(4096) - 1;
            Node::Symlink(vec![b'l'; 1 + random.below(most) as usize])
        }
        17 => Node::Fifo,
        18 => Node::BlockDevice(DeviceNumber { major: 8, minor: 1 }),
        _ => Node::Directory,
    }
}

/// Directories up to 40 deep, with entries of all kinds.
fn feed(seed: u64, block_size: u64, builder: &mut Builder) -> Result<()> {
    let mut random = Random(seed);
    let mut directories = vec![String::new()];
    let chain = if random.one_in(4) { 40 } else { 3 };
    for depth in 0..random.below(chain) {
        let above = directories.last().expect("the root").clone();
        directories.push(format!("{above}directory {depth}/"));
    }
    let most = random.pick(&[3, 30, 300, 900]);
    for nr in 0..random.below(most) {
        let above = directories[random.below(directories.len() as u64) as usize].clone();
        let path = format!("{above}{}{nr}", "n".repeat(random.below(60) as usize));
        let node = node(&mut random, block_size);
        let attributes = Attributes {
            permissions: 0o644,
            mtime: Timestamp::new(1_600_000_000 + random.below(1000) as i64, 0),
            xattrs: xattrs(&mut random, block_size),
            ..Attributes::default()
        };
        builder.add(Entry {
            path: path.into(),
            attributes,
            node,
        })?;
    }
    Ok(())
}

/// Sets options of a seed; answers the block size.
fn set(seed: u64, options: &mut BuildOptions) -> u64 {
    let mut random = Random(!seed);
    let block_size = random.pick(&[1024, 1024, 2048, 4096, 4096, 4096, 65536]);
    let format = &mut options.format;
    format.block_size = Some(block_size);
    for list in [
        "^has_journal,^orphan_file",
        "^resize_inode",
        "^metadata_csum",
        "^64bit,^resize_inode",
        "^dir_index",
        "^orphan_file",
        "^sparse_super,^resize_inode",
        "meta_bg,^resize_inode",
        "sparse_super2,^resize_inode",
        "quota",
        "project",
        "inline_data",
    ] {
        if random.one_in(5) {
            format.apply_features(list).expect("known features");
        }
    }
    let mut cluster_blocks = 1;
    if random.one_in(5) {
        format.apply_features("bigalloc").expect("known features");
        cluster_blocks = random.pick(&[2, 4, 16]);
        format.cluster_size = Some(block_size * cluster_blocks);
    }
    if random.one_in(4) {
        // Small groups: a small tree has many.
        format.blocks_per_group = Some(cluster_blocks * random.pick(&[1024, 2048, 4096]));
    }
    if random.one_in(4) {
        format.journal = JournalSize::Blocks(1024 + random.below(3000) as u32);
    }
    if random.one_in(5) {
        format.inodes = InodeCount::AtLeast(1 + random.below(5000) as u32);
    }
    u64::from(block_size)
}

#[test]
fn no_image_of_a_seeded_tree_can_be_one_block_smaller() {
    for seed in 0..SEEDS {
        let block_size = {
            let mut options = BuildOptions::new(uext4_builder::Size::Min);
            set(seed, &mut options)
        };
        check_minimum(
            &format!("seed {seed}"),
            &|options| {
                set(seed, options);
            },
            &|builder| feed(seed, block_size, builder),
        );
    }
}
