//! Shared attribute blocks, and value inodes in them.

use super::*;
use uext4_format::BlockNr;
use uext4_format::xattr::XattrBlock;

fn block_of(inode: &InodeRef) -> BlockNr {
    inode.read().disk.file_acl
}

fn refcount(rig: &Rig, inode: &InodeRef) -> u32 {
    let block = super::super::areas::read_block(rig.fs(), &inode.read())
        .unwrap()
        .unwrap();
    XattrBlock::new(&block.meta.image()[..]).refcount()
}

#[test]
fn equal_attributes_share_a_block_until_one_changes() {
    let rig = Rig::new(24, &["-I", "128"]);
    let (a, b, c) = (create(&rig, "a"), create(&rig, "b"), create(&rig, "c"));
    for inode in [&a, &b, &c] {
        set(&rig, inode, "user.value", &bytes(500, 1)).unwrap();
    }
    assert_eq!((block_of(&a), block_of(&b)), (block_of(&b), block_of(&c)));
    assert_eq!(refcount(&rig, &a), 3);
    set(&rig, &b, "user.other", b"2").unwrap();
    assert_ne!(block_of(&a), block_of(&b));
    assert_eq!((refcount(&rig, &a), refcount(&rig, &b)), (2, 1));
    assert_eq!(dump(&rig, &a).len(), 1);
    assert_eq!(dump(&rig, &b).len(), 2);
    // Equal again: shares the block, and frees its own.
    remove(&rig, &b, "user.other").unwrap();
    assert_eq!((block_of(&a), refcount(&rig, &a)), (block_of(&b), 3));
    remove(&rig, &a, "user.value").unwrap();
    assert_eq!((block_of(&a), refcount(&rig, &b)), (BlockNr(0), 2));
    drop((a, b, c));
    unlink(&rig, "b");
    let c = lookup(&rig, "c");
    assert_eq!(refcount(&rig, &c), 1);
    assert_eq!(dump(&rig, &c)[&b"user.value"[..]], bytes(500, 1));
    drop(c);
    rig.assert_clean();
}

#[test]
fn a_block_is_shared_by_1024_inodes_at_most() {
    let rig = Rig::new(32, &["-I", "128", "-N", "2048"]);
    let files: Vec<_> = (0..1026)
        .map(|nr| create(&rig, &format!("f{nr}")))
        .collect();
    for file in &files {
        set(&rig, file, "user.value", &bytes(300, 7)).unwrap();
    }
    assert_eq!(refcount(&rig, &files[0]), 1024);
    assert_eq!(refcount(&rig, &files[1025]), 2);
    drop(files);
    rig.assert_clean();
}

/// Two inodes share a block with a value inode: e2fsck also checks its reference count.
#[test]
fn copies_of_shared_blocks_take_references_on_value_inodes() {
    let rig = Rig::new(24, &["-I", "128", "-O", "ea_inode"]);
    let (a, b) = (create(&rig, "a"), create(&rig, "b"));
    set(&rig, &a, "user.large", &bytes(9000, 1)).unwrap();
    share_block(&rig, &a, &b);
    set(&rig, &b, "user.small", b"1").unwrap();
    assert_ne!(block_of(&a), block_of(&b));
    remove(&rig, &a, "user.large").unwrap();
    assert_eq!(dump(&rig, &b)[&b"user.large"[..]], bytes(9000, 1));
    drop((a, b));
    let rig = rig.remount();
    assert_eq!(
        dump(&rig, &lookup(&rig, "b"))[&b"user.large"[..]],
        bytes(9000, 1)
    );
    unlink(&rig, "b");
    rig.assert_clean();
}

/// Makes `b`, which has no attributes, share the block of `a`, as Linux does for equal values.
fn share_block(rig: &Rig, a: &InodeRef, b: &InodeRef) {
    let fs = rig.fs();
    let handle = fs.start(8).unwrap();
    let block = super::super::areas::read_block(fs, &a.read())
        .unwrap()
        .unwrap();
    {
        let mut bytes = handle.write(&block.meta);
        XattrBlock::new(bytes.bytes_mut()).set_refcount(2);
    }
    let sectors = a.read().disk.blocks_raw;
    let mut state = handle.write(b.arc());
    state.disk.file_acl = block.meta.nr();
    state.disk.blocks_raw = sectors;
}

#[test]
fn threads_set_equal_attributes() {
    let rig = Rig::new(32, &["-I", "128", "-O", "ea_inode"]);
    let files: Vec<_> = (0..8).map(|nr| create(&rig, &format!("f{nr}"))).collect();
    std::thread::scope(|scope| {
        for (nr, file) in files.iter().enumerate() {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..60 {
                    let large = if round % 7 == nr % 7 { 5000 } else { 400 };
                    set(rig, file, "user.value", &bytes(large, round as u32 % 3)).unwrap();
                    assert_eq!(
                        dump(rig, file)[&b"user.value"[..]],
                        bytes(large, round as u32 % 3)
                    );
                    if round % 5 == 0 {
                        remove(rig, file, "user.value").unwrap();
                    }
                }
            });
        }
    });
    drop(files);
    rig.assert_clean();
}
