//! Readers of the copy of an index never see half a change.

use crate::cache::dcache::index_copy::IndexCopy;
use uext4_format::LogicalBlock;
use uext4_format::dirent::LeafTail;
use uext4_format::hash::HashVersion;
use uext4_format::htree::{DxEntry, DxNode, RootInfo, init_root};
use uext4_journal::Image;
use uext4_sync::{Rank, VersionedLock};

const NODE: LogicalBlock = LogicalBlock(1);

/// Blocks from 2^9 on are not copied.
type Copy = IndexCopy<10>;

fn info(indirect_levels: u8) -> RootInfo {
    let hash_version = HashVersion::HalfMd4;
    RootInfo {
        hash_version,
        indirect_levels,
    }
}

/// A root, the first of whose entries leads to `first`.
fn root(first: LogicalBlock, more: &[(u32, u32)]) -> Image {
    let mut bytes = vec![0; 1024];
    init_root(&mut bytes, HashVersion::HalfMd4, LeafTail::None, first);
    fill(DxNode::root(&mut bytes[..]), more);
    bytes.into()
}

/// A node that leads to `first`, then to the blocks of `more`.
fn node(first: LogicalBlock, more: &[(u32, u32)]) -> Image {
    let mut above = root(first, &[]).to_vec();
    let mut bytes = vec![0; above.len()];
    DxNode::root(&mut above[..]).push_down(&mut bytes, NODE, LeafTail::None);
    fill(DxNode::node(&mut bytes[..]), more);
    bytes.into()
}

fn fill(mut node: DxNode<&mut [u8]>, more: &[(u32, u32)]) {
    for (at, &(hash, block)) in more.iter().enumerate() {
        let block = LogicalBlock(block);
        let added = node.insert(at + 1, DxEntry { hash, block });
        added.expect("few entries");
    }
}

fn leaf(copy: &Copy, index: &VersionedLock, major: u32) -> Option<u32> {
    let version = index.version().expect("it is open");
    let (leaf, same) = copy.leaf(version, |_| major)?;
    assert_eq!(same, major);
    Some(leaf.0)
}

#[test]
fn the_way_of_a_hash_is_that_of_its_version() {
    let (copy, index) = (Copy::default(), VersionedLock::new(Rank::DirIndex));
    let first = index.version().expect("it is open");
    assert!(copy.lacks(first, NODE) && leaf(&copy, &index, 7).is_none());
    let nodes = [
        (LogicalBlock(0), root(NODE, &[(1000, 600)])),
        (NODE, node(LogicalBlock(2), &[(100, 3), (301, 4), (700, 5)])),
    ];
    assert_eq!(copy.bytes(), 0);
    copy.put(first, info(1), &nodes);
    assert!((2000..8192).contains(&copy.bytes()), "two nodes of 1 KiB");
    assert!(!copy.lacks(first, NODE));
    let ways = [(0, 2), (98, 2), (100, 3), (302, 4), (700, 5), (998, 5)];
    for (major, block) in ways {
        assert_eq!(leaf(&copy, &index, major), Some(block), "{major}");
    }
    // A hash in two leaves, a node without a copy.
    assert_eq!(leaf(&copy, &index, 300), None);
    assert_eq!(leaf(&copy, &index, 2000), None);

    let moving = index.write_open();
    index.begin_move();
    assert_eq!(leaf(&copy, &index, 400), Some(4), "what moves is locked");
    let split = node(LogicalBlock(2), &[(100, 3), (301, 4), (500, 6), (700, 5)]);
    copy.end_move(&index, [(NODE, split)]);
    drop(moving);
    assert_eq!(leaf(&copy, &index, 400), Some(4));
    assert_eq!(leaf(&copy, &index, 600), Some(6));
    assert!(copy.leaf(first, |_| 600).is_none(), "it is past");

    drop(index.write());
    assert_eq!(leaf(&copy, &index, 600), None, "it was closed");
    let moving = index.write_open();
    index.begin_move();
    copy.end_move(&index, []);
    drop(moving);
    assert_eq!(leaf(&copy, &index, 600), None, "a move adds what it moves");
    let version = index.version().expect("it is open");
    copy.put(
        version,
        info(0),
        &[(LogicalBlock(0), root(LogicalBlock(9), &[]))],
    );
    assert_eq!(leaf(&copy, &index, 600), Some(9));
    assert!(copy.lacks(version, NODE), "it is of another structure");
    copy.clear();
    assert_eq!(leaf(&copy, &index, 600), None);
}

/// In structure number n every path leads to leaf n, through one of two nodes.
#[test]
fn no_reader_sees_half_a_change() {
    let (copy, index) = (Copy::default(), VersionedLock::new(Rank::DirIndex));
    let leads_to = |leaf: u32| {
        let more: Vec<_> = (1..40).map(|at| (at * 10, leaf)).collect();
        let first = LogicalBlock(leaf);
        let other = LogicalBlock(2 + leaf % 2);
        [
            (LogicalBlock(0), root(other, &[])),
            (other, node(first, &more)),
        ]
    };
    // Each of the nodes must be copied before it is moved to.
    let version = index.version().expect("it is open");
    let [_, even] = leads_to(10);
    let [start, odd] = leads_to(11);
    copy.put(version, info(1), &[start, odd, even]);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (copy, index, is_done) = (&copy, &index, &is_done);
            scope.spawn(move || {
                let mut major = reader;
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    major = (major + 37) % 800;
                    let Some(version) = index.version() else {
                        continue;
                    };
                    if let Some(leaf) = copy.leaf(version, |_| major) {
                        assert_eq!(leaf.0.0, 11 + version.structure() % 900);
                    }
                }
            });
        }
        for _ in 0..20_000 {
            let _moving = index.write_open();
            index.begin_move();
            let next = index.after_move().structure();
            copy.end_move(&index, leads_to(11 + next % 900));
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let last = index.version().expect("it is open").structure();
    assert_eq!(leaf(&copy, &index, 5), Some(11 + last % 900));
}
