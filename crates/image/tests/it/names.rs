//! Names appear when all is complete.

use std::ops::ControlFlow;

use uext4_image::{Container, Error, Format, Options, PartitionKind, Table, VerityPlace};
use uext4_testkit::oracle::{KernelMount, LoopDevice};

use crate::support::{Rig, SIZE, UUID, apply, format, verity, writes};

fn all(rig: &Rig) -> Vec<Options> {
    let tree = VerityPlace::File(rig.path("tree"));
    let all = [
        verity(tree.clone()),
        verity(VerityPlace::Append),
        format(Format::AndroidSparse),
        Options {
            format: Format::AndroidSparse,
            ..verity(tree.clone())
        },
        Options {
            format: Format::Qcow2,
            ..verity(tree)
        },
    ];
    all.to_vec()
}

/// An end at any call of the callback leaves the old files.
#[test]
fn what_is_cancelled_or_dropped_leaves_the_old_files() {
    let writes = writes(1);
    for nr in 0..all(&Rig::new()).len() + 2 {
        let rig = Rig::new();
        std::fs::write(rig.path("disk"), "old").unwrap();
        std::fs::write(rig.path("tree"), "old tree").unwrap();
        let plain = [Options::default(), format(Format::Qcow2)];
        let mut options = [all(&rig), plain.to_vec()].concat();
        let options = options.swap_remove(nr);
        let begin = || {
            let container = Container::create(&rig.path("disk"), options.clone()).unwrap();
            apply(&*container.device(), &writes);
            container
        };
        drop(begin());
        let mut last = 1;
        loop {
            let mut calls = 0;
            let ended = begin().finish(SIZE, UUID, |progress| {
                assert!(progress.bytes <= progress.total_bytes);
                calls += 1;
                match calls == last {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            if ended.is_ok() {
                break;
            }
            assert!(matches!(ended, Err(Error::Cancelled)));
            assert_eq!(rig.names(), ["disk", "tree"]);
            assert_eq!(
                (rig.bytes("disk"), rig.bytes("tree")),
                (b"old".to_vec(), b"old tree".to_vec())
            );
            last += 1;
        }
        assert!(last > 1, "it can be cancelled");
        assert_ne!(rig.bytes("disk"), b"old");
        assert_eq!(rig.names(), ["disk", "tree"]);
    }
}

#[test]
fn sizes_that_make_no_container() {
    let rig = Rig::new();
    for options in all(&rig) {
        let container = Container::create(&rig.path("disk"), options).unwrap();
        let ended = container.finish(SIZE + 1024, UUID, |_| ControlFlow::Continue(()));
        let said = ended.err().unwrap().to_string();
        assert!(said.contains("4 KiB"), "{said}");
        assert!(rig.names().is_empty());
    }
}

#[test]
fn names_that_a_tree_cannot_have() {
    let rig = Rig::new();
    let create = |tree: &str| {
        let options = verity(VerityPlace::File(rig.path(tree)));
        Container::create(&rig.path("disk"), options).err()
    };
    let said = create("disk").unwrap().to_string();
    assert!(said.contains("name of the image"), "{said}");
    let said = create(".").unwrap().to_string();
    assert!(said.contains("no regular file"), "{said}");
    let said = create("./disk").unwrap().to_string();
    assert!(said.contains("name of the image"), "{said}");
    assert!(create("no/tree").unwrap().to_string().contains("no/tree"));
    assert!(rig.names().is_empty());
}

#[test]
fn a_block_device_takes_a_file_system_and_a_tree() {
    if !KernelMount::available_or_skip("a_block_device_takes_a_file_system_and_a_tree") {
        return;
    }
    let (rig, writes) = (Rig::new(), writes(2));
    let file = std::fs::File::create(rig.path("store")).unwrap();
    file.set_len(SIZE + (1 << 20)).unwrap();
    let device = LoopDevice::attach(&rig.path("store")).unwrap();
    let path = std::path::Path::new(device.path());
    for options in [
        format(Format::Qcow2),
        format(Format::AndroidSparse),
        Options {
            table: Some(Table::one(PartitionKind::Linux)),
            ..Options::default()
        },
    ] {
        let said = Container::create(path, options).err().unwrap().to_string();
        assert!(said.contains("block device"), "{said}");
    }
    let container = Container::create(path, verity(VerityPlace::Append)).unwrap();
    assert!(!container.is_blank());
    apply(&*container.device(), &writes);
    let made = container.finish(SIZE, UUID, |_| ControlFlow::Continue(()));
    let root_hash = made.unwrap().verity.unwrap().root_hash;
    let same = rig.make("disk", verity(VerityPlace::Append), &writes);
    assert_eq!(same.verity.unwrap().root_hash, root_hash);
    let container = Container::create(path, verity(VerityPlace::Append)).unwrap();
    let whole = container.device().size_bytes();
    let full = container.finish(whole, UUID, |_| ControlFlow::Continue(()));
    let said = full.err().unwrap().to_string();
    assert!(said.contains("no space for"), "{said}");
}
