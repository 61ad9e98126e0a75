//! Layers as container tools and distributions write them, on their whole way to an image:
//! absolute names, an entry for the root, and links to files of the layers below.

use std::io::Cursor;

use uext4_archive::{Options, Source};
use uext4_builder::{BuildOptions, Builder, Size};
use uext4_testkit::oracle;

use crate::images::Layout;
use crate::made::{Header, Tar};

fn stat(image: &std::path::Path, path: &str) -> String {
    oracle::debugfs_one(image, &format!("stat {path}")).expect("debugfs")
}

#[test]
fn ordinary_images_build() {
    let lower = Tar::default()
        .add(&mut Header::new(b'5', b"/", 0), b"")
        .add(&mut Header::new(b'5', b"/usr/lib/", 0), b"")
        .link(b'2', "/lib", "usr/lib")
        .file("/usr/bin/git", b"the first git")
        .link(b'1', "/usr/bin/git-add", "/usr/bin/git")
        .file("/usr/bin/other", b"other");
    let upper = Tar::default()
        .file("usr/bin/git", b"git")
        .file("lib/module", b"m")
        .link(b'1', "lib/other", "usr/bin/other");
    let mut layout = Layout::default();
    let manifest = layout.manifest(&[lower.end(), upper.end()]) + "}";
    let bytes = layout.tar(&[manifest]);
    let dir = oracle::scratch_dir().expect("scratch");
    let image = dir.path().join("image");
    let mut builder = Builder::create(&image, BuildOptions::new(Size::Min)).expect("builder");
    let source = Source::stream("layout", Cursor::new(bytes));
    source.feed(&mut builder, &Options::default()).expect("fed");
    let report = builder.finish().expect("image");
    assert_eq!(report.followed, Some((b"lib".to_vec(), 1)));
    oracle::assert_clean(&image);
    assert!(stat(&image, "/lib").contains("usr/lib"));
    assert!(stat(&image, "/usr/bin/git").contains("Size: 3"));
    assert!(stat(&image, "/usr/bin/git-add").contains("Size: 13"));
    assert!(stat(&image, "/usr/lib/module").contains("Type: regular"));
    assert!(stat(&image, "/usr/lib/other").contains("Links: 2"));
}
