//! Bitmaps and inode tables at the start: dumpe2fs and debugfs tell where everything is.

use std::path::Path;
use std::process::Command;

use uext4_builder::{Builder, Result, Sink, Size, Tables};
use uext4_mkfs::InodeCount;
use uext4_testkit::oracle;

use crate::support::{build, debugfs_cat, later, options};

/// The last block of bitmaps and tables of all groups, and their number.
fn last_of_tables(image: &Path) -> (u64, usize) {
    let told = Command::new("dumpe2fs")
        .arg(image)
        .output()
        .expect("dumpe2fs");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut ends = Vec::new();
    for key in ["Block bitmap at ", "Inode bitmap at ", "Inode table at "] {
        for (at, _) in told.match_indices(key) {
            let places = told[at + key.len()..].split([' ', ',', '\n']).next();
            let end = places.expect("a place").rsplit('-').next().expect("an end");
            ends.push(end.parse::<u64>().expect("a block"));
        }
    }
    (ends.iter().copied().max().expect("groups"), ends.len())
}

fn blocks_of(image: &Path, path: &str) -> Vec<u64> {
    let told = debugfs_blocks(image, path);
    let words = told.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

fn debugfs_blocks(image: &Path, path: &str) -> String {
    let text = oracle::debugfs_one(image, &format!("blocks \"{path}\"")).expect("debugfs");
    let version = text.rfind("debugfs 1.").unwrap_or(text.len());
    text[..version].to_owned()
}

fn feed(builder: &mut Builder) -> Result<()> {
    let stream = vec![7; 3 << 20];
    builder.file(b"stream", &stream, crate::support::attributes(0o644))?;
    for at in 0..100 {
        builder.add(later(
            &format!("d/{at}"),
            format!("{at}\n").repeat(3000).as_bytes(),
        ))?;
    }
    Ok(())
}

#[test]
fn tables_at_the_start_lie_before_all_contents() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    for (list, blocks_per_group) in [
        ("", None),
        ("", Some(2048)),
        ("meta_bg,^resize_inode", Some(2048)),
        ("sparse_super2,^resize_inode", Some(2048)),
        ("quota", None),
        ("inline_data", Some(2048)),
        ("bigalloc", None),
        ("bigalloc", Some(32_768)),
    ] {
        let mut options = options(Size::Bytes(300 << 20));
        options.tables = Tables::Front;
        options.format.apply_features(list).expect("known features");
        options.format.blocks_per_group = blocks_per_group;
        let report = build(&image, options, feed).unwrap_or_else(|error| panic!("{list}: {error}"));
        let (last, places) = last_of_tables(&image);
        assert_eq!(places as u32, 3 * report.geometry.group_count, "{list}");
        for path in ["/stream", "/d/0", "/d/99", "/d", "/lost+found"] {
            let blocks = blocks_of(&image, path);
            assert!(
                !blocks.is_empty() && blocks.iter().all(|block| *block > last),
                "{path}"
            );
        }
        assert_eq!(debugfs_cat(&image, "/d/77"), "77\n".repeat(3000));
    }
    // The canary: usually tables lie behind.
    build(&image, options(Size::Bytes(300 << 20)), feed).expect("image");
    assert!(blocks_of(&image, "/d/0")[0] < last_of_tables(&image).0);
}

#[test]
fn tables_at_the_start_need_their_size() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut small = options(Size::Min);
    small.tables = Tables::Front;
    let error = build(&image, small, feed).expect_err("no size").to_string();
    assert!(error.ends_with("give its size in bytes"), "{error}");
    let mut few = options(Size::Bytes(64 << 20));
    few.tables = Tables::Front;
    few.format.inodes = InodeCount::AtLeast(16);
    let error = build(&image, few, feed)
        .expect_err("few inodes")
        .to_string();
    assert!(error.contains("inodes, and the image has"), "{error}");
}
