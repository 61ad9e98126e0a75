//! Life of a mount: ready, in use, ended by a call, by a signal, or killed.

use crate::support::{Mounted, errno, program, run, try_run};
use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};
use uext4_fuse::{Error, Image, Lazy, umount};
use uext4_testkit::oracle;

#[test]
fn proc_mounts_names_the_image() {
    let mut mounted = Mounted::new();
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let line = format!(
        "{} {} fuse.uext4 rw",
        mounted.image().display(),
        mounted.root().display()
    );
    assert!(mounts.contains(&line), "{mounts}");
    mounted.unmount();
}

#[test]
fn a_mount_in_use_is_busy_and_may_be_detached() {
    let mut mounted = Mounted::new();
    let file = File::create(mounted.path("open")).unwrap();
    assert!(matches!(
        umount(&mounted.root(), Lazy::No),
        Err(Error::Busy { .. })
    ));
    assert_eq!(umount(&mounted.root(), Lazy::Yes).unwrap(), Image::InUse);
    assert!(matches!(
        umount(&mounted.root(), Lazy::No),
        Err(Error::NotMounted { .. })
    ));
    rustix::io::write(&file, b"last words").unwrap();
    drop(file);
    assert!(mounted.server().wait().unwrap().success());
    oracle::assert_clean(&mounted.image());
    mounted.mount(&[]);
    assert_eq!(fs::read(mounted.path("open")).unwrap(), b"last words");
    mounted.unmount();
}

#[test]
fn terminate_unmounts_and_closes() {
    let mut mounted = Mounted::new();
    fs::write(mounted.path("file"), vec![7; 1_000_000]).unwrap();
    let pid = mounted.server().id().to_string();
    run("kill", &[&"-TERM", &pid]);
    assert!(mounted.server().wait().unwrap().success());
    assert!(!mounted.is_mounted());
    oracle::assert_clean(&mounted.image());
}

/// The mount is visible before its server has finished starting.
#[test]
fn a_signal_that_comes_early_unmounts() {
    let mut mounted = Mounted::new();
    for _ in 0..10 {
        let pid = mounted.server().id();
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(mounted.server().wait().unwrap().success());
        oracle::assert_clean(&mounted.image());
        mounted.mount_early(Command::new(program()), &[]);
    }
    mounted.unmount();
}

#[test]
fn an_early_unmount_is_no_failure() {
    let mut mounted = Mounted::new();
    for _ in 0..20 {
        mounted.unmount();
        mounted.mount_early(Command::new(program()), &[]);
    }
    mounted.unmount();
    oracle::assert_clean(&mounted.image());
}

#[test]
fn a_second_server_of_the_same_place_is_refused() {
    let mut mounted = Mounted::new();
    let output = try_run(
        program().to_str().unwrap(),
        &[&mounted.image(), &mounted.root()],
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("mounted already"),
        "{said}"
    );
    mounted.unmount();
}

#[test]
fn a_killed_server_leaves_an_image_that_recovers() {
    let content = |name: u32| format!("content {name}");
    killed_server("nodelalloc", |name, found| found == content(name));
    // Dirty data may be lost, but never in part.
    killed_server("delalloc", |name, found| {
        found.is_empty() || found == content(name)
    });
}

/// Kills a server during work; `is_right` checks the small files before the last sync.
fn killed_server(words: &str, is_right: impl Fn(u32, &str) -> bool) {
    let mut mounted = Mounted::with(&["-b", "4096"], &["-o", words]);
    let dir = mounted.path("dir");
    fs::create_dir(&dir).unwrap();
    for i in 0..500 {
        fs::write(dir.join(format!("{i}")), format!("content {i}")).unwrap();
    }
    let synced = File::create(mounted.path("synced")).unwrap();
    rustix::io::write(&synced, &[5; 100_000]).unwrap();
    synced.sync_all().unwrap();
    for i in 0..500 {
        fs::write(dir.join(format!("late-{i}")), vec![1; 5000]).unwrap();
    }
    mounted.kill();
    drop(synced);
    // Rings are released a moment after their process; a caller in between gets another error.
    let gone = errno(fs::metadata(&dir));
    let expected = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];
    assert!(
        gone.is_some_and(|gone| expected.contains(&gone)),
        "{gone:?}"
    );
    assert_eq!(
        umount(&mounted.root(), Lazy::No).unwrap(),
        Image::NeedsRecovery
    );
    assert!(!mounted.is_mounted());
    mounted.mount(&[]);
    assert_eq!(fs::read(mounted.path("synced")).unwrap(), [5; 100_000]);
    for i in 0..500 {
        let found = fs::read_to_string(dir.join(format!("{i}"))).unwrap();
        assert!(is_right(i, &found), "{words} {i}: {found:?}");
    }
    mounted.unmount();
}

#[test]
fn a_daemon_is_ready_when_its_parent_returns() {
    let mut mounted = Mounted::new();
    mounted.unmount();
    let start = |image| {
        Command::new(program())
            .arg(image)
            .arg(mounted.root())
            .arg("daemon")
            .output()
    };
    let output = start(mounted.image()).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(mounted.is_mounted());
    fs::write(mounted.path("file"), "x").unwrap();
    let output = try_run(program().to_str().unwrap(), &[&"umount", &mounted.root()]);
    assert!(output.status.success(), "{output:?}");
    oracle::assert_clean(&mounted.image());
    let output = start(mounted.root()).unwrap();
    assert!(
        !output.status.success() && !output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let mut mounted = Mounted::new();
    fs::write(mounted.path("file"), "x").unwrap();
    mounted.unmount();
    let before = fs::read(mounted.image()).unwrap();
    mounted.mount(&["ro"]);
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"x");
    assert_eq!(
        errno(fs::write(mounted.path("new"), "x")),
        Some(libc::EROFS)
    );
    mounted.unmount();
    assert!(fs::read(mounted.image()).unwrap() == before);
}

#[test]
fn a_full_file_system_says_so() {
    let mut mounted = Mounted::with(&["-b", "4096"], &["through"]);
    let start = Instant::now();
    let filled = loop {
        let path = mounted.path(&format!("fill-{}", start.elapsed().as_nanos()));
        if let Err(error) = fs::write(&path, vec![1; 8 << 20]) {
            break error;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it never fills");
    };
    assert_eq!(filled.raw_os_error(), Some(libc::ENOSPC));
    run(
        "sh",
        &[&"-c", &format!("rm {}/fill-*", mounted.root().display())],
    );
    fs::write(mounted.path("fits"), vec![1; 8 << 20]).unwrap();
    mounted.unmount();
}

/// As a container or a service does that was started beside the mount.
#[test]
fn a_mount_kept_by_another_namespace_is_named() {
    let mut mounted = Mounted::new();
    fs::write(mounted.path("file"), "data").unwrap();
    let mut holder = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("echo; exec sleep 100")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("unshare is there");
    let mut line = [0];
    let said = holder.stdout.as_mut().expect("it is piped");
    std::io::Read::read_exact(said, &mut line).expect("it begins");
    let (pid, mut told) = (holder.id(), None);
    let done = uext4_testkit::wait::until("it is not busy", || {
        let tell = |cause: &Error| {
            told = Some(cause.to_string());
            holder.kill().unwrap();
            holder.wait().unwrap();
        };
        match uext4_fuse::umount_telling(&mounted.root(), Lazy::No, tell) {
            Err(Error::Busy { .. }) => None,
            done => Some(done),
        }
    });
    assert_eq!(done.unwrap(), Image::Clean);
    let told = told.expect("it waits");
    assert!(told.contains("another mount namespace"), "{told} for {pid}");
    assert!(mounted.server().wait().unwrap().success());
    oracle::assert_clean(&mounted.image());
}
