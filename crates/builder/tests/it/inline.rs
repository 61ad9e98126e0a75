//! Contents in inodes: all sizes around the limits, judged by e2fsck, debugfs and the kernel.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use uext4_builder::{BuildOptions, Builder, Node, Result, Sink, Size, Xattr};
use uext4_testkit::oracle;

use crate::support::{attributes, build, entry, later, mounted, options};

/// Most bytes in an inode of 256 bytes without other attributes.
const MAX: usize = 128;

fn inline_options() -> BuildOptions {
    let mut options = options(Size::Min);
    options.format.apply_features("inline_data").expect("known");
    options
}

fn is_inline(image: &Path, path: &str) -> bool {
    let stat = oracle::debugfs_one(image, &format!("stat \"{path}\"")).expect("debugfs");
    let flags = stat.split("Flags: 0x").nth(1).expect("flags");
    let digits = flags.split_whitespace().next().expect("digits");
    let inline = u32::from_str_radix(digits, 16).expect("hex") & 0x1000_0000 != 0;
    let blocks = stat.split("Blockcount: ").nth(1).expect("blocks");
    let blocks = blocks.split_whitespace().next().expect("a number") != "0";
    assert!(!inline || !blocks, "{path}: inline, and has blocks");
    inline
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + (at % 26) as u8).collect()
}

#[test]
fn files_of_all_sizes_around_the_limit() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let with_attribute = |len: usize, value: usize| {
        let mut one = later(&format!("x{value}/{len}"), &bytes(len));
        one.attributes.xattrs = vec![Xattr {
            name: b"user.a".to_vec(),
            value: vec![b'v'; value],
        }];
        one
    };
    build(&image, inline_options(), |builder| {
        for len in 0..MAX + 4 {
            builder.add(later(&format!("later/{len}"), &bytes(len)))?;
            let path = format!("stream/{len}");
            builder.file(path.as_bytes(), &bytes(len), attributes(0o600))?;
            builder.add(later(&format!("zeroes/{len}"), &vec![0; len]))?;
            // 20 bytes of the entry and the value, padded to 4.
            for value in [5, 28, 48, 49] {
                builder.add(with_attribute(len, value))?;
            }
        }
        Ok(())
    })
    .expect("image");
    for (name, max) in [
        ("later", MAX),
        ("stream", MAX),
        ("zeroes", MAX),
        ("x5", 100),
        ("x28", 80),
        ("x48", 60),
    ] {
        for len in [0, 1, 59, 60, 61, max, max + 1] {
            let path = format!("{name}/{len}");
            assert_eq!(is_inline(&image, &path), len <= max, "{path}");
        }
    }
    assert!(!is_inline(&image, "x49/0"), "the attribute needs the space");
    let Some(mount) = mounted("files_of_all_sizes_around_the_limit", &image) else {
        return;
    };
    for len in 0..MAX + 4 {
        for name in ["later", "stream", "x5", "x28", "x48", "x49"] {
            let found = fs::read(mount.path().join(format!("{name}/{len}"))).expect(name);
            assert!(found == bytes(len), "{name}/{len}");
        }
        let found = fs::read(mount.path().join(format!("zeroes/{len}"))).expect("zeroes");
        assert!(found == vec![0; len], "zeroes/{len}");
    }
}

#[test]
fn links_and_directories_of_all_sizes_around_the_limit() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let name = |nr: usize, len: usize| format!("{nr}{}", "n".repeat(len - 1));
    let feed = |builder: &mut Builder| -> Result<()> {
        for len in 58..MAX + 4 {
            builder.add(entry(&format!("links/{len}"), Node::Symlink(bytes(len))))?;
        }
        for len in 1..150 {
            for names in [1, 2, 3] {
                for nr in 0..names {
                    let path = format!("d{names}/{len}/{}", name(nr, len));
                    builder.add(entry(&path, Node::Directory))?;
                }
            }
        }
        Ok(())
    };
    build(&image, inline_options(), feed).expect("image");
    for len in [58, 59, 60, MAX, MAX + 1] {
        let path = format!("links/{len}");
        assert!(!is_inline(&image, &path), "{path}: a link");
    }
    // 56 and 68 bytes of records, each of 8 bytes and the name, padded to 4.
    for (path, expected) in [
        ("d1/1/0", true),
        ("d1/60", true),
        ("d1/61", false),
        ("d2/48", true),
        ("d2/49", false),
        ("d3/24", true),
        ("d3/25", false),
        ("lost+found", false),
        ("/", false),
    ] {
        assert_eq!(is_inline(&image, path), expected, "{path}");
    }
    let Some(mount) = mounted(
        "links_and_directories_of_all_sizes_around_the_limit",
        &image,
    ) else {
        return;
    };
    for len in 58..MAX + 4 {
        let found = fs::read_link(mount.path().join(format!("links/{len}"))).expect("link");
        assert_eq!(found.as_os_str().as_bytes(), bytes(len));
    }
    for len in 1..150 {
        for names in [1, 2, 3] {
            let path = mount.path().join(format!("d{names}/{len}"));
            let found = fs::read_dir(&path).expect("directory").count();
            assert_eq!(found, names, "{}", path.display());
            for nr in 0..names {
                let above = fs::canonicalize(path.join(name(nr, len)).join("..")).expect("..");
                assert_eq!(above, path);
            }
        }
    }
}

/// Values of attributes in inodes are never inline, however short.
#[test]
fn short_values_in_inodes_have_blocks() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut options = inline_options();
    options.format.block_size = Some(1024);
    options.format.apply_features("ea_inode").expect("known");
    build(&image, options, |builder| {
        let mut one = later("file", b"short");
        one.attributes.xattrs = (0..40)
            .map(|nr| Xattr {
                name: format!("user.name {nr}").into(),
                value: vec![nr; 40],
            })
            .collect();
        builder.add(one)
    })
    .expect("image");
    assert!(!is_inline(&image, "<13>"), "the first value");
    if let Some(mount) = mounted("short_values_in_inodes_have_blocks", &image) {
        assert_eq!(fs::read(mount.path().join("file")).expect("file"), b"short");
    }
}

/// The canary of [`is_inline`]: nothing is without the feature.
#[test]
fn nothing_is_inline_without_the_feature() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    build(&image, options(Size::Min), |builder| {
        builder.add(later("d/file", b"short"))
    })
    .expect("image");
    assert!(!is_inline(&image, "d/file") && !is_inline(&image, "d"));
}
