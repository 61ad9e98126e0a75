//! Deep trees take memory for their names, not for the paths of all levels.

use crate::rig::Rig;
use std::ops::ControlFlow;
use uext4::Caller;
use uext4_tree::{Archive, Event, Export};

/// The paths of all levels together are 2 GB.
const LEVELS: usize = 4000;
const NAME: [u8; 255] = [b'd'; 255];
/// Most memory of the process, with the other tests that run in it.
const MEMORY_MAX_KIB: u64 = 1200 << 10;

/// Most kilobytes that this process had in memory.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

#[test]
fn memory_of_a_deep_tree_follows_its_names() {
    let rig = Rig::of_size(64 << 20);
    let caller = Caller::root();
    let mut at = rig.fs.root().unwrap();
    for _ in 0..LEVELS {
        at = rig.fs.mkdir(&at, &NAME, 0o755, &caller).unwrap();
    }
    drop(at);
    let mut archive = Archive::new(&rig.fs);
    archive.tree("/", &mut std::io::sink()).unwrap();
    // The root, and a directory on each level.
    assert_eq!(archive.summary().files, LEVELS as u64 + 1);
    drop(archive);
    let paths = rig.fs.paths();
    assert_eq!(
        paths.walk("/").unwrap().count(),
        LEVELS + 1,
        "and lost+found"
    );
    let all_levels = allow_levels();
    let mut failures = Vec::new();
    let host = rig.host("out");
    let mut export = Export::new(&rig.fs).on_event(|event| {
        if let Event::Failed(error) = event {
            failures.push(error.to_string());
        }
        ControlFlow::Continue(())
    });
    export.content("/", &host).unwrap();
    drop(export);
    assert!(failures.is_empty() || !all_levels, "{failures:?}");
    remove(&host);
    paths.remove_dir_all(&NAME[..]).unwrap();
    assert!(peak_kib() < MEMORY_MAX_KIB, "{} KiB", peak_kib());
    rig.assert_clean();
}

/// Raises the limit of open files; returns whether it allows as many levels as a copy makes.
fn allow_levels() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    current.is_none_or(|limit| limit > 4300)
}

/// The library's way needs a stack as deep as the tree.
fn remove(tree: &std::path::Path) {
    let done = std::process::Command::new("rm")
        .arg("-rf")
        .arg(tree)
        .status();
    assert!(done.unwrap().success());
}

/// Levels on the host, from an open directory on.
fn levels_of(top: &std::path::Path) -> usize {
    use rustix::fs::{Mode, OFlags, open, openat};
    let mut at = open(top, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let mut levels = 0;
    while let Ok(next) = openat(&at, "d", OFlags::DIRECTORY, Mode::empty()) {
        (at, levels) = (next, levels + 1);
    }
    levels
}

#[test]
fn what_is_too_deep_is_told_and_left_out() {
    let rig = Rig::of_size(64 << 20);
    let caller = Caller::root();
    let mut at = rig.fs.root().unwrap();
    for _ in 0..5000 {
        at = rig.fs.mkdir(&at, b"d", 0o755, &caller).unwrap();
    }
    drop(at);
    rig.fs.paths().write("/beside", "x").unwrap();
    let all_levels = allow_levels();
    let mut failures = Vec::new();
    let mut export = Export::new(&rig.fs).on_event(|event| {
        if let Event::Failed(error) = event {
            failures.push(error.to_string());
        }
        ControlFlow::Continue(())
    });
    let out = rig.host("out");
    export.content("/", &out).unwrap();
    drop(export);
    let reached = levels_of(&out);
    let [said] = &failures[..] else {
        panic!("{failures:?}");
    };
    assert!(said.contains("which is as deep as a copy goes"), "{said}");
    assert!(said.len() < 400, "{said}");
    assert!(
        reached == 4095 || (!all_levels && reached > 500),
        "{reached}"
    );
    assert_eq!(std::fs::read(out.join("beside")).unwrap(), b"x");
    remove(&out);
}
