//! Deep trees take memory for their names, not for the paths of all levels.

use crate::rig::Rig;
use uext4::Caller;
use uext4_tree::Archive;

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
    paths.remove_dir_all(&NAME[..]).unwrap();
    assert!(peak_kib() < MEMORY_MAX_KIB, "{} KiB", peak_kib());
    rig.assert_clean();
}
