//! `uext4 resize` on a mount: programs that write meanwhile, its file, refusals.

use crate::rig::Rig;
use std::sync::atomic::{AtomicBool, Ordering};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::skip;

const MIB: u64 = 1 << 20;

/// `None` without FUSE.
fn mounted(options: &[&str]) -> Option<Rig> {
    if !skip::fuse_or_skip("grow_mount") {
        return None;
    }
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("mnt")).unwrap();
    rig.ok(&[&["mount", "disk.img", "mnt"], options].concat());
    Some(rig)
}

fn length(rig: &Rig) -> u64 {
    std::fs::metadata(rig.image()).unwrap().len()
}

#[test]
fn a_mount_grows_beside_programs_that_write() {
    let Some(rig) = mounted(&[]) else { return };
    let start = length(&rig);
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let write = |id: u8| {
            let (rig, done) = (&rig, &done);
            scope.spawn(move || {
                let mut count = 0;
                while !done.load(Ordering::SeqCst) && count < 600 {
                    let path = rig.path(&format!("mnt/{id} {count}"));
                    std::fs::write(&path, vec![id; 20_000]).unwrap();
                    if count % 3 == 0 {
                        std::fs::File::open(&path).unwrap().sync_all().unwrap();
                    }
                    if count % 2 == 1 {
                        std::fs::remove_file(&path).unwrap();
                    }
                    count += 1;
                }
                count
            })
        };
        let writers: Vec<_> = (0..4).map(write).collect();
        let planned = rig.json(&["resize", "mnt", "+40M", "--dry-run", "--json"]);
        assert_eq!((length(&rig), &planned["dry_run"]), (start, &true.into()));
        let grown = rig.json(&["resize", "mnt", "+40M", "--json"]);
        assert_eq!(grown["after"], planned["after"]);
        assert_eq!(length(&rig), start + 40 * MIB);
        let said = rig.ok(&["resize", "mnt", &format!("{}M", start / MIB + 200)]);
        assert!(said.contains("blocks"), "{said}");
        done.store(true, Ordering::SeqCst);
        let counts = writers.into_iter().map(|writer| writer.join().unwrap());
        counts.collect::<Vec<u32>>()
    });
    std::fs::write(rig.path("mnt/large"), vec![7; (start + 100 * MIB) as usize]).unwrap();
    let found = rustix::fs::statvfs(rig.path("mnt")).unwrap();
    assert!(found.f_blocks * found.f_frsize > start + 150 * MIB);
    rig.ok(&["umount", "mnt"]);
    rig.assert_clean();
    assert_eq!(length(&rig), start + 200 * MIB);
    if KernelMount::available_or_skip("a_mount_grows") {
        let kernel = KernelMount::new(&rig.image(), "ro").unwrap();
        for (id, count) in (0u8..).zip(written) {
            for nr in (0..count).filter(|nr| nr % 2 == 0) {
                let read = std::fs::read(kernel.path().join(format!("{id} {nr}"))).unwrap();
                assert!(read == vec![id; 20_000], "{id} {nr}");
            }
        }
        kernel.unmount().unwrap();
    }
}

#[test]
fn what_a_mount_cannot_is_refused_with_a_sentence() {
    let Some(rig) = mounted(&["-o", "growth_limit=1G"]) else {
        return;
    };
    let start = length(&rig);
    rig.fails(5, "does not become smaller", &["resize", "mnt", "min"]);
    rig.fails(1, "unmount it first", &["resize", "mnt", "8M"]);
    rig.fails(1, "growth_limit", &["resize", "mnt", "1T"]);
    rig.ok(&["freeze", "mnt"]);
    rig.fails(5, "busy", &["resize", "mnt", "+10M"]);
    rig.ok(&["thaw", "mnt"]);
    assert_eq!(length(&rig), start);
    let said = rig.ok(&["resize", "mnt"]);
    assert!(said.contains("already"), "{said}");
    rig.ok(&["remount", "mnt", "-o", "ro"]);
    rig.fails(1, "read-only", &["resize", "mnt", "+10M"]);
    rig.ok(&["umount", "mnt"]);
    rig.assert_clean();
}
