//! Locates and changes bytes of a structure in an image with blocks of 1 KiB and no checksums.

use super::images::base;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use uext4_testkit::oracle;

/// Byte offset of the map in an inode.
pub(super) const MAP: u64 = 0x28;
/// Byte offset of the first in-inode attribute entry; the extra fields take 32 bytes.
pub(super) const ENTRY: u64 = 0xA4;

/// An image whose bytes the test changes.
pub(super) struct Image {
    pub(super) path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Image {
    /// A sound image made with these options of mke2fs.
    pub(super) fn new(options: &[&str]) -> Self {
        let dir = oracle::scratch_dir().expect("there is room");
        let path = dir.path().join("image");
        base(&path, options);
        Self { path, _dir: dir }
    }

    /// Byte offset of the inode that debugfs resolves `name` to.
    pub(super) fn inode(&self, name: &str) -> u64 {
        let said = oracle::debugfs_one(&self.path, &format!("imap {name}")).expect("it is there");
        let number = |after: &str| said.split(after).nth(1).expect(after).to_string();
        let block = number("at block ").split(',').next().map(str::to_string);
        let block: u64 = block.expect("a number").parse().expect("a block");
        let offset = number("offset 0x");
        let offset = u64::from_str_radix(offset.trim(), 16).expect("an offset");
        block * 1024 + offset
    }

    /// Byte offset of block 0 of a file.
    pub(super) fn block(&self, name: &str) -> u64 {
        let said = oracle::debugfs_one(&self.path, &format!("bmap {name} 0"));
        let said = said.expect("it has one");
        said.trim().parse::<u64>().expect("a block") * 1024
    }

    /// The first inode that holds an attribute value.
    pub(super) fn value_inode(&self) -> String {
        let is_value = |name: &String| {
            let said = oracle::debugfs_one(&self.path, &format!("stat {name}"));
            said.is_ok_and(|said| said.contains("Flags: 0x280000"))
        };
        let mut names = (12..300).map(|nr| format!("<{nr}>"));
        names.find(is_value).expect("a value in an inode")
    }

    /// Byte offset of the first child of an extent tree's root.
    pub(super) fn child(&self, name: &str) -> u64 {
        let file = std::fs::File::open(&self.path).expect("it is there");
        let mut block = [0; 4];
        // After the header and the first logical block of the index entry.
        let at = self.inode(name) + MAP + 12 + 4;
        file.read_exact_at(&mut block, at).expect("it can be read");
        u64::from(u32::from_le_bytes(block)) * 1024
    }

    pub(super) fn put(&self, at: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(&self.path);
        let file = file.expect("it is there");
        file.write_all_at(bytes, at).expect("it takes writes");
    }
}
