//! Layers, replaced entries and implicit directories.

use uext4_build::{Builder, Node, Result, Sink, Size};
use uext4_testkit::oracle;

use crate::support::{attributes, build, debugfs_cat, entry, later, options};

/// All paths of an image with their types, without lost+found.
fn listing(image: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![String::new()];
    while let Some(dir) = waiting.pop() {
        let text = oracle::debugfs_one(image, &format!("ls -p \"/{dir}\"")).expect("debugfs");
        for line in text.lines().filter(|line| line.starts_with('/')) {
            let fields: Vec<&str> = line.split('/').collect();
            let (mode, name) = (fields[2], fields[5]);
            if matches!(name, "." | ".." | "lost+found") {
                continue;
            }
            let path = if dir.is_empty() {
                name.to_owned()
            } else {
                format!("{dir}/{name}")
            };
            if mode.starts_with("04") {
                waiting.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

fn image_of(
    feed: impl FnOnce(&mut Builder) -> Result<()>,
) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    build(&image, options(Size::Min), feed).expect("image");
    (dir, image)
}

#[test]
fn upper_layers_hide_lower_ones() {
    let (_dir, image) = image_of(|builder| {
        builder.add(later("etc/conf", b"upper"))?;
        builder.hide(b"bin/gone")?;
        builder.hide(b"whole")?;
        builder.hide_below(b"opaque")?;
        builder.add(later("opaque/new", b"n"))?;
        builder.add(later("was-directory", b"file"))?;
        builder.add(later("replaced/in", b"x"))?;
        builder.next_layer()?;
        builder.add(later("etc/conf", b"lower"))?;
        builder.add(later("etc/other", b"other"))?;
        builder.add(later("bin/gone", b"g"))?;
        builder.add(later("bin/kept", b"k"))?;
        builder.add(later("whole/a/b", b"w"))?;
        builder.add(later("opaque/old", b"o"))?;
        builder.add(entry("was-directory/below", Node::Fifo))?;
        builder.add(later("replaced", b"was a file"))
    });
    let expected = [
        "bin",
        "bin/kept",
        "etc",
        "etc/conf",
        "etc/other",
        "opaque",
        "opaque/new",
        "replaced",
        "replaced/in",
        "was-directory",
    ];
    assert_eq!(listing(&image), expected);
    assert_eq!(debugfs_cat(&image, "/etc/conf"), "upper");
}

#[test]
fn marks_alone_make_no_directories() {
    let (_dir, image) = image_of(|builder| {
        builder.hide(b"a/b/c")?;
        builder.hide_below(b"d/e")?;
        builder.next_layer()?;
        builder.add(later("d", b"a file where a mark was below"))
    });
    assert_eq!(listing(&image), ["d"]);
}

#[test]
fn implicit_directories_take_the_first_attributes() {
    let (_dir, image) = image_of(|builder| {
        builder.add(later("a/b/file", b"x"))?;
        builder.next_layer()?;
        let mut directory = entry("a", Node::Directory);
        directory.attributes = attributes(0o700);
        builder.add(directory)?;
        builder.next_layer()?;
        builder.add(entry("a", Node::Directory))
    });
    let mode = |path: &str| {
        let text = oracle::debugfs_one(&image, &format!("stat {path}")).expect("debugfs");
        text.split("Mode:")
            .nth(1)
            .expect("mode")
            .split_whitespace()
            .next()
            .expect("mode")
            .to_owned()
    };
    assert_eq!((mode("a").as_str(), mode("a/b").as_str()), ("0700", "0755"));
}

#[test]
fn a_later_entry_of_a_layer_replaces_an_earlier_one() {
    let (_dir, image) = image_of(|builder| {
        builder.file(b"file", &[1; 1 << 20], attributes(0o644))?;
        builder.file(b"link-target", b"shared", attributes(0o644))?;
        builder.add(entry("link", Node::Link(b"link-target".to_vec())))?;
        builder.file(b"file", b"second", attributes(0o600))?;
        builder.file(b"link-target", b"another", attributes(0o644))
    });
    assert_eq!(debugfs_cat(&image, "/file"), "second");
    assert_eq!(debugfs_cat(&image, "/link"), "shared");
    assert_eq!(debugfs_cat(&image, "/link-target"), "another");
}

#[test]
fn links_do_not_cross_layers() {
    let refused = |feed: fn(&mut Builder) -> Result<()>| {
        let dir = oracle::scratch_dir().expect("scratch");
        let built = build(&dir.path().join("image"), options(Size::Min), feed);
        built.expect_err("refused").to_string()
    };
    let hidden = refused(|builder| {
        builder.hide(b"target")?;
        builder.next_layer()?;
        builder.add(later("target", b"x"))?;
        builder.add(entry("link", Node::Link(b"target".to_vec())))
    });
    assert!(
        hidden.starts_with("/link: it links to target, which the same layer"),
        "{hidden}"
    );
    let upper = refused(|builder| {
        builder.add(later("target", b"upper"))?;
        builder.next_layer()?;
        builder.add(entry("link", Node::Link(b"target".to_vec())))
    });
    assert!(upper.contains("upper layer hides"), "{upper}");
    let through = refused(|builder| {
        builder.add(entry("way", Node::Symlink(b"elsewhere".to_vec())))?;
        builder.add(later("way/file", b"x"))
    });
    assert!(
        through.contains("way is above it, and no directory"),
        "{through}"
    );
}
