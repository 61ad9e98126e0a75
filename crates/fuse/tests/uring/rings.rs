//! io_uring transport: it is selected and reported, and waiting requests never block a queue.

use crate::support::{Mounted, program, try_run};
use rustix::fs::{SeekFrom, seek};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uext4_fuse::{Ask, Client};
use uext4_testkit::oracle;
use uext4_testkit::rings::RingsSwitch;

/// Number of concurrent callers.
const WAITING: usize = 40;

fn served(mounted: &Mounted) -> String {
    // The server listens a moment after the mount answers.
    let start = Instant::now();
    let client = loop {
        match Client::connect(&mounted.root()) {
            Err(_) if start.elapsed() < Duration::from_secs(10) => std::thread::yield_now(),
            done => break done.unwrap(),
        }
    };
    let answer = client.ask(&Ask::Server {}).unwrap();
    answer["served"].as_str().unwrap().to_owned()
}

#[test]
fn a_mount_tells_how_it_is_served() {
    let mut mounted = Mounted::new();
    let said = served(&mounted);
    assert!(said.starts_with("over io_uring"), "{said}");
    mounted.unmount();
}

#[test]
fn a_mount_that_demands_rings_fails_without_them() {
    let mut mounted = Mounted::new();
    mounted.unmount();
    let (image, root) = (mounted.image(), mounted.root());
    let _off = RingsSwitch::off().expect("it was switched before");
    let output = try_run(program().to_str().unwrap(), &[&image, &root, &"io_uring"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("enable_uring") && !mounted.is_mounted(),
        "{said}"
    );
}

/// Default transport: rings if the kernel offers them, otherwise the device.
#[test]
fn without_a_word_the_kernel_decides() {
    for (switch, expected) in [
        (RingsSwitch::off as fn() -> _, "through /dev/fuse"),
        (RingsSwitch::on, "over io_uring"),
    ] {
        let mut mounted = Mounted::new();
        mounted.unmount();
        let switched = switch().expect("it was switched before");
        let (image, root) = (mounted.image(), mounted.root());
        let output = try_run(program().to_str().unwrap(), &[&image, &root, &"daemon"]);
        assert!(output.status.success(), "{output:?}");
        drop(switched);
        let said = served(&mounted);
        assert!(said.starts_with(expected), "{said}");
        fs::write(mounted.path("file"), vec![3; 3 << 20]).unwrap();
        assert!(fs::read(mounted.path("file")).unwrap() == vec![3; 3 << 20]);
        let output = try_run(program().to_str().unwrap(), &[&"umount", &root]);
        assert!(output.status.success(), "{output:?}");
        oracle::assert_clean(&image);
    }
}

/// Runs `work` concurrently on [`WAITING`] new files.
fn on_files_at_once(mounted: &Mounted, work: impl Fn(&File) + Sync) {
    let start = Barrier::new(WAITING);
    std::thread::scope(|scope| {
        for index in 0..WAITING {
            let (path, start, work) = (mounted.path(&format!("{index}")), &start, &work);
            scope.spawn(move || {
                let file = File::create(path).unwrap();
                start.wait();
                work(&file);
            });
        }
    });
}

/// Each seek makes the kernel write the data back first, in a separate request.
#[test]
fn seeks_that_wait_for_data_do_not_stop_a_queue() {
    let mut mounted = Mounted::new();
    on_files_at_once(&mounted, |file| {
        for round in 0..20u64 {
            let at = round * 100_000;
            file.write_all_at(&[1; 10_000], at).unwrap();
            let hole = seek(file, SeekFrom::Hole(at)).unwrap();
            assert_eq!(hole, at + 10_000);
            assert_eq!(seek(file, SeekFrom::Data(at)).unwrap(), at);
        }
    });
    mounted.unmount();
}

/// WorkerPool serve large writes when a freeze begins; small reads continue.
#[test]
fn large_writes_wait_for_a_thaw_and_stop_no_other() {
    const LARGE: u64 = 1 << 20;
    let mut mounted = Mounted::new();
    fs::write(mounted.path("small"), "read").unwrap();
    let root = mounted.root();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                uext4_fuse::freeze(&root).unwrap();
                assert_eq!(fs::read(root.join("small")).unwrap(), b"read");
                uext4_fuse::thaw(&root).unwrap();
            }
        });
        on_files_at_once(&mounted, |file| {
            let data = vec![9; LARGE as usize];
            for round in 0..2 {
                file.write_all_at(&data, round * LARGE).unwrap();
                file.sync_data().unwrap();
            }
        });
        done.store(true, Ordering::Relaxed);
    });
    for index in 0..WAITING {
        let read = fs::read(mounted.path(&format!("{index}"))).unwrap();
        assert!(read == vec![9; 2 * LARGE as usize]);
    }
    mounted.unmount();
}

#[test]
fn many_callers_of_fsync_wait_together() {
    let mut mounted = Mounted::new();
    on_files_at_once(&mounted, |file| {
        for round in 0..20 {
            file.write_all_at(&[7; 3000], round * 3000).unwrap();
            file.sync_all().unwrap();
        }
    });
    mounted.kill();
    crate::support::run("umount", &[&"-l", &mounted.root()]);
    mounted.mount(&[]);
    for index in 0..WAITING {
        assert!(fs::read(mounted.path(&format!("{index}"))).unwrap() == [7; 60_000]);
    }
    mounted.unmount();
}
