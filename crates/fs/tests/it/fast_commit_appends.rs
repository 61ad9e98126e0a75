//! Files that grow by small durable appends, many at a time, take fast commits.

use crate::fast_commit_replays::replays_agree;
use crate::fast_commit_writes::Rig;
use crate::image;
use uext4::{Caller, InodeRef, WriteContext};

const FILES: u64 = 16;
const APPENDS: u64 = 900;
const APPEND_BYTES: usize = 512;

/// One empty file in each of many directories, all durable.
fn files(rig: &Rig) -> Vec<InodeRef> {
    let user = Caller::root();
    let file = |nr: u64| {
        let name = format!("dir {nr}").into_bytes();
        let dir = rig.fs.mkdir(&rig.root, &name, 0o755, &user).unwrap();
        rig.fs.create(&dir, b"grows", 0o644, &user).unwrap()
    };
    let files = (0..FILES).map(file).collect();
    rig.fs.sync().unwrap();
    files
}

/// The windows of such files lie between each other, so those of files that double would be more
/// extents than an inode holds.
#[test]
fn files_that_grow_beside_each_other_stay_recordable() {
    let rig = Rig::new("fast_commit");
    let files = files(&rig);
    let before = rig.fs.stats();
    for nr in 0..APPENDS {
        for file in &files {
            let at = nr * APPEND_BYTES as u64;
            let data = [nr as u8; APPEND_BYTES];
            rig.fs.write(file, at, &data, &WriteContext::ROOT).unwrap();
            rig.fs.fsync(file).unwrap();
        }
        if nr % 400 == 100 {
            replays_agree(&rig);
        }
    }
    let after = rig.fs.stats();
    let reason = |name: &str| after.full_commits[name] - before.full_commits[name];
    assert_eq!(reason("layout"), 0, "{:?}", after.full_commits);
    let full = after.journal.transactions - before.journal.transactions;
    assert_eq!(full, reason("area_full"), "{:?}", after.full_commits);
    let fast = after.fast_commits.commits - before.fast_commits.commits;
    assert!(fast > 10 * full, "{full} full and {fast} fast commits");
    replays_agree(&rig);
    let Rig { device, fs, root } = rig;
    drop((files, root));
    fs.unmount().unwrap();
    let mut log = device.log();
    let len = log.len();
    image::assert_clean(&log.image(len, uext4::device::Survivors::All));
}
