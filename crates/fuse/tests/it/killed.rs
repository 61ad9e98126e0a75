//! A server that is killed while it waits for its own mount: every caller is answered.

use crate::support::{Mounted, errno, runtime_dir};
use crate::watchdog::Watchdog;
use rustix::fs::{SeekFrom, seek};
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use uext4_fuse::{Image, freeze};
use uext4_testkit::wait;

/// Kills the server while seeks in `n_files` files with dirty pages make it wait for the kernel,
/// and the kernel for the thaw. `before` changes the mount then.
fn kill_a_waiting_server(mounted: &mut Mounted, n_files: usize, before: impl FnOnce(&Mounted)) {
    let make = |index| File::create(mounted.path(&format!("{index}"))).unwrap();
    let files: Vec<File> = (0..n_files).map(make).collect();
    let watchdog = Watchdog::over(mounted);
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
        before(mounted);
        mounted.kill();
    });
    drop((watchdog, files));
}

fn wait_for_free_image(mounted: &Mounted) {
    wait::until_true("the image is free", || {
        let image = File::open(mounted.image()).unwrap();
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(&image, lock).is_ok()
    });
}

#[test]
fn a_server_killed_while_it_fetches_data_leaves_no_caller_waiting() {
    for n_files in [1, 6] {
        let mut mounted = Mounted::new();
        fs::write(mounted.path("kept"), "data").unwrap();
        File::open(mounted.path("kept"))
            .unwrap()
            .sync_all()
            .unwrap();
        kill_a_waiting_server(&mut mounted, n_files, |_| {});
        let stat = fs::metadata(mounted.path("kept"));
        assert_eq!(errno(stat), Some(libc::ENOTCONN));
        assert_eq!(mounted.umount_soon(), Image::NeedsRecovery);
        wait_for_free_image(&mounted);
        mounted.mount(&[]);
        assert_eq!(fs::read(mounted.path("kept")).unwrap(), b"data");
        mounted.unmount();
    }
}

/// Detached, the mount is in no table, and its users still wait.
#[test]
fn the_server_of_a_detached_mount_leaves_nothing_behind() {
    let mut mounted = Mounted::new();
    let dir = runtime_dir(&mounted.root());
    assert!(dir.join("control").exists(), "{}", dir.display());
    kill_a_waiting_server(&mut mounted, 2, |mounted| {
        unmount(mounted.root(), UnmountFlags::DETACH).unwrap();
    });
    wait_for_free_image(&mounted);
    wait::until_true("claim and socket are removed", || !dir.exists());
    mounted.mount(&[]);
    mounted.unmount();
}

/// The mount moves with its directory.
#[test]
fn the_server_of_a_renamed_mount_leaves_no_caller_waiting() {
    let mut mounted = Mounted::new();
    let dir = runtime_dir(&mounted.root());
    assert!(dir.join("control").exists(), "{}", dir.display());
    let parent = mounted.root().parent().unwrap().to_owned();
    let renamed = parent.with_extension("renamed");
    kill_a_waiting_server(&mut mounted, 2, |_| fs::rename(&parent, &renamed).unwrap());
    let is_removed = wait::is_true_within(std::time::Duration::from_secs(30), || !dir.exists());
    fs::rename(&renamed, &parent).unwrap();
    assert!(is_removed, "claim and socket are there");
    assert_eq!(mounted.umount_soon(), Image::NeedsRecovery);
    wait_for_free_image(&mounted);
    mounted.mount(&[]);
    mounted.unmount();
}
