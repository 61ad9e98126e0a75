//! Shared attribute blocks: threads share and drop them concurrently, and data reuses their place.

use super::{content, create, in_threads, judge, mount, open, rounds};
use crate::image;
use uext4::{Caller, Error, Filesystem, SetMode, WriteContext};

const THREADS: u64 = 6;
const STEPS: u64 = 800;
const NAME: &[u8] = b"user.shared";
/// Too long for the inode.
const VALUE: [u8; 400] = [b'v'; 400];
/// Buffer of one write when the file system is filled.
static CHUNK: [u8; 64 << 10] = [b'd'; 64 << 10];

/// Repeatedly shares the block and drops it.
fn share(fs: &Filesystem, id: u64) {
    let (file, caller) = (create(fs, &format!("holder {id}")), Caller::root());
    for _ in 0..STEPS {
        fs.set_xattr(&file, NAME, &VALUE, SetMode::Any, &caller)
            .expect("an attribute");
        fs.remove_xattr(&file, NAME, &caller).expect("it is there");
    }
}

/// An ACL in the xattr format of the system calls, with more entries than fit in an inode.
fn acl() -> Vec<u8> {
    const OWNER: u16 = 1;
    const USER: u16 = 2;
    const GROUP: u16 = 4;
    const MASK: u16 = 16;
    const OTHER: u16 = 32;
    const NO_ID: u32 = u32::MAX;
    let users = (1000..1020).map(|id| (USER, id));
    let others = [GROUP, MASK, OTHER].map(|tag| (tag, NO_ID));
    let entries = [(OWNER, NO_ID)].into_iter().chain(users).chain(others);
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(6u16.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Creates and removes files that inherit an ACL.
fn inherit(fs: &Filesystem, id: u64) {
    let caller = Caller::root();
    let root = fs.root().expect("a root");
    let dir = fs.mkdir(&root, format!("dir {id}").as_bytes(), 0o755, &caller);
    let dir = dir.expect("a new name");
    let name = b"system.posix_acl_default";
    fs.set_xattr(&dir, name, &acl(), SetMode::Any, &caller)
        .expect("a list");
    for _ in 0..STEPS {
        fs.create(&dir, b"file", 0o644, &caller)
            .expect("a new name");
        fs.unlink(&dir, b"file", &caller).expect("it is there");
    }
    fs.remove_xattr(&dir, name, &caller).expect("it is there");
}

/// Fills all free blocks with data.
fn fill(fs: &Filesystem) {
    let file = create(fs, "filler");
    for at in (0..).step_by(CHUNK.len()) {
        match fs.write(&file, at, &CHUNK, &WriteContext::ROOT) {
            Ok(_) => {}
            Err(Error::NoSpace) => return,
            Err(error) => panic!("a write: {error}"),
        }
    }
}

/// Lets threads share blocks, then reuses all freed blocks for data, which a checkpoint of the log
/// must not overwrite.
fn share_then_fill(round: u64, share: fn(&Filesystem, u64)) {
    let device = image::ext4(16);
    let fs = mount(&device, "nodelalloc");
    let shared = fs.clone();
    in_threads(THREADS, move |id| share(&shared, id));
    fs.sync().expect("a sync");
    fill(&fs);
    judge(&device, &fs, |fs| {
        let found = content(fs, &open(fs, "filler"));
        let is_wrong = |piece: &[u8]| *piece != CHUNK[..piece.len()];
        let wrong = found.chunks(4096).position(is_wrong);
        assert_eq!(wrong, None, "round {round}: the data are not those written");
    });
}

#[test]
fn a_block_that_was_dropped_is_not_joined() {
    (0..rounds(8)).for_each(|round| share_then_fill(round, share));
}

#[test]
fn inherited_lists_share_blocks_that_are_in_use() {
    (0..rounds(8)).for_each(|round| share_then_fill(round, inherit));
}
