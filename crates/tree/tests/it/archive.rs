//! Archives of unreadable and damaged trees are well-formed.

use crate::rig::Rig;
use std::fs;
use std::ops::ControlFlow;
use uext4_testkit::tree;
use uext4_tree::{Archive, Error, Event};

/// Zeroes stand for what was not read, so the archive goes on after the file.
#[test]
fn a_failed_read_leaves_the_archive_well_formed() {
    let rig = Rig::new();
    let content: Vec<u8> = (0..1_700_000_u32).map(|at| (at % 251 + 1) as u8).collect();
    for name in ["/a", "/b"] {
        rig.fs.paths().write(name, &content).unwrap();
    }
    let place = 900 << 10;
    let fs = rig.unreadable("/a", place);
    let mut failures = Vec::new();
    let mut archive = Archive::new(&fs).on_event(|event| {
        if let Event::Failed(Error::Incomplete { offset, error }) = event {
            failures.push((error.path().to_vec(), *offset));
        }
        ControlFlow::Continue(())
    });
    let mut out = Vec::new();
    let length = archive.tree("/", &mut out).unwrap();
    let summary = archive.summary();
    drop(archive);
    assert_eq!((summary.files, summary.failed), (2, 1), "the root, and b");
    assert_eq!(length, out.len() as u64);
    let [(path, offset)] = &failures[..] else {
        panic!("{failures:?}");
    };
    assert_eq!(path, b"/a");
    assert!((512 << 10..=place).contains(offset), "{offset}");
    fs::write(rig.host("out.tar"), out).unwrap();
    fs::create_dir(rig.host("out")).unwrap();
    tree::unpack(&rig.host("out.tar"), &rig.host("out")).expect("tar takes it");
    let (copied, at) = (fs::read(rig.host("out/a")).unwrap(), *offset as usize);
    assert_eq!(copied.len(), content.len());
    assert!(copied[..at] == content[..at]);
    assert!(copied[at..].iter().all(|byte| *byte == 0));
    assert!(fs::read(rig.host("out/b")).unwrap() == content);
    fs.unmount().unwrap();
}

/// A write that fails ends the archive, and so does `Break`, in the middle of a file.
#[test]
fn archives_end_early() {
    let rig = Rig::new();
    rig.fs.paths().write("/file", vec![7; 3 << 20]).unwrap();
    let mut small = [0; 1 << 20];
    let ended = Archive::new(&rig.fs).tree("/", &mut &mut small[..]);
    assert!(matches!(&ended, Err(Error::Output(_))), "{ended:?}");
    let mut out = Vec::new();
    let ended = Archive::new(&rig.fs)
        .on_event(|event| match event {
            Event::Bytes(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .tree("/", &mut out);
    assert!(matches!(ended, Err(Error::Cancelled)));
    assert!(out.len() < 2 << 20);
    rig.assert_clean();
}
