//! Requests in flight when the server is killed, the mount is detached or the caller is
//! interrupted; servers with fewer cores than callers.

use crate::support::{Mounted, program, run};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use uext4_fuse::{Image, Lazy, umount};
use uext4_testkit::{oracle, wait};

const CALLERS: usize = 12;
/// Long enough for a busy machine; a hang never ends.
const PATIENCE: Duration = Duration::from_secs(60);

fn content(index: usize, round: usize) -> Vec<u8> {
    let bytes = 1 + (index * 7919 + round * 104_729) % 300_000;
    (0..bytes)
        .map(|at| (at * 13 + index + round) as u8)
        .collect()
}

/// Names, data and attributes until one operation fails; returns the number of synced rounds.
fn work(
    mounted: &Mounted,
    index: usize,
    stop: &AtomicBool,
    n_rounds: &AtomicUsize,
) -> (usize, io::Result<()>) {
    let dir = mounted.path(&format!("dir{index}"));
    let mut synced = 0;
    let mut round = || -> io::Result<()> {
        let path = dir.join(format!("{synced}"));
        let file = File::create_new(&path)?;
        file.write_all_at(&content(index, synced), 0)?;
        file.sync_all()?;
        File::open(&dir)?.sync_all()?;
        synced += 1;
        fs::metadata(&path)?;
        fs::write(dir.join("more"), content(index, 99))?;
        fs::rename(dir.join("more"), dir.join("other"))?;
        fs::read(&path)?;
        fs::read_dir(&dir)?.try_for_each(|entry| entry.map(|_| ()))?;
        fs::remove_file(dir.join("other"))
    };
    while !stop.load(Ordering::Relaxed) {
        if let Err(error) = round() {
            return (synced, Err(error));
        }
        n_rounds.fetch_add(1, Ordering::Relaxed);
    }
    (synced, Ok(()))
}

/// Runs `CALLERS` threads of [`work`], and `meanwhile` while they are busy. No thread may hang.
fn with_callers(mounted: &Mounted, meanwhile: impl FnOnce(&AtomicBool)) -> Vec<usize> {
    let stop = AtomicBool::new(false);
    let n_rounds = AtomicUsize::new(0);
    for index in 0..CALLERS {
        fs::create_dir(mounted.path(&format!("dir{index}"))).unwrap();
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for index in 0..CALLERS {
            let (sender, stop, n_rounds) = (sender.clone(), &stop, &n_rounds);
            scope.spawn(move || {
                let done = work(mounted, index, stop, n_rounds);
                sender.send((index, done)).expect("the test waits");
            });
        }
        wait::until_true("the callers are busy", || {
            n_rounds.load(Ordering::Relaxed) >= 2 * CALLERS
        });
        meanwhile(&stop);
        let mut synced = vec![0; CALLERS];
        for _ in 0..CALLERS {
            match receiver.recv_timeout(PATIENCE) {
                Ok((index, (n_rounds, done))) => {
                    assert!(done.is_ok() == stop.load(Ordering::Relaxed), "{done:?}");
                    synced[index] = n_rounds;
                }
                // A thread that hangs could not be joined.
                Err(RecvTimeoutError::Timeout) => std::process::abort(),
                Err(RecvTimeoutError::Disconnected) => unreachable!("this thread has a sender"),
            }
        }
        synced
    })
}

#[test]
fn callers_of_a_killed_server_get_errors_and_keep_what_was_synced() {
    let mut mounted = Mounted::new();
    let mut server = mounted.take_server();
    let synced = with_callers(&mounted, |_| server.kill().unwrap());
    server.wait().unwrap();
    assert!(synced.iter().sum::<usize>() > 0);
    assert_eq!(
        umount(&mounted.root(), Lazy::Yes).unwrap(),
        Image::NeedsRecovery
    );
    mounted.mount(&[]);
    for (index, n_rounds) in synced.into_iter().enumerate() {
        for round in 0..n_rounds {
            let read = fs::read(mounted.path(&format!("dir{index}/{round}"))).unwrap();
            assert!(read == content(index, round), "dir{index}/{round}");
        }
    }
    mounted.unmount();
}

#[test]
fn a_busy_mount_is_detached_and_closed_after_its_last_caller() {
    let mut mounted = Mounted::new();
    let file = File::create(mounted.path("file")).unwrap();
    let (rounds, root) = (AtomicU64::new(0), mounted.root());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let round = rounds.load(Ordering::Relaxed);
                file.write_all_at(&[round as u8; 5000], round * 5000)
                    .unwrap();
                file.sync_data().unwrap();
                rounds.store(round + 1, Ordering::Relaxed);
            }
        });
        let ten_more = || {
            let before = rounds.load(Ordering::Relaxed);
            let more = || rounds.load(Ordering::Relaxed) >= before + 10;
            wait::until_true("the file is written", more);
        };
        ten_more();
        assert_eq!(umount(&root, Lazy::Yes).unwrap(), Image::InUse);
        ten_more();
        stop.store(true, Ordering::Relaxed);
    });
    let rounds = rounds.into_inner();
    drop(file);
    assert!(mounted.server().wait().unwrap().success());
    oracle::assert_clean(&mounted.image());
    mounted.mount(&[]);
    let read = fs::read(mounted.path("file")).unwrap();
    let expected = |round: u64| [round as u8; 5000];
    assert_eq!(read.len() as u64, rounds * 5000);
    for (round, bytes) in (0..).zip(read.chunks(5000)) {
        assert!(bytes == expected(round), "round {round}");
    }
    mounted.unmount();
}

/// Timers interrupt blocking calls; the last caller of each kind is killed.
#[test]
fn interrupted_calls_do_no_harm() {
    const SCRIPT: &str = "import os, signal, sys\n\
        signal.signal(signal.SIGALRM, lambda *_: None)\n\
        signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)\n\
        name = sys.argv[1]\n\
        for i in range(60):\n\
        \x20f = os.open(name, os.O_RDWR | os.O_CREAT)\n\
        \x20data = bytes([i + 1]) * 70000\n\
        \x20assert os.pwrite(f, data, i * 70000) == 70000\n\
        \x20os.fsync(f)\n\
        \x20os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)\n\
        \x20assert os.pread(f, 70000, i * 70000) == data\n\
        \x20os.close(f)\n\
        signal.setitimer(signal.ITIMER_REAL, 0)\n";
    let mut mounted = Mounted::new();
    let interrupted = |name: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).arg(mounted.path(name));
        command.spawn().expect("python3 is installed")
    };
    let mut children: Vec<_> = ["a", "b", "c"].map(interrupted).into();
    // All data fit, however fast the machine is.
    for round in 0..6 {
        let path = mounted.path(&format!("killed{round}"));
        let line = format!(
            "dd if=/dev/zero of={} bs=1M count=25 conv=fsync",
            path.display()
        );
        let killed = Command::new("timeout")
            .args(["-s", "KILL", "0.03", "sh", "-c", &line])
            .output()
            .unwrap();
        assert!(!killed.stdout.starts_with(b"dd:"), "{killed:?}");
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    for name in ["a", "b", "c"] {
        let read = fs::read(mounted.path(name)).unwrap();
        assert_eq!(read.len(), 60 * 70_000);
        let right = |(index, bytes): (usize, &[u8])| bytes == vec![index as u8 + 1; 70_000];
        assert!(read.chunks(70_000).enumerate().all(right), "{name}");
    }
    mounted.unmount();
}

/// The kernel has queues for all cores, whichever threads serve them.
#[test]
fn a_server_on_one_core_serves_callers_on_all() {
    let mut mounted = Mounted::new();
    mounted.unmount();
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program());
    mounted.mount_by(command, &[]);
    let synced = with_callers(&mounted, |stop| stop.store(true, Ordering::Relaxed));
    assert!(synced.iter().all(|&n_rounds| n_rounds > 0), "{synced:?}");
    let big = mounted.path("big");
    run(
        "dd",
        &[
            &"if=/dev/zero",
            &format!("of={}", big.display()),
            &"bs=7M",
            &"count=5",
        ],
    );
    assert_eq!(fs::read(&big).unwrap(), vec![0; 35 << 20]);
    mounted.unmount();
}
