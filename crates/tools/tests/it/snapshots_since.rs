//! Copies of a running mount that continue earlier ones; complete copies judge them.

use crate::rig::bytes;
use crate::snapshots::{Mounted, work};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use uext4_testkit::{oracle, wait};

/// Makes a copy; returns its identifier.
pub(crate) fn backup(mounted: &Mounted, args: &[&str]) -> String {
    let made = mounted
        .0
        .json(&[&["backup", "mnt"], args, &["--json"]].concat());
    let id = made["backup_id"].as_str();
    id.unwrap_or_else(|| panic!("no identifier: {made}")).into()
}

/// Changes the mount for a moment, by writes, deletions, zeroes and discards.
fn change(mounted: &Mounted, round: u8) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for id in 0..2 {
            let (mounted, done) = (&mounted, &done);
            let id = usize::from(round) * 2 + id;
            scope.spawn(move || work(mounted, id, done));
        }
        mounted.write("mnt/zeroed", &vec![round + 1; 300_000]);
        let zeroed = fs::File::options()
            .write(true)
            .open(mounted.path("mnt/zeroed"));
        let zeroed = zeroed.expect("it is there");
        let flags = rustix::fs::FallocateFlags::ZERO_RANGE;
        rustix::fs::fallocate(&zeroed, flags, 50_000, 100_000).expect("it is supported");
        mounted.write("mnt/gone", &vec![round; 3_000_000]);
        fs::remove_file(mounted.path("mnt/gone")).expect("it is there");
        mounted.0.ok(&["trim", "mnt"]);
        // Some tens of their files, of which they delete and write anew a part.
        wait::until_true("the writers have written", || {
            (0..2).all(|id| {
                let dir = format!("mnt/{}", usize::from(round) * 2 + id);
                let files = fs::read_dir(mounted.path(&dir));
                files.is_ok_and(|files| files.count() > 20)
            })
        });
        done.store(true, Ordering::Relaxed);
    });
}

/// Blocks that differ, outside of the log and of the superblock: each copy is preceded by a commit.
fn differing(a: &Path, b: &Path) -> Vec<usize> {
    let log = oracle::debugfs_one(a, "blocks <8>").expect("debugfs answers");
    let log: HashSet<usize> = log.split_whitespace().flat_map(str::parse).collect();
    assert!(log.len() > 100, "{log:?}");
    let (a, b) = (bytes(a), bytes(b));
    assert_eq!(a.len(), b.len());
    let pairs = a.chunks(4096).zip(b.chunks(4096)).enumerate();
    let differ = pairs.filter(|(nr, (a, b))| *nr > 0 && !log.contains(nr) && a != b);
    differ.map(|(nr, _)| nr).collect()
}

/// The same with a clean image and with a log that is replayed into both copies.
fn continued_copies_are_complete(is_frozen: bool) {
    let Some(mounted) = Mounted::new("no_io_uring,discard") else {
        return;
    };
    mounted.write("mnt/zeroed", &[9; 500_000]);
    let mut id = backup(&mounted, &["copy"]);
    for round in 0..3 {
        change(&mounted, round);
        // Nothing is written between both copies.
        rustix::fs::sync();
        if is_frozen {
            mounted.0.ok(&["freeze", "mnt"]);
        }
        let first = id.clone();
        let (mut last, mut differ) = (first.clone(), Vec::new());
        wait::until_true("the server writes nothing but its log", || {
            backup(&mounted, &["whole", "--force"]);
            last = backup(&mounted, &["copy", "--since", &last]);
            let (copy, whole) = (mounted.path("copy"), mounted.path("whole"));
            backup(&mounted, &["later", "--force"]);
            differ = differing(&copy, &whole);
            differing(&mounted.path("later"), &whole).is_empty()
        });
        id = last;
        assert!(differ.is_empty(), "round {round}: blocks {differ:?}");
        if is_frozen {
            assert!(bytes(&mounted.path("copy")) == bytes(&mounted.path("whole")));
            mounted.0.ok(&["thaw", "mnt"]);
        }
        oracle::assert_clean(&mounted.path("copy"));
        // The earlier copy is no more.
        mounted.0.fails(
            1,
            "does not know",
            &["backup", "mnt", "copy", "--since", &first],
        );
    }
    mounted.umount();
}

#[test]
fn a_continued_copy_is_a_complete_one() {
    continued_copies_are_complete(true);
}

#[test]
fn a_continued_copy_has_a_replayed_log() {
    continued_copies_are_complete(false);
}

/// Nothing is read but what changed.
#[test]
fn a_copy_of_an_unchanged_mount_reads_little() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    mounted.write("mnt/large", &vec![7; 20 << 20]);
    mounted.0.ok(&["freeze", "mnt"]);
    let id = backup(&mounted, &["copy"]);
    let made = mounted
        .0
        .json(&["backup", "mnt", "copy", "--since", &id, "--json"]);
    assert!(made["data_bytes"].as_u64() < Some(1 << 20), "{made}");
    let rows = mounted.snapshots()["backups"].take();
    assert_eq!(rows[0]["id"], made["backup_id"], "{rows}");
    mounted.0.ok(&["thaw", "mnt"]);
    mounted.write("mnt/more", &vec![8; 5 << 20]);
    let changed = mounted.snapshots()["backups"][0]["changed_bytes"].as_u64();
    assert!(
        changed > Some(5 << 20) && changed < Some(15 << 20),
        "{changed:?}"
    );
    assert_eq!(
        mounted.0.ok(&["backup", "--forget", "mnt"]),
        "mnt: forgotten: 1\n"
    );
    mounted.umount();
}

#[test]
fn a_qcow2_copy_has_the_earlier_one_behind_it() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    mounted.write("mnt/file", &vec![7; 3 << 20]);
    let first = backup(&mounted, &["first.qcow2"]);
    change(&mounted, 0);
    let continues = ["second.qcow2", "--since", &first, "--base", "first.qcow2"];
    let second = backup(&mounted, &continues);
    mounted.write("mnt/file", &vec![8; 2 << 20]);
    mounted.0.ok(&["freeze", "mnt"]);
    let continues = ["third.qcow2", "--since", &second, "--base", "second.qcow2"];
    backup(&mounted, &continues);
    // The first one is as it was: several may continue it.
    let continues = ["other.qcow2", "--since", &first, "--base", "first.qcow2"];
    backup(&mounted, &continues);
    backup(&mounted, &["whole"]);
    mounted.0.ok(&["thaw", "mnt"]);
    for name in ["third", "other"] {
        let qcow2 = mounted.path(&format!("{name}.qcow2"));
        let mut convert = Command::new("qemu-img");
        let convert = convert.args(["convert", "-O", "raw"]).arg(&qcow2);
        match convert.arg(mounted.path(name)).status() {
            Err(_) => eprintln!("skipped: qemu-img is not installed"),
            Ok(status) => {
                assert!(status.success(), "{name}");
                let same = bytes(&mounted.path(name)) == bytes(&mounted.path("whole"));
                assert!(same, "{name}");
            }
        }
        let checked = Command::new("qemu-img").arg("check").arg(&qcow2).status();
        assert!(checked.map_or(true, |status| status.success()), "{name}");
    }
    let size = |name: &str| fs::metadata(mounted.path(name)).expect("it is there").len();
    assert!(size("third.qcow2") < 5 << 20, "{}", size("third.qcow2"));
    mounted.umount();
}

#[test]
fn another_copy_is_not_continued() {
    let Some(mounted) = Mounted::new("no_io_uring") else {
        return;
    };
    mounted.write("mnt/file", &vec![7; 300_000]);
    let id = backup(&mounted, &["copy"]);
    let since = |out: &'static str, reason: &str, status| {
        let before = bytes(&mounted.path(out));
        mounted
            .0
            .fails(status, reason, &["backup", "mnt", out, "--since", &id]);
        assert!(bytes(&mounted.path(out)) == before);
    };
    fs::copy(mounted.path("copy"), mounted.path("late")).expect("there is room");
    since("late", "written since", 1);
    fs::copy(mounted.path("copy"), mounted.path("changed")).expect("there is room");
    let changed = fs::File::options()
        .write(true)
        .open(mounted.path("changed"));
    let changed = changed.expect("it is there");
    changed
        .write_all_at(&[1], 1024 + 0x30)
        .expect("there is room");
    since("changed", "content", 1);
    let longer = fs::File::options().append(true).open(mounted.path("late"));
    let longer = longer.expect("it is there");
    longer.set_len(300 << 20).expect("there is room");
    since("late", "size", 1);
    mounted.0.ok(&["backup", "mnt", "copy.qcow2"]);
    mounted
        .0
        .fails(2, "--base", &["backup", "mnt", "x.qcow2", "--since", &id]);
    mounted.0.fails(
        2,
        "itself",
        &["backup", "mnt", "copy", "--since", &id, "--base", "copy"],
    );
    mounted.0.fails(
        1,
        "does not know",
        &["backup", "mnt", "copy", "--since", "0123"],
    );
    mounted
        .0
        .fails(1, "missing", &["backup", "mnt", "missing", "--since", &id]);
    // The last four are known.
    for _ in 0..3 {
        backup(&mounted, &["other", "--force"]);
    }
    since("copy", "does not know", 1);
    let forget = format!("--forget={}", backup(&mounted, &["other", "--force"]));
    assert_eq!(
        mounted.0.ok(&["backup", &forget, "mnt"]),
        "mnt: forgotten: 1\n"
    );
    mounted
        .0
        .fails(1, "does not know", &["backup", &forget, "mnt"]);
    mounted.umount();
}
