//! Attributes whose values have inodes of their own (feature `ea_inode`).

use std::collections::BTreeMap;
use std::path::Path;

use uext4_builder::{BuildOptions, Builder, Node, PlacementRule, Result, Sink, Size, Xattr};
use uext4_testkit::manifest::Manifest;
use uext4_testkit::oracle;

use crate::support::{build, entry, later, mounted, options};

const MIB: u64 = 1 << 20;

fn with_values(list: &str) -> BuildOptions {
    let mut options = options(Size::Min);
    options.format.apply_features(list).expect("known");
    options
}

/// Attributes of a file by its number: small ones, large ones, of zeroes, and ones that many share.
fn xattrs(at: usize) -> Vec<Xattr> {
    let one = |name: &str, value: Vec<u8>| Xattr {
        name: name.into(),
        value,
    };
    let all = [
        one("user.small", vec![at as u8; 20]),
        one("trusted.own", vec![at as u8; 3000 + 700 * (at % 50)]),
        one("user.shared", vec![b's'; 5000]),
        one("user.zeroes", vec![0; 9000]),
        one("trusted.block", vec![at as u8; 1500]),
        one("security.many", vec![at as u8 % 3; 1200]),
    ];
    all.into_iter().skip(at % 4).collect()
}

fn add(builder: &mut Builder, numbers: impl Iterator<Item = usize>) -> Result<()> {
    for at in numbers {
        let path = format!("d{}/{at}", at % 3);
        let mut file = match at % 5 {
            0 => entry(&path, Node::Directory),
            _ => later(&path, &vec![7; at * 10]),
        };
        file.attributes.xattrs = xattrs(at);
        builder.add(file)?;
    }
    for at in 0..1500 {
        let mut file = entry(&format!("users/{at}"), Node::Fifo);
        file.attributes.xattrs = vec![Xattr {
            name: b"trusted.of all".to_vec(),
            value: vec![1; 60_000],
        }];
        builder.add(file)?;
    }
    Ok(())
}

fn compare(image: &Path) {
    let shared = oracle::debugfs_one(image, "ea_get d1/1 user.shared").expect("debugfs");
    assert!(shared.contains(&"s".repeat(4000)), "{shared}");
    let Some(mount) = mounted("large_values", image) else {
        return;
    };
    let found = Manifest::of_dir(mount.path()).expect("image");
    for at in 0..120 {
        let entry = &found.entries[format!("d{}/{at}", at % 3).as_bytes()];
        let expected: BTreeMap<Vec<u8>, Vec<u8>> = xattrs(at)
            .into_iter()
            .map(|xattr| (xattr.name, xattr.value))
            .collect();
        assert!(entry.xattrs == expected, "attributes of {at}");
    }
    let users = (0..1500).map(|at| &found.entries[format!("users/{at}").as_bytes()]);
    for entry in users {
        assert_eq!(entry.xattrs[&b"trusted.of all"[..]], vec![1; 60_000]);
    }
}

#[test]
fn values_of_all_sizes() {
    for (list, block_size, inode_size) in [
        ("ea_inode", 4096, 256),
        ("ea_inode", 1024, 512),
        ("ea_inode,^metadata_csum", 4096, 256),
        ("ea_inode,^metadata_csum", 2048, 128),
    ] {
        let dir = oracle::scratch_dir().expect("scratch");
        let image = dir.path().join("image");
        let mut options = with_values(list);
        options.format.block_size = Some(block_size);
        options.format.inode_size = Some(inode_size);
        build(&image, options, |builder| add(builder, 0..120)).expect(list);
        compare(&image);
    }
}

#[test]
fn order_and_places_do_not_matter() {
    let dir = oracle::scratch_dir().expect("scratch");
    let bytes = |places, forwards| {
        let image = dir.path().join("image");
        let mut options = with_values("ea_inode");
        options.places = places;
        if places == PlacementRule::DiffFriendly {
            options.size = Size::Bytes(64 * MIB);
        }
        build(&image, options, |builder| match forwards {
            true => add(builder, 0..120),
            false => add(builder, (0..120).rev()),
        })
        .expect("image");
        compare(&image);
        std::fs::read(&image).expect("image")
    };
    for places in [PlacementRule::Packed, PlacementRule::DiffFriendly] {
        assert!(bytes(places, true) == bytes(places, false), "{places:?}");
    }
}

#[test]
fn without_the_feature_and_with_quota_they_are_refused() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let error = build(&image, options(Size::Min), |builder| add(builder, 0..120));
    let error = error.expect_err("too large").to_string();
    assert!(error.contains("the feature ea_inode"), "{error}");
    let error = Builder::create(&image, with_values("ea_inode,quota")).err();
    let error = error.expect("not counted").to_string();
    assert!(error.contains("quota and ea_inode"), "{error}");
}
