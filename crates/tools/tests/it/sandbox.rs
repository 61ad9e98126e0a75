//! Sandboxed servers: they are confined and still serve all requests.

use crate::rig::Rig;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::{skip, wait};

fn can_mount() -> bool {
    skip::fuse_or_skip("sandbox")
}

fn mount(rig: &Rig, options: &str) -> Value {
    let _ = fs::create_dir(rig.path("mnt"));
    rig.ok(&["mount", "-o", options, "disk.img", "mnt"]);
    rig.json(&["info", "--json", "mnt"])
}

/// `/proc` status of each thread of the server.
fn threads(server: &Value) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server["pid"])).expect("it runs");
    let status = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.expect("it is listed").path().join("status"))
    };
    tasks.filter_map(|task| status(task).ok()).collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.expect("the kernel tells it").trim()
}

#[test]
fn all_threads_are_locked_in_over_both_transports() {
    if !can_mount() {
        return;
    }
    let rings = RingsSwitch::is_available().then(|| RingsSwitch::on().expect("it is available"));
    let over_rings = rings.as_ref().map(|_| "sandbox,io_uring");
    for options in [Some("sandbox,no_io_uring"), over_rings]
        .into_iter()
        .flatten()
    {
        let rig = Rig::new(&[]);
        let server = mount(&rig, options);
        fs::write(rig.path("mnt/file"), vec![7; 3 << 20]).unwrap();
        let synced = fs::File::open(rig.path("mnt/file")).unwrap().sync_all();
        let threads = threads(&server);
        let said: Vec<_> = threads
            .iter()
            .map(|status| ["Seccomp:", "NoNewPrivs:", "CapEff:"].map(|name| field(status, name)))
            .collect();
        rig.ok(&["remount", "mnt", "-o", "ro"]);
        rig.ok(&["remount", "mnt", "-o", "rw"]);
        rig.ok(&["umount", "mnt"]);
        synced.unwrap();
        let pressure = |status: &String| field(status, "Name:") == "uext4-pressure";
        let told = Path::new("/proc/pressure/memory").exists();
        assert_eq!(threads.iter().any(pressure), told, "{options}");
        assert_eq!(server["locked"], "locked in by Landlock and seccomp");
        assert!(said.len() >= 4, "{options}: {said:?}");
        for [seccomp, no_new, effective] in said {
            assert_eq!((seccomp, no_new), ("2", "1"), "{options}");
            let effective = u64::from_str_radix(effective, 16).unwrap();
            // CAP_DAC_OVERRIDE at most.
            assert_eq!(effective & !2, 0, "{options}");
        }
        rig.assert_clean();
    }
}

#[test]
fn an_image_of_strangers_is_read_only_and_harmless() {
    if !can_mount() {
        return;
    }
    for (options, starts) in [
        ("untrusted", "ro,nosuid,nodev"),
        ("untrusted,rw", "rw,nosuid,nodev"),
        ("no_sandbox", "rw"),
    ] {
        let rig = Rig::new(&[]);
        let server = mount(&rig, options);
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        let dir = rig.path("mnt");
        let line = table
            .lines()
            .find(|line| line.contains(dir.to_str().unwrap()));
        let line = line.expect("it is mounted").to_owned();
        let is_locked = threads(&server)
            .iter()
            .all(|status| field(status, "Seccomp:") == "2");
        rig.ok(&["umount", "mnt"]);
        assert!(
            line.contains(&format!(" fuse.uext4 {starts},")),
            "{options}: {line}"
        );
        assert_eq!(is_locked, options != "no_sandbox");
        let said = server["locked"].as_str().unwrap();
        assert_eq!(said != "not locked in", is_locked, "{said}");
        rig.assert_clean();
    }
}

#[test]
fn a_signal_unmounts_a_server_that_is_locked_in() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    let server = mount(&rig, "sandbox");
    fs::write(rig.path("mnt/file"), "data").unwrap();
    let pid = rustix::process::Pid::from_raw(server["pid"].as_i64().unwrap() as i32);
    rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::TERM).unwrap();
    let process = format!("/proc/{}", server["pid"]);
    wait::until_true("the server ends", || !Path::new(&process).exists());
    assert!(fs::read_dir(rig.path("mnt")).unwrap().next().is_none());
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "data");
}

/// Targets of the open descriptors of a process.
fn descriptors(pid: u64) -> Vec<PathBuf> {
    let listed = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let target = |entry: std::io::Result<fs::DirEntry>| fs::read_link(entry.ok()?.path()).ok();
    listed.filter_map(target).collect()
}

/// Child processes of a process.
fn children(pid: u64) -> Vec<u64> {
    let said = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let said = said.expect("the kernel lists children");
    said.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[test]
fn the_server_inherits_no_descriptor() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    fs::create_dir(rig.path("mnt")).unwrap();
    fs::write(rig.path("secret"), "secret").unwrap();
    for options in ["sandbox", "no_sandbox"] {
        // The shell opens descriptor 9 without close-on-exec.
        let line = format!(
            "exec 9<secret; exec {} mount -o {options} disk.img mnt",
            env!("CARGO_BIN_EXE_uext4")
        );
        let mut shell = std::process::Command::new("sh");
        let status = shell.args(["-c", &line]).current_dir(rig.path("")).status();
        let server = rig.json(&["info", "--json", "mnt"])["pid"]
            .as_u64()
            .unwrap();
        let processes: Vec<u64> = std::iter::once(server).chain(children(server)).collect();
        let open: Vec<PathBuf> = processes.iter().flat_map(|pid| descriptors(*pid)).collect();
        rig.ok(&["umount", "mnt"]);
        assert!(status.unwrap().success());
        let has = |name: &str| open.iter().any(|path| path.ends_with(name));
        assert!(has("disk.img"), "{open:?}");
        assert!(!has("secret"), "{options}: {open:?}");
    }
    rig.assert_clean();
}

/// Injected system calls in each thread of the server, as an attacker's code would make them.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_server_taken_over_reaches_nothing() {
    use uext4_testkit::inside;
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let rings = RingsSwitch::is_available().then(|| RingsSwitch::on().expect("it is available"));
    let over_rings = rings.as_ref().map(|_| "untrusted,rw,io_uring");
    let locked = [
        Some("untrusted"),
        Some("untrusted,rw,no_io_uring"),
        over_rings,
    ];
    for options in locked.into_iter().flatten() {
        let rig = Rig::new(&[]);
        let pid = mount(&rig, options)["pid"].as_u64().unwrap();
        let reached = inside::reaches_nothing(pid as u32);
        // The server continues unaffected.
        let left = rig.json(&["stats", "--json", "mnt"]);
        rig.ok(&["umount", "mnt"]);
        assert!(reached.unwrap() >= 3, "{options}");
        assert_eq!(left["server"]["pid"].as_u64(), Some(pid), "{options}");
        rig.assert_clean();
    }
    // Without a sandbox the same calls succeed.
    let rig = Rig::new(&[]);
    let pid = mount(&rig, "no_sandbox")["pid"].as_u64().unwrap();
    let reached = inside::reaches_nothing(pid as u32);
    rig.ok(&["umount", "mnt"]);
    let error = format!("{:#}", reached.unwrap_err());
    assert!(error.contains("to read a file"), "{error}");
}
