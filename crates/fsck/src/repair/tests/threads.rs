//! What two threads find out together.

use super::tree::{Tree, options};
use uext4_mkfs::InodeCount;

/// Two directories with one block, in different groups. `checked` compares the
/// findings of one thread and of several.
#[test]
fn blocks_of_inodes_of_two_threads_are_shared() {
    let mut paths = vec!["first/".to_owned()];
    paths.extend((0..60).map(|at| format!("first/{at}")));
    paths.push("last/".to_owned());
    let mut options = options(&[], &[]);
    options.blocks_per_group = Some(1024);
    options.inodes = InodeCount::AtLeast(320);
    let tree = Tree::new(&options, &paths);
    let map = tree.inode(tree.nr_of("first")).i_block;
    let last = tree.nr_of("last");
    assert!(last.0 > tree.nr_of("first").0 + 40);
    tree.change_inode(last, |inode| inode.i_block = map);
    let codes = tree.codes();
    assert!(
        codes.iter().any(|code| code == "inode-map.data-shared"),
        "{codes:?}"
    );
}
