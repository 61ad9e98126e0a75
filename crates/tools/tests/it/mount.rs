//! `mount` and `umount` as the README shows them.

use crate::rig::Rig;
use uext4_testkit::skip;

#[test]
fn a_mount_in_the_background_is_clean_after_umount() {
    if !skip::fuse_or_skip("mount") {
        return;
    }
    let rig = Rig::new(&[]);
    let dir = rig.path("mnt");
    std::fs::create_dir(&dir).unwrap();
    rig.ok(&["mount", "disk.img", "mnt"]);
    let written = std::fs::write(dir.join("file"), "through FUSE");
    let busy = rig.run(&["mkdir", "disk.img", "/x"]);
    rig.ok(&["umount", "mnt"]);
    written.expect("the mount takes a file");
    assert_eq!(busy.status.code(), Some(5));
    assert!(!dir.join("file").exists());
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "through FUSE");
    rig.assert_clean();
    rig.fails(1, "not a mount point", &["umount", "mnt"]);
}
