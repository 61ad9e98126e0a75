//! The smallest size, and equal bytes for equal trees.

use std::fs;
use std::path::Path;

use uext4_builder::{BuildOptions, Builder, Error, Node, Result, Sink, Size};
use uext4_mkfs::{InodeCount, JournalSize};
use uext4_testkit::tree::{Shape, TreeSpec};
use uext4_testkit::{oracle, skip};

use crate::support::{build, entry, later, options};

/// The smallest image, and the same tree in one block less.
pub(crate) fn check_minimum(
    name: &str,
    set: &dyn Fn(&mut BuildOptions),
    feed: &dyn Fn(&mut Builder) -> Result<()>,
) {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut smallest = options(Size::Min);
    set(&mut smallest);
    let report = build(&image, smallest, feed).unwrap_or_else(|error| panic!("{name}: {error}"));
    let geometry = report.geometry;
    let again = |blocks: u64| {
        let mut fixed = options(Size::Bytes(blocks << geometry.block_bits));
        set(&mut fixed);
        if fixed.format.inodes == InodeCount::Usage {
            fixed.format.inodes = InodeCount::AtLeast(1);
        }
        fixed.format.reserved_permyriad = 0;
        let mut builder = Builder::create(&image, fixed)?;
        feed(&mut builder)?;
        builder.finish()
    };
    let same = again(geometry.blocks_count).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(same.geometry.blocks_count, geometry.blocks_count, "{name}");
    for less in 1..4 {
        match again(geometry.blocks_count - less) {
            Err(Error::NoSpace { .. } | Error::Full { .. } | Error::Format(_)) => {}
            Ok(_) => panic!("{name}: {less} blocks less work too"),
            Err(error) => panic!("{name}: {less} blocks less: {error}"),
        }
    }
}

#[test]
fn one_block_less_than_the_minimum_is_refused() {
    let none = |_: &mut BuildOptions| {};
    check_minimum("empty", &none, &|_| Ok(()));
    check_minimum(
        "small blocks",
        &|options| options.format.block_size = Some(1024),
        &|builder| builder.add(later("file", &[7; 300_000])),
    );
    for mib in [1, 7, 30, 126, 128, 140] {
        check_minimum(&format!("{mib} MiB"), &none, &|builder| {
            let bytes = vec![3; mib << 20];
            builder.file(b"file", &bytes, crate::support::attributes(0o644))
        });
    }
    check_minimum(
        "many inodes",
        &|options| options.format.block_size = Some(1024),
        &|builder| {
            for at in 0..20_000 {
                builder.add(entry(&format!("d{}/{at}", at % 50), Node::Fifo))?;
            }
            Ok(())
        },
    );
    let journal = |options: &mut BuildOptions| options.format.journal = JournalSize::Blocks(3000);
    check_minimum("journal", &journal, &|builder| {
        builder.add(later("file", &[1; 5000]))
    });
    let without = |options: &mut BuildOptions| {
        options
            .format
            .apply_features("^resize_inode,^has_journal")
            .expect("known");
    };
    check_minimum("without", &without, &|builder| {
        builder.add(later("file", &[1; 5000]))
    });
}

/// A tree of a seed as entries, in an order of another seed.
fn feed_shuffled(source: &Path, seed: u64, builder: &mut Builder) -> Result<()> {
    let mut entries = Recorded::default();
    uext4_builder::Host::open(source)?.feed(b"", &mut entries)?;
    let mut order: Vec<_> = entries.0.into_iter().collect();
    let mut state = seed | 1;
    for at in (1..order.len()).rev() {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    order.sort_by_key(|entry| matches!(entry.node, Node::Link(_)));
    order.into_iter().try_for_each(|entry| builder.add(entry))
}

#[derive(Default)]
struct Recorded(Vec<uext4_builder::Entry<'static>>);

impl Sink for Recorded {
    fn next_layer(&mut self) -> Result<()> {
        Ok(())
    }
    fn add(&mut self, entry: uext4_builder::Entry<'_>) -> Result<()> {
        let node = match entry.node {
            Node::File(uext4_builder::Content {
                size,
                data: uext4_builder::Data::Later { ranges, file },
            }) => Node::File(uext4_builder::Content {
                size,
                data: uext4_builder::Data::Later { ranges, file },
            }),
            Node::File(_) => unreachable!("files of the host are read later"),
            Node::Directory => Node::Directory,
            Node::Symlink(target) => Node::Symlink(target),
            Node::Link(target) => Node::Link(target),
            Node::CharDevice(device) => Node::CharDevice(device),
            Node::BlockDevice(device) => Node::BlockDevice(device),
            Node::Fifo => Node::Fifo,
            Node::Socket => Node::Socket,
        };
        self.0.push(uext4_builder::Entry {
            path: entry.path,
            attributes: entry.attributes,
            node,
        });
        Ok(())
    }
    fn hide(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn hide_below(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn equal_trees_make_equal_images() {
    if !skip::root_or_skip("equal_trees_make_equal_images") {
        return;
    }
    for list in ["", "inline_data", "bigalloc"] {
        check_equal_images(list);
    }
}

fn check_equal_images(list: &str) {
    let source = oracle::scratch_dir().expect("scratch");
    let tree = TreeSpec::generate(77, &Shape::new(400));
    tree.apply(source.path()).expect("tree");
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut first: Option<Vec<u8>> = None;
    for (threads, seed) in [(1, 0), (2, 0), (8, 0), (3, 5), (1, 99)] {
        let mut options = options(Size::MinPlusPercent(10));
        options.threads = threads;
        options.format.apply_features(list).expect("known");
        build(&image, options, |builder| match seed {
            0 => builder.directory(source.path(), b""),
            seed => feed_shuffled(source.path(), seed, builder),
        })
        .expect("image");
        let bytes = fs::read(&image).expect("image");
        match &first {
            None => first = Some(bytes),
            Some(first) => assert!(*first == bytes, "{threads} threads, seed {seed}"),
        }
    }
    // A changed byte changes the identity, hence more than the byte.
    let mut changed = options(Size::MinPlusPercent(10));
    changed.threads = 1;
    build(&image, changed, |builder| {
        builder.directory(source.path(), b"")?;
        builder.add(later("one more", b""))
    })
    .expect("image");
    let uuid = |bytes: &[u8]| bytes[1024 + 0x68..1024 + 0x78].to_vec();
    let bytes = fs::read(&image).expect("image");
    assert_ne!(
        uuid(&bytes),
        uuid(&first.expect("built")),
        "the identity of another tree"
    );
}

#[test]
fn a_tree_that_does_not_fit_leaves_nothing() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    fs::write(&image, "what was there").expect("write");
    let error = build(&image, options(Size::Bytes(2 << 20)), |builder| {
        builder.file(b"file", &[1; 3 << 20], crate::support::attributes(0o644))
    });
    let text = error.expect_err("too large").to_string();
    assert!(text.contains("512 blocks is full"), "{text}");
    assert_eq!(fs::read(&image).expect("image"), b"what was there");
    assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 1);
}

#[test]
fn a_cancelled_build_leaves_nothing() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut builder = Builder::create(&image, options(Size::Min)).expect("builder");
    builder.watch(|progress| match progress.bytes {
        0..2_000_000 => std::ops::ControlFlow::Continue(()),
        _ => std::ops::ControlFlow::Break(()),
    });
    let added = (0..50).try_for_each(|at| builder.add(later(&format!("{at}"), &[9; 100_000])));
    added.expect("nothing is written before the end");
    let error = builder.finish().expect_err("cancelled");
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 0);
}

/// Space that is added to the smallest size brings inodes, as many as mke2fs gives to it.
#[test]
fn added_space_brings_inodes() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let made = |size, inodes| {
        let mut options = options(size);
        options.format.inodes = inodes;
        let report = build(&image, options, |builder| {
            for nr in 0..20 {
                let name = format!("file {nr}");
                builder.file(
                    name.as_bytes(),
                    &[1; 70_000],
                    crate::support::attributes(0o644),
                )?;
            }
            Ok(())
        });
        let report = report.expect("image");
        oracle::assert_clean(&image);
        (report.geometry.size_bytes(), report.superblock)
    };
    let (least, _) = made(Size::Min, InodeCount::Usage);
    for percent in [20, 200, 4000] {
        let (size, disk) = made(Size::MinPlusPercent(percent), InodeCount::Usage);
        let per_inode = if size < 3 << 20 { 8192 } else { 4096 };
        let wanted = (size - least) / per_inode;
        let free = u64::from(disk.free_inodes_count);
        assert!(
            free + 8 >= wanted * 9 / 10,
            "+{percent} %: {free} of {wanted}"
        );
        assert!(size <= least + least * u64::from(percent) / 100 + (64 << 10));
    }
    // A number that was given stays.
    let (_, disk) = made(Size::MinPlusPercent(200), InodeCount::AtLeast(100));
    assert!(disk.inodes_count < 120, "{}", disk.inodes_count);
}
