//! Trees of entries in memory, and images of them.

use std::path::Path;

use uext4_builder::{
    Attributes, BuildOptions, BuildReport, Builder, Content, Data, Entry, Node, ReadAt, Result,
    Size,
};
use uext4_format::Timestamp;
use uext4_testkit::oracle::{self, KernelMount};

/// The options of most tests.
pub(crate) fn options(size: Size) -> BuildOptions {
    let mut options = BuildOptions::new(size);
    options.threads = 2;
    options.format.time = Some(1_700_000_100); // trees of random times are from the future
    options
}

pub(crate) fn attributes(permissions: u16) -> Attributes {
    Attributes {
        permissions,
        mtime: Timestamp::new(1_700_000_000, 5),
        ..Attributes::default()
    }
}

/// A file in memory that is read later.
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl ReadAt for Bytes {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        let start = offset as usize;
        buf.copy_from_slice(&self.0[start..start + buf.len()]);
        Ok(())
    }
}

pub(crate) fn later(path: &str, bytes: &[u8]) -> Entry<'static> {
    let size = bytes.len() as u64;
    Entry {
        path: path.into(),
        attributes: attributes(0o644),
        node: Node::File(Content {
            size,
            data: Data::Later {
                ranges: std::iter::once(0..size).collect(),
                file: Box::new(Bytes(bytes.to_vec())),
            },
        }),
    }
}

pub(crate) fn entry(path: &str, node: Node<'static>) -> Entry<'static> {
    Entry {
        path: path.into(),
        attributes: attributes(0o755),
        node,
    }
}

/// Builds an image, which e2fsck must find clean.
pub(crate) fn build(
    image: &Path,
    options: BuildOptions,
    feed: impl FnOnce(&mut Builder) -> Result<()>,
) -> Result<BuildReport> {
    let mut builder = Builder::create(image, options)?;
    feed(&mut builder)?;
    let report = builder.finish()?;
    oracle::assert_clean(image);
    let verdict = oracle::e2fsck(image).expect("e2fsck");
    let problems = verdict.problems();
    // e2fsck asks about times after 2310, which are as meant.
    let expected = |line: &&str| line.contains("are likely pre-1970") || *line == "Fix? no";
    assert!(problems.iter().all(expected), "{problems:?}");
    Ok(report)
}

/// The image mounted by the kernel, if this machine can.
pub(crate) fn mounted(test: &str, image: &Path) -> Option<KernelMount> {
    KernelMount::available_or_skip(test)
        .then(|| KernelMount::new(image, "ro,noload").expect("the kernel mounts the image"))
}

/// The contents of a file, without the version that debugfs prints.
pub(crate) fn debugfs_cat(image: &Path, path: &str) -> String {
    let text = oracle::debugfs_one(image, &format!("cat \"{path}\"")).expect("debugfs");
    let version = text.rfind("debugfs 1.").unwrap_or(text.len());
    text[..version].to_owned()
}
