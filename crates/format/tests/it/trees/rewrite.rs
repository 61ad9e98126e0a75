//! e2fsck accepts the output of the encoders: every leaf and every block of attributes of an image
//! is rewritten.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Volume, run};
use uext4_format::dirent::{DirLeaf, LeafTail, NewEntry};
use uext4_format::xattr::{XattrBlock, decode_block, encode_block};
use uext4_format::{BlockNr, DamageLocation, InodeFlags, Seed};
use uext4_testkit::oracle::{KernelMount, assert_clean, mke2fs_image};

fn fill(root: &Path) {
    for number in 0..20 {
        let path = root.join(format!("file number {number}"));
        File::create(&path).expect("create");
        run(
            "setfattr",
            &["-n", "user.long", "-v", &"v".repeat(300)],
            &path,
        );
        run(
            "setfattr",
            &["-n", "user.number", "-v", &number.to_string()],
            &path,
        );
    }
    for number in (0..20).step_by(4) {
        std::fs::remove_file(root.join(format!("file number {number}"))).expect("remove");
    }
}

/// The leaf with its entries packed in reverse order, "." and ".." still first.
fn rewritten_leaf(block: &[u8], seed: Seed) -> Vec<u8> {
    let leaf = DirLeaf::new(block, LeafTail::Checksum, DamageLocation::Superblock);
    let entries: Vec<_> = leaf.entries().map(|entry| entry.expect("entry")).collect();
    let dots = entries
        .iter()
        .take_while(|entry| matches!(entry.name, b"." | b".."))
        .count();
    let order = entries[..dots].iter().chain(entries[dots..].iter().rev());
    let order: Vec<_> = order
        .map(|entry| NewEntry {
            inode: entry.inode,
            name: entry.name,
            kind: entry.kind,
        })
        .collect();
    let mut copy = DirLeaf::init(
        vec![0; block.len()],
        LeafTail::Checksum,
        DamageLocation::Superblock,
    );
    copy.pack(order).expect("fits where it was");
    copy.update_checksum(seed);
    copy.into_bytes()
}

fn rewritten_attributes(block: &[u8], nr: BlockNr, seed: Seed) -> Vec<u8> {
    let set = decode_block(block, DamageLocation::Block(nr)).expect("attributes");
    let mut copy = vec![0; block.len()];
    encode_block(&mut copy, &set).expect("fits where it was");
    let mut header = XattrBlock::new(&mut copy[..]);
    header.set_refcount(XattrBlock::new(block).refcount());
    header.update_checksum(seed, nr);
    copy
}

#[test]
fn e2fsck_accepts_what_we_write() {
    if !KernelMount::available_or_skip("e2fsck_accepts_what_we_write") {
        return;
    }
    let (dir, path) = mke2fs_image(32 << 20, &["-b", "1024"]).expect("mke2fs");
    let mount = KernelMount::new(&path, "").expect("mount");
    fill(mount.path());
    mount.unmount().expect("unmount");
    assert_clean(&path);
    let image = OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("the image is there");
    let write = |nr: BlockNr, block: &[u8]| image.write_all_at(block, nr.0 * 1024).expect("write");
    let copy = path.clone();
    let volume = Volume::open(dir, &path);
    let (mut leaves, mut attributes) = (0, 0);
    for node in volume.nodes() {
        let directory = node.inode.mode >> 12 == 4 && !node.has(InodeFlags::INDEX);
        for (_, nr, _) in volume.map(&node).into_iter().filter(|_| directory) {
            write(
                nr,
                &rewritten_leaf(&volume.block(nr), node.seed.expect("checksums are on")),
            );
            leaves += 1;
        }
        let nr = node.inode.file_acl;
        if nr.0 != 0 {
            let seed = volume.seed().expect("checksums are on");
            write(nr, &rewritten_attributes(&volume.block(nr), nr, seed));
            attributes += 1;
        }
    }
    assert!(
        leaves >= 2 && attributes == 15,
        "{leaves} leaves, {attributes} blocks of attributes"
    );
    assert_clean(&copy);
    drop(volume);
}
