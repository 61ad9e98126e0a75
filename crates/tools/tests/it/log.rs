//! Logging of damage: each place is logged once, to standard error or to the system log. The test's
//! socket in a private `/dev` receives the system log (`log.sh`).

use crate::rig::Rig;
use crate::room::can_mount;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output};
use std::time::Duration;

/// An image with destroyed blocks of `/dir` and `/other`.
fn damaged() -> Rig {
    let rig = Rig::new(&[]);
    let image = std::fs::File::options()
        .write(true)
        .open(rig.image())
        .expect("it was made");
    for dir in ["/dir", "/other"] {
        rig.ok(&["mkdir", "disk.img", dir]);
        let block = rig.debugfs(&format!("bmap {dir} 0"));
        let block = block.split_whitespace().last().expect("a number");
        let block: u64 = block.parse().expect("a number");
        image
            .write_all_at(&[0x55; 1024], block * 1024)
            .expect("it is inside");
    }
    std::fs::create_dir_all(rig.path("mnt\u{1b}[31m")).expect("it is fresh");
    std::fs::create_dir(rig.path("dev")).expect("it is fresh");
    rig
}

/// Mounts, accesses `/dir` twice and `/other`, and unmounts.
fn meet(rig: &Rig, how: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "100", "unshare", "--mount", "sh", "-c"]);
    command.args([include_str!("log.sh"), "sh", how]);
    command
        .current_dir(rig.path(""))
        .env_remove("XDG_RUNTIME_DIR");
    command.env("TOOL", env!("CARGO_BIN_EXE_uext4"));
    let output = command.output().expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{how}: {said}");
    output
}

/// Messages received by the log socket.
fn received(socket: &UnixDatagram) -> Vec<String> {
    let limit = Some(Duration::from_millis(500));
    socket.set_read_timeout(limit).expect("it is not zero");
    let mut lines = Vec::new();
    let mut line = [0; 2048];
    while let Ok(len) = socket.recv(&mut line) {
        lines.push(String::from_utf8(line[..len].to_vec()).expect("text"));
    }
    lines
}

/// Number of lines about damaged leaves.
fn leaves(lines: &[String]) -> usize {
    let leaf = |line: &&String| {
        line.contains("damaged file system: block ") && line.contains("directory leaf")
    };
    lines.iter().filter(leaf).count()
}

#[test]
fn a_mount_in_the_background_logs_damage_once_per_place() {
    if !can_mount() {
        return;
    }
    for options in ["sandbox,errors=continue", "no_sandbox,errors=continue"] {
        let rig = damaged();
        let log = UnixDatagram::bind(rig.path("log")).expect("it is fresh");
        let output = meet(&rig, options);
        let lines = received(&log);
        let met: Vec<_> = lines
            .iter()
            .filter(|line| line.starts_with("<27>"))
            .cloned()
            .collect();
        assert_eq!((met.len(), leaves(&met)), (2, 2), "{options}: {lines:#?}");
        for line in &lines {
            assert!(line.contains(" uext4["), "{line}");
            assert!(line.contains("/mnt\\u{1b}[31m: "), "{line}");
            assert!(!line.contains(char::is_control), "{line}");
        }
        let told = |word: &str| lines.iter().any(|line| line.contains(word));
        assert!(told("errors are recorded: "), "{lines:#?}");
        let info = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(info.matches("directory leaf").count(), 2, "{info}");
    }
}

#[test]
fn the_end_of_writing_is_logged() {
    if !can_mount() {
        return;
    }
    let rig = damaged();
    let log = UnixDatagram::bind(rig.path("log")).expect("it is fresh");
    meet(&rig, "errors=remount-ro");
    let lines = received(&log);
    let critical = |word: &str| {
        let line = |line: &&String| line.starts_with("<26>") && line.contains(word);
        lines.iter().filter(line).count()
    };
    assert_eq!(critical("nothing more is written"), 1, "{lines:#?}");
    assert_eq!(critical("the image is not clean"), 1, "{lines:#?}");
}

/// Without a log socket the mount logs nothing; `uext4 info` still lists the damage.
#[test]
fn without_a_log_the_mount_answers_a_question() {
    if !can_mount() {
        return;
    }
    let rig = damaged();
    let output = meet(&rig, "errors=continue");
    let info = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(info.matches("directory leaf").count(), 2, "{info}");
}

#[test]
fn a_mount_in_the_foreground_says_damage_once_per_place() {
    if !can_mount() {
        return;
    }
    let rig = damaged();
    let log = UnixDatagram::bind(rig.path("log")).expect("it is fresh");
    let output = meet(&rig, "--foreground");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<_> = said.lines().map(str::to_owned).collect();
    assert_eq!(leaves(&lines), 2, "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    assert_eq!(received(&log), [""; 0]);
}
