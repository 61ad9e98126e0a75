//! Random trees of the host: the kernel shows in the image what is in the directory.

use std::fs;
use std::path::Path;

use uext4_builder::{BuildOptions, Builder, Node, Sink, Size};
use uext4_mkfs::JournalSize;
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::tree::{Shape, TreeSpec};
use uext4_testkit::{oracle, skip};

use crate::support::{build, entry, later, mounted, options};

/// Directories have the mtime of their source, and lost+found is new.
fn compare(test: &str, image: &Path, source: &Path) {
    let Some(mount) = mounted(test, image) else {
        return;
    };
    let expected = Manifest::of_dir(source).expect("source");
    let mut found = Manifest::of_dir(mount.path()).expect("image");
    found.entries.remove(&b"lost+found"[..]);
    let root = found.entries.get_mut(&b""[..]).expect("root");
    root.nlink -= 1;
    expected.assert_same(&found, &Policy::default().check(Field::Root));
}

fn random_tree(seed: u64, shape: &Shape) -> tempfile::TempDir {
    let dir = oracle::scratch_dir().expect("scratch");
    let tree = TreeSpec::generate(seed, shape);
    tree.apply(dir.path()).expect("a tree on this machine");
    dir
}

pub(crate) fn image_of(seed: u64, shape: &Shape, options: BuildOptions) {
    let source = random_tree(seed, shape);
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    build(&image, options, |builder| {
        builder.directory(source.path(), b"")
    })
    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    compare("random trees", &image, source.path());
}

#[test]
fn random_trees_are_the_same_in_the_image() {
    if !skip::root_or_skip("random_trees_are_the_same_in_the_image") {
        return;
    }
    for seed in 0..6 {
        image_of(seed, &Shape::new(300), options(Size::Min));
    }
}

#[test]
fn random_trees_in_images_of_a_given_size() {
    if !skip::root_or_skip("random_trees_in_images_of_a_given_size") {
        return;
    }
    for (seed, block_size) in [(10, 1024), (11, 2048), (12, 4096), (13, 16384)] {
        let mut options = options(Size::Bytes(200 << 20));
        options.format.block_size = Some(block_size);
        let shape = Shape::new(200).for_block_size(block_size as usize);
        if block_size <= 4096 {
            image_of(seed, &shape, options);
        } else {
            let source = random_tree(seed, &shape);
            let dir = oracle::scratch_dir().expect("scratch");
            let image = dir.path().join("image");
            build(&image, options, |builder| {
                builder.directory(source.path(), b"")
            })
            .expect("blocks larger than a page");
        }
    }
}

#[test]
fn other_features_make_clean_images() {
    if !skip::root_or_skip("other_features_make_clean_images") {
        return;
    }
    for list in [
        "^metadata_csum",
        "^has_journal",
        "^64bit",
        "^resize_inode",
        "^dir_index",
        "^orphan_file",
        "^sparse_super,^resize_inode",
        "large_dir",
        "mmp",
        "^metadata_csum,uninit_bg",
        "^filetype",
        "^extra_isize",
        "meta_bg,^resize_inode",
        "sparse_super2,^resize_inode",
        "quota",
        "quota,project",
        "verity",
        "encrypt",
        "inline_data",
        "bigalloc",
        "bigalloc,inline_data,quota,^resize_inode",
        "inline_data,quota,project",
        "inline_data,^metadata_csum,^extra_isize",
    ] {
        for size in [Size::Min, Size::Bytes(150 << 20), Size::MinPlusPercent(30)] {
            let mut options = options(size);
            options.format.apply_features(list).expect("known names");
            image_of(20, &Shape::new(120), options);
        }
    }
}

/// e2fsck is the only judge: not every kernel has the tables of Unicode.
#[test]
fn the_feature_casefold_makes_a_clean_image() {
    if !skip::root_or_skip("the_feature_casefold_makes_a_clean_image") {
        return;
    }
    let source = random_tree(21, &Shape::new(60));
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut options = options(Size::Min);
    options.format.apply_features("casefold").expect("known");
    build(&image, options, |builder| {
        builder.directory(source.path(), b"")
    })
    .expect("image");
    let header = oracle::dumpe2fs(&image).expect("dumpe2fs");
    let features = header.text("Filesystem features").expect("features");
    assert!(features.contains("casefold"), "{features}");
}

#[test]
fn inodes_of_any_size() {
    if !skip::root_or_skip("inodes_of_any_size") {
        return;
    }
    let with = [256, 512, 1024].map(|size| (size, "inline_data"));
    let without = [128, 256, 512, 1024].map(|size| (size, ""));
    for (inode_size, list) in with.into_iter().chain(without) {
        let mut options = options(Size::Min);
        options.format.inode_size = Some(inode_size);
        options.format.apply_features(list).expect("known names");
        let source = random_tree(30, &Shape::new(120));
        let dir = oracle::scratch_dir().expect("scratch");
        let image = dir.path().join("image");
        build(&image, options, |builder| {
            builder.directory(source.path(), b"")
        })
        .expect("image");
        if inode_size > 128 {
            compare("inodes_of_any_size", &image, source.path());
        }
    }
}

/// The comparison fails if a byte of the source is another one.
#[test]
fn canary_of_the_comparison() {
    if !skip::root_or_skip("canary_of_the_comparison") {
        return;
    }
    let source = random_tree(40, &Shape::new(60));
    fs::write(source.path().join("canary"), "one").expect("write");
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    build(&image, options(Size::Min), |builder| {
        builder.directory(source.path(), b"")
    })
    .expect("image");
    let time = fs::metadata(source.path().join("canary")).and_then(|found| found.modified());
    let file = fs::File::options()
        .write(true)
        .open(source.path().join("canary"));
    let file = file.expect("open");
    std::io::Write::write_all(&mut &file, b"two").expect("write");
    file.set_modified(time.expect("time")).expect("set time");
    if mounted("canary_of_the_comparison", &image).is_some() {
        let outcome = std::panic::catch_unwind(|| compare("canary", &image, source.path()));
        outcome.expect_err("the contents differ");
    }
}

#[test]
fn large_directories_are_hashed() {
    for (names, block_size) in [(20, 1024), (3000, 1024), (70_000, 1024), (30_000, 4096)] {
        let dir = oracle::scratch_dir().expect("scratch");
        let image = dir.path().join("image");
        let mut options = options(Size::Min);
        options.format.block_size = Some(block_size);
        build(&image, options, |builder| {
            for at in 0..names {
                builder.add(entry(&format!("d/a file with the number {at}"), Node::Fifo))?;
            }
            Ok(())
        })
        .expect("image");
        let indexed = oracle::debugfs_one(&image, "htree_dump d").expect("debugfs");
        assert_eq!(indexed.contains("Root node dump"), names > 20, "{indexed}");
        let Some(mount) = mounted("large_directories_are_hashed", &image) else {
            return;
        };
        let found = fs::read_dir(mount.path().join("d")).expect("d").count();
        assert_eq!(found, names);
        for at in (0..names).step_by(97) {
            let path = mount.path().join(format!("d/a file with the number {at}"));
            fs::symlink_metadata(path).expect("found by its hash");
        }
    }
}

#[test]
fn many_subdirectories_are_not_counted() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let feed = |builder: &mut Builder| {
        for at in 0..65_010 {
            builder.add(entry(&format!("d/{at}"), Node::Directory))?;
        }
        Ok(())
    };
    build(&image, options(Size::Min), feed).expect("image");
    let stat = oracle::debugfs_one(&image, "stat d").expect("debugfs");
    assert!(stat.contains("Links: 1 "), "{stat}");
    let mut without = options(Size::Min);
    without.format.apply_features("^dir_nlink").expect("known");
    let error = build(&image, without, feed).expect_err("too many links");
    assert!(error.to_string().contains("dir_nlink"), "{error}");
}

#[test]
fn contents_decide_about_holes() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut bytes = vec![0; 5 << 20];
    for at in (8192..5 << 20).step_by(24576) {
        bytes[at] = 1;
    }
    build(&image, options(Size::Min), |builder| {
        builder.add(later("later", &bytes))?;
        builder.file(b"stream", &bytes, crate::support::attributes(0o600))
    })
    .expect("image");
    let Some(mount) = mounted("contents_decide_about_holes", &image) else {
        return;
    };
    for name in ["later", "stream"] {
        let path = mount.path().join(name);
        assert!(fs::read(&path).expect(name) == bytes, "{name}");
        let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).expect(name));
        let data = bytes.len().div_ceil(24576) as u64 * 8;
        assert!(
            (data - 8..data + 32).contains(&blocks),
            "{name}: {blocks} sectors"
        );
    }
}

#[test]
fn equal_attribute_blocks_are_shared() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    build(&image, options(Size::Min), |builder| {
        for at in 0..2500 {
            let mut one = entry(&format!("d/{at}"), Node::Fifo);
            one.attributes.xattrs = vec![uext4_builder::Xattr {
                name: b"trusted.large".to_vec(),
                value: vec![b'x'; 1000],
            }];
            builder.add(one)?;
        }
        Ok(())
    })
    .expect("image");
    let blocks = |path: &str| {
        let stat = oracle::debugfs_one(&image, &format!("stat {path}")).expect("debugfs");
        let at = stat.split("File ACL: ").nth(1).expect("a block").to_owned();
        at.split_whitespace().next().expect("a number").to_owned()
    };
    let distinct: std::collections::BTreeSet<String> = (0..2500)
        .step_by(50)
        .map(|at| blocks(&format!("d/{at}")))
        .collect();
    assert_eq!(distinct.len(), 3, "2500 users, 1024 of a block");
}

#[test]
fn an_empty_image_of_16_gib_is_sparse() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    build(&image, options(Size::Bytes(16 << 30)), |_| Ok(())).expect("image");
    let found = fs::metadata(&image).expect("image");
    let allocated = std::os::unix::fs::MetadataExt::blocks(&found) * 512;
    assert_eq!(found.len(), 16 << 30);
    assert!(allocated <= 1 << 20, "{allocated} bytes are allocated");
}

#[test]
fn journals_of_a_given_size() {
    for (size, blocks) in [(Size::Min, 1024), (Size::Bytes(300 << 20), 8192)] {
        let dir = oracle::scratch_dir().expect("scratch");
        let image = dir.path().join("image");
        let mut options = options(size);
        options.format.journal = JournalSize::Blocks(blocks);
        let report = build(&image, options, |builder| builder.add(later("a", b"b")));
        assert_eq!(report.expect("image").journal_blocks, blocks);
    }
}
