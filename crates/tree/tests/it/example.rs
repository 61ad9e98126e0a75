//! The example runs.

use crate::copy_tree;
use crate::rig::Rig;
use std::fs;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4_testkit::oracle;

#[test]
fn the_example_copies_a_tree_in_and_out() {
    let rig = Rig::new();
    rig.make(&["tree/", "tree/dir/", "tree/dir/file"]);
    let image = rig.host("disk.img");
    let made = fs::File::create(&image).and_then(|file| file.set_len(16 << 20));
    made.expect("makes it");
    let device = Arc::new(FileDevice::open(&image, Access::ReadWrite).expect("opens"));
    mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4)).expect("makes a file system");
    drop(device);
    copy_tree::run(&image, &rig.host("tree"), &rig.host("copy")).expect("runs");
    let copied = fs::read(rig.host("copy/dir/file")).expect("it is there");
    assert_eq!(copied, b"tree/dir/file");
    oracle::assert_clean(&image);
}
