//! Layers, replaced entries and implicit directories.

use uext4_builder::{Builder, Entry, Node, Result, Sink, Size};
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

/// The file has taken away the directory below, as in an extraction of one entry after the other.
#[test]
fn a_directory_that_replaces_a_file_of_its_layer_begins_empty() {
    let (_dir, image) = image_of(|builder| {
        builder.add(later("a", b"a file first"))?;
        builder.add(entry("a", Node::Directory))?;
        builder.add(later("a/new", b"n"))?;
        builder.add(entry("b", Node::Directory))?;
        builder.next_layer()?;
        builder.add(later("a/old/file", b"o"))?;
        builder.add(later("b/old", b"o"))
    });
    assert_eq!(listing(&image), ["a", "a/new", "b", "b/old"]);
}

/// Builds a tree that is refused, and answers why.
fn refused(feed: fn(&mut Builder) -> Result<()>) -> String {
    let dir = oracle::scratch_dir().expect("scratch");
    let built = build(&dir.path().join("image"), options(Size::Min), feed);
    built.expect_err("refused").to_string()
}

fn link(path: &str, target: &str) -> Entry<'static> {
    entry(path, Node::Link(target.into()))
}

#[test]
fn links_need_their_file() {
    let later_in_layer = refused(|builder| {
        builder.add(link("link", "target"))?;
        builder.add(later("target", b"x"))
    });
    let expected = "/link: it is a hard link to /target, which neither an earlier entry";
    assert!(later_in_layer.starts_with(expected), "{later_in_layer}");
    let upper = refused(|builder| {
        builder.add(later("target", b"upper"))?;
        builder.next_layer()?;
        builder.add(link("link", "target"))
    });
    assert!(upper.starts_with(expected), "{upper}");
    let directory = refused(|builder| {
        builder.add(link("link", "target"))?;
        builder.next_layer()?;
        builder.add(entry("target", Node::Directory))
    });
    assert!(directory.contains("it is a directory"), "{directory}");
    let through = refused(|builder| {
        builder.add(entry("way", Node::Symlink(b"elsewhere".to_vec())))?;
        builder.add(later("way/file", b"x"))
    });
    assert!(
        through.contains("way is above it, and no directory"),
        "{through}"
    );
}

/// An upgrade replaces one name of a file with several; all are in one layer.
#[test]
fn a_file_outlives_the_name_that_an_upper_layer_replaces() {
    let big: &'static [u8] = &[7; 300_000];
    let (_dir, image) = image_of(|builder| {
        builder.file(b"bin/git", b"new", attributes(0o755))?;
        builder.hide(b"bin/perl")?;
        builder.add(link("bin/copy", "bin/lower"))?;
        builder.next_layer()?;
        builder.file(b"bin/git", big, attributes(0o755))?;
        builder.add(link("bin/git-add", "bin/git"))?;
        builder.file(b"bin/perl", b"perl", attributes(0o755))?;
        builder.add(link("bin/perl5", "bin/perl"))?;
        builder.file(b"bin/lower", b"lower", attributes(0o755))
    });
    let expected = [
        "bin",
        "bin/copy",
        "bin/git",
        "bin/git-add",
        "bin/lower",
        "bin/perl5",
    ];
    assert_eq!(listing(&image), expected);
    assert_eq!(debugfs_cat(&image, "/bin/git"), "new");
    assert_eq!(debugfs_cat(&image, "/bin/git-add").as_bytes(), big);
    assert_eq!(debugfs_cat(&image, "/bin/perl5"), "perl");
    let number = |path: &str| {
        let text = oracle::debugfs_one(&image, &format!("stat {path}")).expect("debugfs");
        text.split_whitespace().nth(1).map(str::to_owned)
    };
    assert_eq!(number("/bin/copy"), number("/bin/lower"));
}

#[test]
fn a_name_of_three_types_has_nothing_of_the_lowest() {
    let (_dir, image) = image_of(|builder| {
        builder.add(later("name/new", b"n"))?;
        builder.next_layer()?;
        builder.add(later("name", b"a file"))?;
        builder.next_layer()?;
        builder.add(later("name/secret", b"s"))
    });
    assert_eq!(listing(&image), ["name", "name/new"]);
}

#[test]
fn a_directory_without_an_entry_is_the_one_of_a_lower_link() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let report = build(&image, options(Size::Min), |builder| {
        builder.add(later("lib/new", b"n"))?;
        builder.hide(b"lib/old")?;
        builder.add(later("lib/sub/file", b"s"))?;
        builder.next_layer()?;
        builder.add(entry("lib", Node::Symlink(b"usr/lib".to_vec())))?;
        builder.add(later("usr/lib/old", b"o"))?;
        builder.add(later("usr/lib/kept", b"k"))
    });
    let report = report.expect("image");
    assert_eq!(report.followed, Some((b"lib".to_vec(), 1)));
    let expected = [
        "lib",
        "usr",
        "usr/lib",
        "usr/lib/kept",
        "usr/lib/new",
        "usr/lib/sub",
        "usr/lib/sub/file",
    ];
    assert_eq!(listing(&image), expected);
}

/// Each directory on the way costs a look-up, for each entry below the link.
#[test]
fn links_that_lead_through_thousands_of_directories_are_refused() {
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let round = "d/../".repeat(800);
    let answer = build(&image, options(Size::Min), |builder| {
        builder.add(later("1/new", b"n"))?;
        builder.next_layer()?;
        builder.add(later("d/file", b"d"))?;
        for link in 1..=4 {
            let target = format!("{round}{}", link + 1);
            let node = Node::Symlink(target.into_bytes());
            builder.add(entry(&link.to_string(), node))?;
        }
        builder.add(later("5/file", b"5"))
    });
    let error = answer.expect_err("refused").to_string();
    assert!(error.contains("too many directories"), "{error}");
}

#[test]
fn a_directory_that_a_lower_layer_implies_stays_without_its_file() {
    let (_dir, image) = image_of(|builder| {
        builder.hide(b"var/run/only")?;
        builder.next_layer()?;
        builder.add(later("var/run/only", b"x"))
    });
    assert_eq!(listing(&image), ["var", "var/run"]);
}
