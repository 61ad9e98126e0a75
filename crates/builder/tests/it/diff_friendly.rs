//! Images whose places follow from paths: how many blocks a change of the tree changes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use uext4_builder::{
    BuildOptions, Builder, Entry, Error, Node, PlacementRule, Result, Sink, Size, Xattr,
};
use uext4_mkfs::InodeCount;
use uext4_testkit::rng::Rng;
use uext4_testkit::tree::{Shape, TreeSpec};
use uext4_testkit::{oracle, skip};

use crate::support::{attributes, build, entry, later, options};

const MIB: u64 = 1 << 20;

fn friendly(bytes: u64) -> BuildOptions {
    let mut options = options(Size::Bytes(bytes));
    options.places = PlacementRule::DiffFriendly;
    options
}

/// A file of a tree: path, size, and a byte that its contents follow from.
#[derive(Clone, Debug)]
struct Spec {
    path: String,
    size: usize,
    seed: u8,
    /// Seconds of its time.
    time: i64,
}

impl Spec {
    fn entry(&self) -> Entry<'static> {
        let mut bytes = vec![0; self.size];
        for (at, block) in bytes.chunks_mut(4096).enumerate() {
            block.fill(at as u8 ^ self.seed | 1);
        }
        let mut entry = later(&self.path, &bytes);
        entry.attributes.mtime.seconds += self.time;
        entry
    }
}

/// Files of many sizes in many directories, about 58 MB for a thousand.
fn specs(seed: u64, count: usize) -> Vec<Spec> {
    let mut rng = Rng::new(seed);
    let size = |rng: &mut Rng| match rng.below(100) {
        0..60 => rng.below(12_000),
        60..95 => rng.below(100_000),
        95..99 => rng.below(600_000),
        _ => rng.below(5 << 20),
    };
    let file = |at: usize, rng: &mut Rng| Spec {
        path: format!("d{}/e{}/file {at}", at % 13, at % 7),
        size: size(rng) as usize,
        seed: rng.below(256) as u8,
        time: 0,
    };
    (0..count).map(|at| file(at, &mut rng)).collect()
}

fn add_all(builder: &mut Builder, specs: &[Spec]) -> Result<()> {
    for spec in specs {
        builder.add(spec.entry())?;
    }
    for at in 0..3000 {
        builder.add(entry(
            &format!("many/a name with the number {at}"),
            Node::Fifo,
        ))?;
    }
    for at in 0..20 {
        let target = format!("{at}").repeat(100).into_bytes();
        builder.add(entry(&format!("link {at}"), Node::Symlink(target)))?;
        let mut one = entry(&format!("attributes {at}"), Node::Fifo);
        one.attributes.xattrs = vec![Xattr {
            name: b"trusted.large".to_vec(),
            value: vec![b'x'; 500 + at % 4],
        }];
        builder.add(one)?;
    }
    Ok(())
}

fn image_of(image: &Path, options: BuildOptions, specs: &[Spec]) {
    build(image, options, |builder| add_all(builder, specs)).expect("image");
}

/// Blocks of 4 KiB that differ.
fn changed_blocks(one: &Path, other: &Path) -> usize {
    let (one, other) = (
        File::open(one).expect("one"),
        File::open(other).expect("other"),
    );
    let bytes = one.metadata().expect("size").len();
    assert_eq!(bytes, other.metadata().expect("size").len());
    let mut changed = 0;
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for at in (0..bytes).step_by(1 << 20) {
        let len = (bytes - at).min(MIB) as usize;
        one.read_exact_at(&mut left[..len], at).expect("read");
        other.read_exact_at(&mut right[..len], at).expect("read");
        if left[..len] != right[..len] {
            let pairs = left[..len].chunks(4096).zip(right[..len].chunks(4096));
            changed += pairs.filter(|(left, right)| left != right).count();
        }
    }
    changed
}

/// Images before and after changes of one tree.
struct Changes {
    dir: tempfile::TempDir,
    options: BuildOptions,
    specs: Vec<Spec>,
}

impl Changes {
    fn of(options: BuildOptions, specs: Vec<Spec>) -> Changes {
        let dir = oracle::scratch_dir().expect("scratch");
        image_of(&dir.path().join("before"), options.clone(), &specs);
        Changes {
            dir,
            options,
            specs,
        }
    }

    /// Blocks that a change of the tree changes.
    fn count(&self, change: impl FnOnce(&mut Vec<Spec>)) -> usize {
        let mut changed = self.specs.clone();
        change(&mut changed);
        let after = self.dir.path().join("after");
        image_of(&after, self.options.clone(), &changed);
        changed_blocks(&self.dir.path().join("before"), &after)
    }
}

#[test]
fn a_changed_file_of_2_gib_changes_its_blocks_and_its_inode() {
    let specs = specs(1, 1000);
    let small = specs.iter().position(|spec| (1..4097).contains(&spec.size));
    let small = small.expect("a small file");
    let mut changes = Changes::of(friendly(2 << 30), specs);
    let count = changes.count(|specs| specs[small].seed ^= 0x80);
    assert_eq!(count, 1, "the block");
    let count = changes.count(|specs| {
        specs[small].seed ^= 0x80;
        specs[small].time = 77;
    });
    assert_eq!(count, 2, "the block, and the inode with its time");
    // The canary: without the option, UUID and checksums follow from the contents.
    changes.options.places = PlacementRule::Packed;
    let changes = Changes::of(changes.options, changes.specs);
    let count = changes.count(|specs| specs[small].seed ^= 0x80);
    assert!(count > 100, "{count}");
}

/// Most blocks besides those of the file itself, and their mean: in one group, of which the tree
/// fills about 40 %.
#[test]
fn files_that_come_go_and_grow_leave_most_others_in_place() {
    let (mut sum, mut count) = (0, 0);
    for seed in 0..5 {
        let specs = specs(seed, 800);
        let mut rng = Rng::new(seed + 1000);
        let at = rng.below(800) as usize;
        let own = specs[at].size / 4096 + 1;
        let added = Spec {
            path: format!("d{}/e{}/a new file", seed % 13, seed % 7),
            size: 9000,
            seed: 1,
            time: 0,
        };
        let changes = Changes::of(friendly(128 * MIB), specs);
        let counts = [
            changes.count(|specs| specs.push(added)).saturating_sub(3),
            changes
                .count(|specs| drop(specs.remove(at)))
                .saturating_sub(own),
            changes
                .count(|specs| specs[at].size += 10_000)
                .saturating_sub(2 * own),
            changes
                .count(|specs| specs[at].size /= 2)
                .saturating_sub(2 * own),
        ];
        println!("seed {seed}: {counts:?} besides {own} blocks");
        assert!(
            counts.iter().all(|count| *count <= 300),
            "seed {seed}: {counts:?}"
        );
        sum += counts.iter().sum::<usize>();
        count += counts.len();
    }
    assert!(sum / count <= 64, "{} blocks a change", sum / count);
}

#[test]
fn order_and_threads_do_not_matter() {
    let dir = oracle::scratch_dir().expect("scratch");
    let specs = specs(3, 600);
    let mut first = None;
    for (nr, threads) in [1, 2, 8, 8].into_iter().enumerate() {
        let mut specs = specs.clone();
        let mut rng = Rng::new(nr as u64);
        for at in (1..specs.len()).rev() {
            specs.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let mut options = friendly(128 * MIB);
        options.threads = threads;
        let image = dir.path().join("image");
        image_of(&image, options, &specs);
        let bytes = std::fs::read(&image).expect("image");
        assert!(
            *first.get_or_insert_with(|| bytes.clone()) == bytes,
            "{threads} threads"
        );
    }
}

#[test]
fn random_trees_are_the_same_in_the_image() {
    if !skip::root_or_skip("random_trees_are_the_same_in_the_image") {
        return;
    }
    for (seed, list, block_size) in [
        (50, "", 4096),
        (58, "inline_data", 4096),
        (51, "^metadata_csum", 4096),
        (52, "^has_journal,^orphan_file", 1024),
        (53, "meta_bg,^resize_inode", 1024),
        (54, "sparse_super2,^resize_inode", 2048),
        (55, "mmp,^dir_index", 4096),
        (56, "uninit_bg,^metadata_csum", 4096),
    ] {
        let mut options = friendly(200 * MIB);
        options.format.block_size = Some(block_size);
        options.format.apply_features(list).expect("known names");
        let shape = Shape::new(300).for_block_size(block_size as usize);
        crate::trees::image_of(seed, &shape, options);
    }
    let mut options = friendly(400 * MIB);
    options.format.block_size = Some(65_536);
    let source = oracle::scratch_dir().expect("scratch");
    TreeSpec::generate(57, &Shape::new(200))
        .apply(source.path())
        .expect("tree");
    let dir = oracle::scratch_dir().expect("scratch");
    build(&dir.path().join("image"), options, |builder| {
        builder.directory(source.path(), b"")
    })
    .expect("blocks larger than a page");
}

/// Streams are placed when they come, replaced files leave their blocks.
#[test]
fn streams_and_files_of_one_layer_that_replace_each_other() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    build(&image, friendly(64 * MIB), |builder| {
        for round in 0..3 {
            for at in 0..40 {
                let bytes = vec![round + 1; 3000 * (at + 1)];
                builder.file(format!("d/{at}").as_bytes(), &bytes, attributes(0o644))?;
            }
        }
        builder.file(b"large", &vec![5; 5 << 20], attributes(0o600))
    })
    .expect("image");
    let found = crate::support::debugfs_cat(&image, "/d/17");
    assert!(found.len() == 3000 * 18 && found.bytes().all(|byte| byte == 3));
}

#[test]
fn images_may_be_nearly_full() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut options = friendly(64 * MIB);
    options.format.journal = uext4_mkfs::JournalSize::Blocks(1024);
    let fill = |count: usize| {
        move |builder: &mut Builder| {
            for at in 0..count {
                let bytes = vec![at as u8 | 1; 4096 * (1 + at % 40)];
                builder.file(format!("{at}").as_bytes(), &bytes, attributes(0o644))?;
            }
            Ok(())
        }
    };
    build(&image, options.clone(), fill(550)).expect("44 of 64 MiB");
    let error = build(&image, options, fill(800))
        .expect_err("64 of 64 MiB")
        .to_string();
    assert!(
        error.contains("give twice the size of the contents"),
        "{error}"
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let error = |options: BuildOptions| match Builder::create(&image, options) {
        Err(Error::Refused {
            problem, advice, ..
        }) => format!("{problem}; {advice}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    };
    for size in [Size::Min, Size::MinPlusPercent(20)] {
        let mut options = options(size);
        options.places = PlacementRule::DiffFriendly;
        assert!(error(options).contains("give a size in bytes"));
    }
    let mut quota = friendly(64 * MIB);
    quota.format.apply_features("quota").expect("known");
    assert!(error(quota).contains("leave quota out"));
    let mut clusters = friendly(64 * MIB);
    clusters.format.apply_features("bigalloc").expect("known");
    assert!(error(clusters).contains("leave bigalloc out"));
    let mut few = friendly(64 * MIB);
    few.format.inodes = InodeCount::AtLeast(16);
    let refused = build(&image, few, |builder| {
        (0..2000).try_for_each(|at| builder.add(entry(&format!("{at}"), Node::Fifo)))
    });
    let refused = refused.expect_err("too few inodes").to_string();
    assert!(refused.contains("give the number of inodes"), "{refused}");
}
