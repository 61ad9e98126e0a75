//! All targets on seeds and on mutations of them, for builds without libFuzzer.

use crate::{directories, image, journal, tables};
use uext4_format::jbd2::{ChecksumKind, DescriptorWriter, Layout, RevokeWriter};
use uext4_format::{BlockNr, Checksums, InodeNr, LogicalBlock, DamageLocation, Superblock, Tid};
use uext4_format::{dirent, extent, htree, mmp, orphan_file, quota, xattr};

type Target = fn(&[u8]);

const TARGETS: [Target; 14] = [
    tables::superblock,
    tables::group,
    tables::inode,
    tables::extent,
    tables::xattr,
    tables::acl,
    tables::mmp_and_orphans,
    tables::quota,
    directories::leaf,
    directories::index,
    directories::inline,
    journal::superblock,
    journal::block,
    journal::fast_commits,
];

/// A sound structure of each kind, in 1 KiB where it is a block.
fn seeds() -> Vec<Vec<u8>> {
    let block = || vec![0; 1024];
    let mut seeds = vec![
        Superblock::blank().to_bytes().to_vec(),
        vec![0; 256],
        vec![0xFF; 300],
    ];
    let mut leaf = block();
    let kind = dirent::DirEntryType::Directory;
    let (inode, parent, tail) = (InodeNr(12), InodeNr(2), dirent::LeafTail::Checksum);
    dirent::init_first_block(&mut leaf, tail, inode, parent, kind);
    let mut root = leaf.clone();
    htree::init_root(
        &mut root,
        uext4_format::hash::HashVersion::Tea,
        tail,
        LogicalBlock(1),
    );
    let mut node = block();
    htree::DxNode::init_node(&mut node[..], tail, LogicalBlock(1));
    let mut extents = block();
    let mut tree = extent::ExtentNode::init_block(&mut extents[..], 0);
    for at in 0..20_u32 {
        let extent = extent::Extent {
            logical: LogicalBlock(at * 9),
            start: BlockNr(u64::from(at) * 20 + 100),
            len: 8,
            state: extent::ExtentState::Written,
        };
        tree.insert_extent(at as usize, extent)
            .expect("there is space");
    }
    let mut attributes = block();
    let name = xattr::XattrName::from_full(b"user.a").expect("a name");
    let mut set = xattr::XattrSet::new();
    set.set(name, xattr::XattrValue::Here(vec![7; 30]));
    xattr::encode_block(&mut attributes, &set).expect("there is space");
    let mut inode_area = vec![0; 96];
    xattr::encode_ibody(&mut inode_area, &set).expect("there is space");
    let mut mmp_block = block();
    mmp::Mmp::clean(5).write_to(&mut mmp_block, &Checksums::NONE);
    let mut orphans = block();
    orphan_file::seal_orphan_block(&mut orphans, BlockNr(9), None);
    let layout = Layout::new(1024, ChecksumKind::V3, true, &[7; 16]);
    let mut descriptor = DescriptorWriter::new(&layout, Tid(5));
    let mut revoke = RevokeWriter::new(&layout, Tid(5));
    for nr in 0..9 {
        descriptor.push(BlockNr(nr), &[1; 1024], false, &[7; 16]);
        revoke.push(BlockNr(nr));
    }
    let journal = uext4_format::jbd2::Superblock::new(1024, 1024, 1, [7; 16]);
    let head = [9, 0, 8, 0, 0, 0, 0, 0, 5, 0, 0, 0];
    let record = [2, 0, 12, 0, 12, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0];
    seeds.extend([
        leaf, root, node, extents, attributes, inode_area, mmp_block, orphans,
    ]);
    seeds.extend([
        descriptor.finish(),
        revoke.finish(),
        journal.encode().to_vec(),
    ]);
    seeds.extend([[head.as_slice(), &record].concat(), quota_file()]);
    seeds
}

fn quota_file() -> Vec<u8> {
    let mut tree = quota::QuotaTree::new(quota::QuotaKind::User, 60);
    let (_, mut patches) = tree.insert(1000);
    patches.push(tree.info_patch());
    let mut file = vec![0; tree.used_bytes() as usize];
    for patch in patches {
        let at = patch.at as usize;
        file[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    file
}

/// A generator of numbers (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

#[test]
fn seeds_and_their_mutations_are_taken_or_refused() {
    let mut numbers = Numbers(88_172_645_463_325_252);
    for seed in seeds() {
        for target in TARGETS {
            target(&seed);
        }
        for round in 0..400 {
            let mut data = seed.clone();
            for _ in 0..1 + numbers.below(6) {
                let (at, front) = (numbers.below(data.len()), numbers.below(data.len().min(48)));
                let at = if numbers.below(2) == 0 { at } else { front };
                data[at] = [0, 1, 0x7F, 0x80, 0xFF, numbers.below(256) as u8][numbers.below(6)];
            }
            if round % 5 == 0 {
                data.truncate(numbers.below(data.len()));
            }
            for target in TARGETS {
                target(&data);
            }
        }
    }
}

#[test]
fn mutated_images_are_mounted_or_refused() {
    let mut numbers = Numbers(4711);
    image::image(&[]);
    for _ in 0..60 {
        // Metadata is at the front.
        let changes = (0..1 + numbers.below(8)).flat_map(|_| {
            let [low, middle, high, _] = (numbers.below(400 << 10) as u32).to_le_bytes();
            [low, middle, high, numbers.below(256) as u8]
        });
        image::image(&changes.collect::<Vec<u8>>());
    }
}

#[test]
fn the_sound_seeds_are_sound() {
    let place = DamageLocation::Superblock;
    let sound = |test: &dyn Fn(&[u8]) -> bool| seeds().iter().any(|seed| test(seed));
    let root = extent::Expect::root(1..1 << 48);
    assert!(sound(&|seed| extent::ExtentNode::new(seed)
        .validate(&root, place)
        .is_ok()));
    assert!(sound(
        &|seed| xattr::decode_block(seed, place).is_ok_and(|set| set.len() == 1)
    ));
    let tail = dirent::LeafTail::Checksum;
    assert!(sound(
        &|seed| htree::DxNode::parse_node(seed, tail, place).is_ok()
    ));
    assert!(sound(
        &|seed| uext4_format::jbd2::Superblock::parse(seed).is_ok()
    ));
}
