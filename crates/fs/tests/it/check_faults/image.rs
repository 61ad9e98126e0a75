//! Finding the bytes of a structure in an image with blocks of 1 KiB and no checksums, and changing
//! them.

use super::images::base;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use uext4_testkit::oracle;

/// Where the map of an inode stands in it.
pub(super) const MAP: u64 = 0x28;
/// First entry of the attributes of an inode, whose extra fields take 32 bytes.
pub(super) const ENTRY: u64 = 0xA4;

/// An image of which single bytes are changed.
pub(super) struct Image {
    pub(super) path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Image {
    /// A sound one of this kind.
    pub(super) fn new(options: &[&str]) -> Self {
        let dir = oracle::scratch_dir().expect("there is room");
        let path = dir.path().join("image");
        base(&path, options);
        Self { path, _dir: dir }
    }

    /// Where the inode that debugfs knows as `name` stands.
    pub(super) fn inode(&self, name: &str) -> u64 {
        let said = oracle::debugfs_one(&self.path, &format!("imap {name}")).expect("it is there");
        let number = |after: &str| said.split(after).nth(1).expect(after).to_string();
        let block = number("at block ").split(',').next().map(str::to_string);
        let block: u64 = block.expect("a number").parse().expect("a block");
        let offset = number("offset 0x");
        let offset = u64::from_str_radix(offset.trim(), 16).expect("an offset");
        block * 1024 + offset
    }

    /// Where block 0 of a file stands.
    pub(super) fn block(&self, name: &str) -> u64 {
        let said = oracle::debugfs_one(&self.path, &format!("bmap {name} 0"));
        let said = said.expect("it has one");
        said.trim().parse::<u64>().expect("a block") * 1024
    }

    /// The first inode that holds a value.
    pub(super) fn value_inode(&self) -> String {
        let is_value = |name: &String| {
            let said = oracle::debugfs_one(&self.path, &format!("stat {name}"));
            said.is_ok_and(|said| said.contains("Flags: 0x280000"))
        };
        let mut names = (12..300).map(|nr| format!("<{nr}>"));
        names.find(is_value).expect("a value in an inode")
    }

    /// The first block of a tree below its root.
    pub(super) fn child(&self, name: &str) -> u64 {
        let file = std::fs::File::open(&self.path).expect("it is there");
        let mut block = [0; 4];
        // Behind the header, and the first logical block of its index.
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
