//! Damaged and unreadable images: an export reports the place and copies the rest.

use crate::rig::Rig;
use std::ops::ControlFlow;
use std::sync::Arc;
use uext4::device::MemDevice;
use uext4_testkit::oracle::{self, Access};
use uext4_tree::{Damage, Error, Event, Export};

/// Without checksums, so that an entry can be changed alone.
fn damaged() -> Rig {
    let options = ["-b", "1024", "-O", "^metadata_csum,^has_journal"];
    let (dir, image) = oracle::mke2fs_image(8 << 20, &options).expect("mke2fs");
    let file = dir.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let commands = [
        "mkdir /top".to_owned(),
        "mkdir /top/dir".to_owned(),
        format!("write {} /top/dir/file", file.display()),
        format!("write {} /top/badXname", file.display()),
        "link /top/dir /top/second".to_owned(),
        "link /top /top/dir/up".to_owned(),
    ];
    oracle::debugfs(&image, Access::Write, &commands).expect("debugfs");
    let mut bytes = std::fs::read(&image).unwrap();
    let found = bytes.windows(8).position(|name| name == b"badXname");
    bytes[found.expect("it has the name") + 3] = b'/';
    let device = MemDevice::new(bytes.len() as u64);
    uext4::device::BlockDevice::write_at(&device, 0, &bytes).unwrap();
    Rig::on(Arc::new(device))
}

#[test]
fn second_names_of_directories_and_impossible_names_are_reported() {
    let rig = damaged();
    let mut failures = Vec::new();
    let mut export = Export::new(&rig.fs).on_event(|event| {
        if let Event::Failed(error) = event {
            let damage = match error {
                Error::Damaged { damage, .. } => Some(*damage),
                _ => None,
            };
            failures.push((error.to_string(), damage));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(export.total_bytes("/top"), 7, "each directory counts once");
    export.tree("/top", rig.host("out")).unwrap();
    let summary = export.summary();
    drop(export);
    failures.sort_by(|a, b| a.0.cmp(&b.0));
    let (names, damage): (Vec<_>, Vec<_>) = failures.into_iter().unzip();
    // The order of names depends on the hash seed of mke2fs.
    let (kept, other) = if names[1].starts_with("/top/dir/up: ") {
        ("dir", "second")
    } else {
        ("second", "dir")
    };
    let mut places = [
        "bad/name".to_owned(),
        format!("{kept}/up"),
        other.to_owned(),
    ];
    places.sort();
    for (name, place) in names.iter().zip(places) {
        assert!(name.starts_with(&format!("/top/{place}: ")), "{names:?}");
    }
    assert!(matches!(
        damage[..],
        [
            None,
            Some(Damage::SecondName(_)),
            Some(Damage::SecondName(_))
        ]
    ));
    assert_eq!((summary.files, summary.failed, summary.bytes), (3, 3, 7));
    let file = std::fs::read(rig.host(&format!("out/{kept}/file"))).unwrap();
    assert_eq!(file, b"content");
    assert_eq!(std::fs::read_dir(rig.host("out")).unwrap().count(), 1);
}

/// The copy ends before the first unreadable piece; no zeroes stand for what was not read.
#[test]
fn a_failed_read_ends_the_copy_there() {
    let rig = Rig::new();
    let content: Vec<u8> = (0..700_000_u32).map(|at| (at % 251 + 1) as u8).collect();
    for name in ["/a", "/b"] {
        rig.fs.paths().write(name, &content).unwrap();
    }
    let place = 400 << 10;
    let fs = rig.unreadable("/a", place);
    let mut failures = Vec::new();
    let mut export = Export::new(&fs).on_event(|event| {
        if let Event::Failed(error) = event {
            failures.push(error.to_string());
        }
        ControlFlow::Continue(())
    });
    export.content("/", rig.host("out")).unwrap();
    drop(export);
    assert_eq!(failures.len(), 1);
    assert!(
        failures[0].starts_with("/a: device: read of "),
        "{failures:?}"
    );
    let copied = std::fs::read(rig.host("out/a")).unwrap();
    assert!(copied.len() as u64 <= place && content.starts_with(&copied));
    assert!(copied.len() as u64 >= 256 << 10, "{} bytes", copied.len());
    assert!(std::fs::read(rig.host("out/b")).unwrap() == content);
    fs.unmount().unwrap();
}
