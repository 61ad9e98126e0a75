//! Entries and options that no image can have: one sentence each, and no file.

use uext4_builder::{
    BuildOptions, Builder, Content, Data, Error, Host, Node, Result, Sink, Size, Xattr,
};
use uext4_testkit::oracle;

use crate::support::{Bytes, attributes, build, debugfs_cat, entry, later, options};

type Feed = fn(&mut Builder) -> Result<()>;
type Set = fn(&mut BuildOptions);

fn refusal(set: Set, feed: Feed) -> String {
    let dir = oracle::scratch_dir().expect("scratch");
    let mut options = options(Size::Min);
    set(&mut options);
    let error = build(&dir.path().join("image"), options, feed).expect_err("refused");
    assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0);
    error.to_string()
}

fn with_xattr(name: &str, value: Vec<u8>) -> uext4_builder::Entry<'static> {
    let mut one = entry("x", Node::Fifo);
    one.attributes.xattrs = vec![Xattr {
        name: name.into(),
        value,
    }];
    one
}

#[test]
fn entries_that_no_image_can_have() {
    let cases: [(&str, Feed); 11] = [
        ("/..: a part of the path is empty, . or ..", |b| {
            b.add(later("../x", b""))
        }),
        ("a part of the path is empty", |b| b.add(later("a//x", b""))),
        ("longer than 255 bytes", |b| {
            b.add(later(&"n".repeat(256), b""))
        }),
        ("the root is a directory", |b| b.add(entry("", Node::Fifo))),
        ("has no name that ext4 can store", |b| {
            b.add(with_xattr("user.", vec![]))
        }),
        ("/x: its extended attributes take 5", |b| {
            b.add(with_xattr("user.x", vec![0; 5000]))
        }),
        ("posix_acl_access is no list", |b| {
            b.add(with_xattr("system.posix_acl_access", vec![1, 2, 3]))
        }),
        ("symbolic link has not 1 to 4095 bytes", |b| {
            b.add(entry("l", Node::Symlink(vec![b'a'; 4096])))
        }),
        ("was a directory before", |b| {
            b.add(entry("d", Node::Directory))?;
            b.add(entry("d", Node::Fifo))
        }),
        ("which is a directory", |b| {
            b.add(entry("d", Node::Directory))?;
            b.add(entry("e", Node::Link(b"d".to_vec())))
        }),
        ("this is an error of the source", |b| {
            let backwards = vec![5..9, 2..4];
            b.add(entry(
                "f",
                Node::File(Content {
                    size: 10,
                    data: Data::Later {
                        ranges: backwards,
                        file: Box::new(Bytes(vec![0; 10])),
                    },
                }),
            ))
        }),
    ];
    for (expected, feed) in cases {
        let text = refusal(|_| {}, feed);
        assert!(text.contains(expected), "{text}\n instead of: {expected}");
        assert!(!text.contains('\n'));
    }
}

#[test]
fn options_that_make_no_image() {
    let cases: [(&str, Set); 4] = [
        ("quota and ea_inode are both on", |o| {
            o.format.apply_features("ea_inode,quota").expect("known")
        }),
        ("the feature flex_bg is off", |o| {
            o.format.apply_features("^flex_bg").expect("known")
        }),
        ("a cluster has 2097152 bytes", |o| {
            o.format.apply_features("bigalloc").expect("known");
            o.format.cluster_size = Some(2 << 20);
        }),
        ("a label has up to 16 bytes", |o| {
            o.format.label = vec![b'a'; 17]
        }),
    ];
    for (expected, set) in cases {
        let text = refusal(set, |_| Ok(()));
        assert!(text.contains(expected), "{text}\n instead of: {expected}");
    }
}

#[test]
fn a_stream_that_ends_early_is_named() {
    let text = refusal(
        |_| {},
        |builder| {
            let mut short = &[1; 10][..];
            let whole = 0..20;
            builder.add(uext4_builder::Entry {
                path: b"short".to_vec(),
                attributes: attributes(0o644),
                node: Node::File(Content {
                    size: 20,
                    data: Data::Stream {
                        ranges: vec![whole],
                        reader: &mut short,
                    },
                }),
            })
        },
    );
    assert!(text.starts_with("/short: cannot be read:"), "{text}");
}

#[test]
fn a_file_that_changes_meanwhile_is_named() {
    let source = oracle::scratch_dir().expect("scratch");
    std::fs::write(source.path().join("file"), "before").expect("write");
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut builder = Builder::create(&image, options(Size::Min)).expect("builder");
    builder.directory(source.path(), b"").expect("read");
    std::fs::write(source.path().join("file"), "afterwards").expect("write");
    let text = builder.finish().expect_err("changed").to_string();
    assert_eq!(
        text,
        "/file: cannot be read: the file has changed while the image was built"
    );
}

#[test]
fn an_error_ends_the_builder() {
    let dir = oracle::scratch_dir().expect("scratch");
    let mut builder = Builder::create(&dir.path().join("image"), options(Size::Min)).unwrap();
    builder.add(later("a", b"1")).unwrap();
    assert!(builder.add(later("a/b", b"2")).is_err());
    let ends = [
        builder.add(later("c", b"3")),
        builder.next_layer(),
        builder.hide(b"a"),
        builder.hide_below(b""),
        builder.finish().map(drop),
    ];
    for end in ends {
        assert!(matches!(end, Err(Error::Ended)), "{end:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0);
}

/// It can be made in one thread and finished in another.
#[test]
fn a_builder_goes_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Builder>();
    is_send::<Host>();
    let dir = oracle::scratch_dir().expect("scratch");
    let mut builder = Builder::create(&dir.path().join("image"), options(Size::Min)).unwrap();
    builder.add(later("a", b"1")).unwrap();
    let finished = std::thread::spawn(move || builder.finish());
    finished.join().unwrap().unwrap();
    oracle::assert_clean(&dir.path().join("image"));
}

#[test]
fn directories_are_layers_in_the_order_of_the_tool() {
    let dir = oracle::scratch_dir().expect("scratch");
    for (name, text) in [("lower", "old"), ("upper", "new")] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join(name).join("file"), text).unwrap();
    }
    std::fs::write(dir.path().join("lower/other"), "kept").unwrap();
    let image = dir.path().join("image");
    build(&image, options(Size::Min), |b| {
        b.add(later("top", b"1"))?;
        b.directories(&[dir.path().join("lower"), dir.path().join("upper")], b"")
    })
    .unwrap();
    for (path, text) in [("/file", "new"), ("/other", "kept"), ("/top", "1")] {
        assert_eq!(debugfs_cat(&image, path), text);
    }
}
