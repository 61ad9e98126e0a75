//! A file system that became read-only because of damage: each writer gets the error, as on the
//! kernel's ext4, even through a file opened before.

use crate::support::{IMAGE_BYTES, Mounted, errno};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use uext4_fuse::{Lazy, umount};
use uext4_testkit::oracle::{self, KernelMount};

const MKE2FS: &[&str] = &["-b", "4096"];
const OPTIONS: &str = "errors=remount-ro";
/// One write may succeed in vain.
const WRITES: usize = 2;

type Heard = (&'static str, Option<i32>);

fn hear(at: &Path) -> Vec<Heard> {
    let path = at.join("early");
    let mut early = OpenOptions::new().append(true).open(&path).unwrap();
    let damage = errno(fs::read(at.join("bad")));
    let writes = (0..WRITES).map(|_| errno(early.write_all(b"late")));
    let written = writes.last().expect("there are some");
    let to_write = errno(OpenOptions::new().read(true).write(true).open(&path));
    vec![
        ("read of what is damaged", damage),
        ("write to what was open", written),
        ("open to write", to_write),
        (
            "open to append",
            errno(OpenOptions::new().append(true).open(&path)),
        ),
        ("open to read", errno(File::open(&path))),
        ("create", errno(File::create(at.join("new")))),
        ("sync", errno(early.sync_all())),
    ]
}

fn damage(image: &Path) {
    let commands = [
        "write /dev/null early",
        "write /etc/passwd bad",
        "set_inode_field bad block[0] 0",
    ];
    let said = oracle::debugfs(image, oracle::Access::Write, &commands);
    said.expect("debugfs writes");
}

#[test]
fn all_writers_hear_it() {
    if !KernelMount::available_or_skip("damage") {
        return;
    }
    let (_kept, image) = oracle::mke2fs_image(IMAGE_BYTES, MKE2FS).unwrap();
    damage(&image);
    let mut mounted = Mounted::with(MKE2FS, &[]);
    mounted.unmount();
    fs::copy(&image, mounted.image()).unwrap();
    let kernel = KernelMount::new(&image, OPTIONS).unwrap();
    let theirs = hear(kernel.path());
    kernel.unmount().unwrap();
    assert_eq!(theirs[1], ("write to what was open", Some(libc::EROFS)));
    mounted.mount(&["-o", OPTIONS]);
    let ours = hear(&mounted.root());
    assert_eq!(ours, theirs, "ours, the kernel's");
    assert!(umount(&mounted.root(), Lazy::No).is_err());
    assert!(!mounted.take_server().wait().unwrap().success());
}
