//! Requests that wait for a thaw, and what must go on or end beside them.

use crate::support::{Connection, Mounted, errno};
use crate::watchdog::Watchdog;
use rustix::fs::{SeekFrom, seek};
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use uext4_fuse::{Ask, Lazy, freeze, thaw, umount};
use uext4_testkit::wait;

/// More than a pool has threads; as many as a queue may keep waiting.
const MANY: usize = 60;
/// Time to watch that something does not happen.
const A_WHILE: Duration = Duration::from_millis(300);

/// Files that are open, made before anything is frozen.
fn files(mounted: &Mounted, count: usize) -> Vec<File> {
    let make = |index| File::create(mounted.path(&format!("{index}"))).unwrap();
    (0..count).map(make).collect()
}

/// Data that the kernel keeps back.
fn dirty(files: &[File]) {
    for file in files {
        file.write_all_at(&[7; 4096], 0).unwrap();
    }
}

/// A seek makes the kernel send the data of the file, which waits for the thaw.
#[test]
fn seekers_on_dirty_files_go_on_after_a_thaw() {
    let mut mounted = Mounted::new();
    let files = files(&mounted, MANY);
    let (watchdog, connection) = (Watchdog::over(&mut mounted), mounted.connection());
    freeze(&mounted.root()).unwrap();
    dirty(&files);
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(move || assert_eq!(seek(file, SeekFrom::Hole(0)), Ok(4096)));
        }
        connection.wait_for_requests(MANY);
        assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), MANY + 1);
        thaw(&mounted.root()).unwrap();
    });
    drop((watchdog, files));
    mounted.unmount();
}

/// What is clean is durable: its `fsync` waits for no thaw, however many other requests do.
#[test]
fn fsync_of_clean_files_is_answered_while_frozen() {
    let mut mounted = Mounted::new();
    let files = files(&mounted, MANY);
    let clean = File::create(mounted.path("clean")).unwrap();
    let (watchdog, connection) = (Watchdog::over(&mut mounted), mounted.connection());
    freeze(&mounted.root()).unwrap();
    dirty(&files);
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(move || seek(file, SeekFrom::Data(0)).unwrap());
        }
        connection.wait_for_requests(MANY);
        for _ in 0..4 {
            clean.sync_all().unwrap();
            File::open(mounted.root()).unwrap().sync_all().unwrap();
        }
        thaw(&mounted.root()).unwrap();
    });
    drop((watchdog, files, clean));
    mounted.unmount();
}

/// The client waits for a thaw, and the end of the mount for the client.
#[test]
fn a_frozen_mount_ends_although_a_client_waits() {
    let mut mounted = Mounted::with(&["-b", "4096", "-O", "quota"], &[]);
    let (client, root) = (mounted.client(), mounted.root());
    let watchdog = Watchdog::over(&mut mounted);
    freeze(&root).unwrap();
    std::thread::scope(|scope| {
        let limits = uext4_fuse::NewLimits::default();
        let kind = "user".to_owned();
        let id = 7;
        let ask = Ask::SetQuota { kind, id, limits };
        let asking = scope.spawn(move || client.ask(&ask));
        assert!(!wait::is_true_within(A_WHILE, || asking.is_finished()));
        unmount(&root, UnmountFlags::empty()).unwrap();
        assert!(mounted.take_server().wait().unwrap().success());
    });
    drop(watchdog);
}

/// The connection ends while a write waits for a thaw.
#[test]
fn a_frozen_mount_that_is_torn_off_ends() {
    let mut mounted = Mounted::new();
    let (root, files) = (mounted.root(), files(&mounted, 3));
    let (watchdog, connection) = (Watchdog::over(&mut mounted), mounted.connection());
    freeze(&root).unwrap();
    dirty(&files);
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| file.sync_all());
        }
        scope.spawn(|| fs::create_dir(root.join("new")));
        connection.wait_for_requests(files.len() + 1);
        // It is busy, but aborted.
        let _busy = unmount(&root, UnmountFlags::FORCE);
        mounted.take_server().wait().unwrap();
    });
    drop((watchdog, files));
    let _ = umount(&root, Lazy::Yes);
}

/// `umount` of a frozen mount thaws it, and so does a signal.
#[test]
fn a_frozen_mount_with_waiting_writes_unmounts() {
    let mut mounted = Mounted::new();
    for by_signal in [false, true] {
        let (root, files) = (mounted.root(), files(&mounted, 3));
        let (watchdog, connection) = (Watchdog::over(&mut mounted), mounted.connection());
        freeze(&root).unwrap();
        dirty(&files);
        drop_all(files, &connection);
        if by_signal {
            crate::support::run("kill", &[&mounted.server().id().to_string()]);
            assert!(mounted.take_server().wait().unwrap().success());
        } else {
            mounted.unmount();
        }
        drop(watchdog);
        mounted.mount(&[]);
        assert_eq!(fs::read(mounted.path("1")).unwrap(), [7; 4096]);
    }
    mounted.unmount();
}

/// The second signal ends the process while seeks make the kernel send dirty pages. Each caller
/// gets an answer or an error.
#[test]
fn a_second_signal_leaves_no_seek_waiting() {
    let mut mounted = Mounted::new();
    for _ in 0..5 {
        let files = files(&mounted, MANY / 2);
        let watchdog = Watchdog::over(&mut mounted);
        let server = mounted.server().id().to_string();
        let (n_seeks, is_over) = (&AtomicU64::new(0), &AtomicBool::new(false));
        let after_more_seeks = || {
            let before = n_seeks.load(SeqCst);
            wait::until_true("seeks", || n_seeks.load(SeqCst) > before + 100);
        };
        std::thread::scope(|scope| {
            for file in &files {
                scope.spawn(move || {
                    // While the image is being closed there are errors, and seeks go on.
                    while !is_over.load(SeqCst) {
                        let _ = file.write_all_at(&[7; 65536], 0);
                        let _ = seek(file, SeekFrom::Data(0));
                        n_seeks.fetch_add(1, SeqCst);
                    }
                });
            }
            after_more_seeks();
            crate::support::run("kill", &[&server]);
            after_more_seeks();
            crate::support::run("kill", &[&server]);
            let ended = mounted.take_server().wait();
            is_over.store(true, SeqCst);
            assert!(ended.unwrap().success());
        });
        drop((watchdog, files));
        mounted.mount(&[]);
    }
    mounted.unmount();
}

/// By `umount2(2)` itself the server is asked nothing. Files that are being closed keep it busy;
/// detached, it is in no table, and the thaw finds it all the same.
#[test]
fn a_frozen_mount_that_the_kernel_detached_is_thawed() {
    let mut mounted = Mounted::new();
    let (root, files) = (mounted.root(), files(&mounted, 3));
    let (watchdog, connection) = (Watchdog::over(&mut mounted), mounted.connection());
    freeze(&root).unwrap();
    dirty(&files);
    drop_all(files, &connection);
    let busy = unmount(&root, UnmountFlags::empty());
    assert_eq!(busy, Err(rustix::io::Errno::BUSY));
    unmount(&root, UnmountFlags::DETACH).unwrap();
    let ended = || mounted.server().try_wait().unwrap();
    assert_eq!(wait::within(A_WHILE, ended), None);
    thaw(&root).unwrap();
    assert!(mounted.take_server().wait().unwrap().success());
    drop(watchdog);
    let gone = thaw(&root).expect_err("the server has ended");
    assert!(
        matches!(gone, uext4_fuse::Error::NotMounted { .. }),
        "{gone}"
    );
    mounted.mount(&[]);
    assert_eq!(fs::read(mounted.path("1")).unwrap(), [7; 4096]);
    mounted.unmount();
}

/// Closing a file writes it out, which waits for the thaw.
fn drop_all(files: Vec<File>, connection: &Connection) {
    let count = files.len();
    for file in files {
        std::thread::spawn(move || drop(file));
    }
    connection.wait_for_requests(count);
}

/// A second freeze is refused at once, also with data that cannot be written now.
#[test]
fn what_is_frozen_is_not_frozen_again() {
    let mut mounted = Mounted::new();
    let (root, files) = (mounted.root(), files(&mounted, 1));
    let watchdog = Watchdog::over(&mut mounted);
    freeze(&root).unwrap();
    dirty(&files);
    let refused = |done: uext4_fuse::Result<()>| {
        let error = done.expect_err("it is frozen");
        assert!(error.to_string().contains("frozen"), "{error}");
    };
    refused(freeze(&root));
    refused(uext4_fuse::remount(&root, "ro"));
    thaw(&root).unwrap();
    drop((watchdog, files));
    mounted.unmount();
}

/// Shut down while frozen, what waits is answered.
#[test]
fn a_frozen_mount_is_shut_down() {
    let mut mounted = Mounted::new();
    let (root, files) = (mounted.root(), files(&mounted, 2));
    let (watchdog, connection) = (Watchdog::over(&mut mounted), mounted.connection());
    freeze(&root).unwrap();
    dirty(&files);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(errno(fs::create_dir(root.join("new"))), Some(libc::EIO));
        });
        connection.wait_for_requests(1);
        uext4_fuse::shutdown(&root, uext4::Flush::Log).unwrap();
    });
    drop((watchdog, files));
    mounted.unmount();
}
