//! Failure of a serving thread: the kernel would wait for it forever, so the mount ends.

use crate::support::{Mounted, Via};
use crate::watchdog::Watchdog;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use uext4_fuse::{Lazy, umount};
use uext4_testkit::skip;

/// `strace` that injects one failure into the next call that waits for requests.
fn break_next_wait(server: u32) -> Child {
    let call = match crate::VIA {
        Via::DevFuse => "read",
        Via::IoUring => "io_uring_enter",
    };
    let mut command = Command::new("strace");
    command.args(["-f", "-p", &server.to_string(), "-o", "/dev/null"]);
    command.args(["-e", &format!("inject={call}:error=EBADF:when=1")]);
    if crate::VIA == Via::DevFuse {
        command.args(["-P", "/dev/fuse"]);
    }
    let mut strace = command.stderr(Stdio::piped()).spawn().expect("strace runs");
    let said = strace.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(said).lines();
    let line = lines.next().expect("it says that it attached").unwrap();
    assert!(line.contains("attached"), "{line}");
    // Without a reader `strace` would end.
    std::thread::spawn(move || lines.for_each(drop));
    strace
}

#[test]
fn a_mount_whose_thread_fails_ends() {
    if !skip::programs_or_skip("a_mount_whose_thread_fails_ends", &["strace"]) {
        return;
    }
    let mut mounted = Mounted::new();
    let durable = mounted.path("durable");
    fs::write(&durable, "kept").unwrap();
    fs::File::open(&durable).unwrap().sync_all().unwrap();
    let watchdog = Watchdog::over(&mut mounted);
    let mut strace = break_next_wait(mounted.server().id());
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let mounted = &mounted;
            scope.spawn(move || {
                let start = Instant::now();
                // The kernel remembers absent names, so each call needs a new one.
                let answers = |call| {
                    let absent = mounted.path(&format!("absent {caller} {call}"));
                    fs::metadata(&absent).is_err_and(|error| error.kind() == NOT_FOUND)
                };
                let mut calls = 0u64..;
                while calls.next().is_some_and(answers) && mounted.is_mounted() {
                    assert!(start.elapsed() < LIMIT, "no thread of the server fails");
                }
            });
        }
    });
    let status = mounted.take_server().wait().unwrap();
    assert_eq!(status.code(), Some(1), "{status}");
    strace.wait().unwrap();
    drop(watchdog);
    // A mount that was busy at the abort is still attached.
    let _ = umount(&mounted.root(), Lazy::Yes);
    assert!(!mounted.is_mounted());
    mounted.mount(&[]);
    assert_eq!(fs::read(durable).unwrap(), b"kept");
    mounted.unmount();
}

const NOT_FOUND: std::io::ErrorKind = std::io::ErrorKind::NotFound;
const LIMIT: Duration = Duration::from_secs(30);
