//! Changes of names are noted for fast commits in the order in which they are made.

use super::*;
use crate::parts::dir::view::Dir;
use std::time::Duration;
use uext4_format::LogicalBlock;
use uext4_testkit::wait::is_true_within;

/// How long a thread that waits for a leaf has for a note that it must not make.
const PATIENCE: Duration = Duration::from_millis(100);

/// A note that is made before its thread has the lock of the leaf may come before that of an
/// earlier change.
#[test]
fn a_name_is_noted_under_the_lock_of_its_leaf() {
    let image = Image::new(16, &["-O", "fast_commit"]);
    let mounted = image.mount();
    let root = mounted.root().unwrap();
    let file = mounted.create(&root, b"file", 0o644, &ROOT).unwrap();
    mounted.sync().unwrap();
    let fs = &mounted.fs;
    let leaf = {
        let view = Dir::open(fs, root.arc()).unwrap();
        view.block_or_damage(LogicalBlock(0)).unwrap()
    };
    let noted = || fs.name_log.take(fs.base.journal.running()).len();
    std::thread::scope(|scope| {
        let locked = leaf.read();
        scope.spawn(|| mounted.link(&file, &root, b"name", &ROOT).unwrap());
        let is_early = is_true_within(PATIENCE, || noted() > 0);
        assert!(!is_early, "the leaf is locked");
        drop(locked);
    });
    assert_eq!(noted(), 1);
    drop((file, root, leaf));
    mounted.unmount().unwrap();
}
