//! Behaviour that users of kernel mounts expect: labels, whole seconds in old inodes, access times,
//! unmounts beside short-lived users.

use crate::support::{Mounted, run};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};
use uext4_fuse::{Error, Lazy, umount};
use uext4_testkit::wait;

fn label(image: &Path) -> String {
    let said = run("blkid", &[&"-p", &"-s", &"LABEL", &"-o", &"value", &image]);
    said.trim().to_owned()
}

#[test]
fn a_label_is_on_the_device_at_once() {
    let mut mounted = Mounted::with(&["-b", "4096", "-L", "before"], &[]);
    assert_eq!(label(&mounted.image()), "before");
    let script = "import fcntl, os, sys; \
         fcntl.ioctl(os.open(sys.argv[1], 0), 0x41009432, sys.argv[2].encode().ljust(256, b'\\0'))";
    for name in ["first", "second"] {
        // The label changes beside other changes of the superblock.
        fs::write(mounted.path(name), name).unwrap();
        run("python3", &[&"-c", &script, &mounted.root(), &name]);
        assert_eq!(label(&mounted.image()), name);
    }
    mounted.unmount();
    assert_eq!(label(&mounted.image()), "second");
}

#[test]
fn old_inodes_have_whole_seconds_from_the_beginning() {
    let mut mounted = Mounted::with(&["-b", "4096", "-I", "128"], &[]);
    let path = mounted.path("file");
    let written = || fs::write(&path, "text").unwrap();
    let touched = || {
        File::open(&path)
            .unwrap()
            .set_modified(SystemTime::now())
            .unwrap()
    };
    let moded = || run("chmod", &[&"600", &path]).clear();
    let steps: [(&str, &dyn Fn()); 3] = [
        ("write", &written),
        ("utimens", &touched),
        ("chmod", &moded),
    ];
    for (what, step) in steps {
        // One clock tick may be a whole second by chance, three in a row are not.
        for _ in 0..3 {
            step();
            wait::clock_tick();
            let found = fs::metadata(&path).unwrap();
            let parts = [found.atime_nsec(), found.mtime_nsec(), found.ctime_nsec()];
            assert_eq!(parts, [0; 3], "{what}");
        }
    }
    mounted.unmount();
}

const O_NONBLOCK: i32 = 0o4000;

/// The file is as old as the image; only a read counts as an access.
#[test]
fn opening_a_file_is_no_access() {
    let mut mounted = Mounted::new();
    let path = mounted.path("file");
    fs::write(&path, "text").unwrap();
    run("touch", &[&"-a", &"-d", &"2001-02-03", &path]);
    let old = fs::metadata(&path).unwrap().atime();
    mounted.unmount();
    mounted.mount(&[]);
    let atime = || fs::metadata(&path).unwrap().atime();
    drop(File::open(&path).unwrap());
    drop(
        File::options()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(&path)
            .unwrap(),
    );
    run("lsattr", &[&path]);
    assert_eq!(atime(), old, "opened");
    assert_eq!(fs::read(&path).unwrap(), b"text");
    assert!(atime() > old, "read");
    mounted.unmount();
    mounted.mount(&[]);
    assert!(atime() > old, "in the next mount");
    mounted.unmount();
}

#[test]
fn a_mount_that_is_busy_for_a_moment_is_unmounted() {
    let mut mounted = Mounted::new();
    let held = File::create(mounted.path("held")).unwrap();
    let root = mounted.root();
    // Permanently busy: the caller gets the error.
    let refused = umount(&root, Lazy::No);
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    let unmount = std::thread::spawn(move || umount(&root, Lazy::No));
    let gave_up = || unmount.is_finished();
    assert!(!wait::is_true_within(Duration::from_millis(200), gave_up));
    drop(held);
    let done = unmount.join().unwrap();
    done.expect("it is busy for a moment only");
    mounted.take_server().wait().unwrap();
    mounted.mount(&[]);
    mounted.unmount();
}
