//! A server that is killed while it waits for its own mount: every caller is answered.

use crate::support::{Mounted, errno};
use crate::watchdog::Watchdog;
use rustix::fs::{SeekFrom, seek};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use uext4_fuse::{Image, freeze};
use uext4_testkit::wait;

/// A seek in a file with dirty pages makes the server wait for the kernel, and the kernel for the
/// thaw.
#[test]
fn a_server_killed_while_it_fetches_data_leaves_no_caller_waiting() {
    for n_files in [1, 6] {
        let mut mounted = Mounted::new();
        fs::write(mounted.path("kept"), "data").unwrap();
        File::open(mounted.path("kept"))
            .unwrap()
            .sync_all()
            .unwrap();
        let make = |index| File::create(mounted.path(&format!("{index}"))).unwrap();
        let files: Vec<File> = (0..n_files).map(make).collect();
        let watchdog = Watchdog::over(&mut mounted);
        let connection = mounted.connection();
        freeze(&mounted.root()).unwrap();
        for file in &files {
            file.write_all_at(&[7; 4096], 0).unwrap();
        }
        std::thread::scope(|scope| {
            for file in &files {
                scope.spawn(move || {
                    let answer = seek(file, SeekFrom::Data(0));
                    assert!(answer.is_err(), "{answer:?}");
                });
            }
            // The seeks, and the data that they wait for.
            connection.wait_for_requests(2 * n_files);
            mounted.kill();
        });
        let stat = fs::metadata(mounted.path("kept"));
        assert_eq!(errno(stat), Some(libc::ENOTCONN));
        drop((watchdog, files));
        assert_eq!(mounted.umount_soon(), Image::NeedsRecovery);
        wait::until_true("the image is free", || {
            let image = File::open(mounted.image()).unwrap();
            let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            rustix::fs::flock(&image, lock).is_ok()
        });
        mounted.mount(&[]);
        assert_eq!(fs::read(mounted.path("kept")).unwrap(), b"data");
        mounted.unmount();
    }
}
