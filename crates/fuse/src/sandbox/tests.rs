//! A sandboxed process tries to escape.

use super::*;
use std::fs::{self, File};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory for the sandboxed process.
const DIR: &str = "UEXT4_TEST_LOCKED_IN";

#[test]
fn nothing_is_reached_from_inside() {
    let dir = tempfile::tempdir().expect("there is room");
    for name in ["image", "other"] {
        fs::write(dir.path().join(name), [7; 4096]).expect("it is fresh");
    }
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket"));
    let tests = std::env::current_exe().expect("the test has a path");
    let mut command = Command::new(tests);
    command.args([
        "--exact",
        "sandbox::tests::inside",
        "--ignored",
        "--nocapture",
    ]);
    let output = command.env(DIR, dir.path()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("it stayed inside"), "{said}");
    assert!(!dir.path().join("new").exists());
    drop(listener);
}

fn denied<T>(what: &str, done: io::Result<T>) {
    let error = done.err().unwrap_or_else(|| panic!("{what} is possible"));
    let denied = [libc::EPERM, libc::EACCES];
    assert!(
        error
            .raw_os_error()
            .is_some_and(|errno| denied.contains(&errno)),
        "{what}: {error}"
    );
}

fn try_everything(dir: &Path) {
    denied("to read a file", File::open(dir.join("other")));
    denied("to read a password", File::open("/etc/passwd"));
    denied("to make a file", File::create(dir.join("new")));
    denied("to remove a file", fs::remove_file(dir.join("other")));
    denied(
        "to rename a file",
        fs::rename(dir.join("other"), dir.join("new")),
    );
    denied(
        "to link a file",
        fs::hard_link(dir.join("image"), dir.join("new")),
    );
    denied("to make a directory", fs::create_dir(dir.join("new")));
    denied("to list a directory", fs::read_dir(dir));
    denied(
        "to make a file in its own directory",
        File::create(dir.join("own/new")),
    );
    denied("attributes", fs::metadata(dir.join("other")));
    denied("a link", fs::read_link("/proc/1/exe"));
    denied("a working directory", std::env::set_current_dir(dir));
    denied("to run a program", Command::new("/bin/true").status());
    denied("to connect", UnixStream::connect(dir.join("socket")));
    denied("to connect over TCP", TcpStream::connect("127.0.0.1:9"));
    denied("to send over UDP", UdpSocket::bind("127.0.0.1:0"));
    let unmounted = rustix::mount::unmount("/", rustix::mount::UnmountFlags::DETACH);
    denied("to unmount", unmounted.map_err(io::Error::from));
    let parent = rustix::process::getppid().expect("it has a parent");
    let asked = rustix::process::test_kill_process(parent);
    denied("to send signals", asked.map_err(io::Error::from));
}

/// Not run by itself: it sandboxes all threads of its process.
#[test]
#[ignore = "nothing_is_reached_from_inside runs it in a process of its own"]
fn inside() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    let early = std::sync::Arc::new(std::sync::Barrier::new(2));
    let options = MountOptions {
        sandbox: Sandbox::Must,
        files: vec![dir.join("image")],
        ..MountOptions::default()
    };
    let wire = crate::pressure::tests::Wire::new();
    let own = dir.join("own");
    fs::create_dir(&own).expect("it is fresh");
    let half = begin(&options, &own).expect("the kernel has Landlock");
    let kept = rustix::thread::capabilities(None).expect("it may look yet");
    let access = rustix::thread::CapabilitySet::DAC_OVERRIDE;
    assert!(access.contains(kept.permitted | kept.effective | kept.inheritable));
    let (there, path) = (early.clone(), dir.clone());
    let before = std::thread::spawn(move || {
        there.wait();
        try_everything(&path);
    });
    let locked = half.finish(Sandbox::Must).expect("the kernel has seccomp");
    assert_eq!(locked, Locked::Both);
    early.wait();
    wire.press();
    before.join().expect("it stayed inside");
    try_everything(&dir);
    // The image stays accessible and can be opened again (for a remount).
    let image = File::options()
        .read(true)
        .write(true)
        .open(dir.join("image"));
    let image = image.expect("the image may be opened");
    image.write_all_at(b"x", 0).expect("and written");
    image.sync_all().expect("and synced");
    let late = std::thread::spawn(move || try_everything(&dir));
    late.join().expect("threads start, and stay inside");
    println!("it stayed inside");
}
