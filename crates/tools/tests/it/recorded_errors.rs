//! Orphans on an image with recorded errors: only e2fsck frees them, so the tool must not report
//! the image as recovered or sound before that.

use crate::rig::Rig;
use std::path::Path;
use std::sync::Arc;
use uext4::device::{
    Access, BlockDevice, Cause, Fault, Faulty, FileDevice, Operation, VolatileDevice, When,
};
use uext4::{Caller, Filesystem, MountOptions, WriteContext};
use uext4_testkit::oracle::{self, Repair};

/// Exit status of e2fsck with errors left uncorrected.
const UNCORRECTED: i32 = 4;

/// How the mount ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// A flush fails in a commit, and the journal's superblock records the error.
    FailedFlush,
    /// A power cut.
    PowerCut,
}

/// Leaves an image with one orphan: an open, unlinked file.
fn leave_an_orphan(image: &Path, stop: Stop) {
    let file = FileDevice::open(image, Access::ReadWrite).unwrap();
    let cache = Arc::new(VolatileDevice::over(Arc::new(file)));
    let faulty = Arc::new(Faulty::over_cache(cache));
    let fs = Filesystem::mount(faulty.clone(), MountOptions::default()).unwrap();
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    let open = fs.create(&root, b"open", 0o644, &caller).unwrap();
    fs.write(&open, 0, &[1; 20_000], &WriteContext::ROOT)
        .unwrap();
    fs.unlink(&root, b"open", &caller).unwrap();
    fs.sync().unwrap();
    if stop == Stop::FailedFlush {
        let when = When::Counted { after: 0, count: 1 };
        let (operation, cause) = (Operation::Flush, Cause::Io);
        faulty.arm(Fault {
            operation,
            when,
            cause,
        });
        let made = fs.create(&root, b"lost", 0o644, &caller).unwrap();
        assert!(fs.fsync(&made).is_err(), "its flush fails");
        // Makes the recorded error durable.
        faulty.flush().unwrap();
    }
    fs.abandon();
}

/// Options of mkfs: with the orphan file, and with the orphan list.
const KINDS: [&[&str]; 2] = [&[], &["-O", "^orphan_file"]];

#[test]
fn orphans_beside_a_recorded_error_are_not_recovered_and_not_sound() {
    for mkfs in KINDS {
        let rig = Rig::new(mkfs);
        leave_an_orphan(&rig.image(), Stop::FailedFlush);
        let header = oracle::dumpe2fs(&rig.image()).unwrap();
        assert_eq!(header.text("Journal errno").unwrap(), "-5", "{mkfs:?}");
        // The check replays the log in memory, and the orphan remains.
        rig.fails(4, "damaged", &["check", "disk.img"]);
        std::fs::copy(rig.image(), rig.path("other.img")).unwrap();
        for args in [
            &["replay", "disk.img"][..],
            &["replay", "--json", "other.img"],
        ] {
            let output = rig.run(args);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(4), "{mkfs:?}: {said}");
            assert!(said.contains("not freed"), "{mkfs:?}: {said}");
            assert_eq!(output.stdout, b"", "{mkfs:?}: it says nothing of success");
        }
        for image in ["disk.img", "other.img"] {
            rig.fails(4, "damaged", &["check", image]);
            let verdict = oracle::e2fsck(&rig.path(image)).unwrap();
            assert_eq!(verdict.code, Some(UNCORRECTED), "{mkfs:?}: {verdict}");
        }
        let repaired = oracle::e2fsck_repair(&rig.image(), Repair::Everything).unwrap();
        assert!(repaired.is_repaired(), "{repaired}");
        assert!(rig.ok(&["check", "disk.img"]).starts_with("sound"));
    }
}

/// Without a recorded error the orphan is freed.
#[test]
fn orphans_of_a_power_cut_are_recovered() {
    for mkfs in KINDS {
        let rig = Rig::new(mkfs);
        leave_an_orphan(&rig.image(), Stop::PowerCut);
        assert!(rig.ok(&["check", "disk.img"]).starts_with("sound"));
        assert!(rig.ok(&["replay", "disk.img"]).contains("recovered"));
        assert!(rig.ok(&["check", "disk.img"]).starts_with("sound"));
        rig.assert_clean();
    }
}
