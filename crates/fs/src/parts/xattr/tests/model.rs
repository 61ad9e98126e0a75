//! Model test: random changes of several files against a map, on every kind of file system.

use super::*;
use crate::parts::xattr::SetMode;
use crate::types::attr::FileType;
use crate::types::error::Error;
use proptest::prelude::*;

const FILES: usize = 4;
const NAMES: [&str; 7] = [
    "user.a",
    "user.comment",
    "trusted.overlay.opaque",
    "security.selinux",
    "user.a_rather_long_name_that_takes_room_in_the_area",
    "trusted.t",
    "user.zz",
];

#[derive(Clone, Debug)]
enum Step {
    Set {
        file: usize,
        name: usize,
        len: usize,
        seed: u32,
        mode: SetMode,
    },
    Remove {
        file: usize,
        name: usize,
    },
    Recreate {
        file: usize,
    },
    Remount,
}

fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![0usize..12, 0usize..100, 100usize..1500, 900usize..9000];
    let mode = prop_oneof![
        6 => Just(SetMode::Any),
        1 => Just(SetMode::Create),
        1 => Just(SetMode::Replace),
    ];
    let (file, name) = (0..FILES, 0..NAMES.len());
    let step = prop_oneof![
        // Few seeds, so that files often have equal attributes.
        10 => (file.clone(), name.clone(), len, 0u32..2, mode)
            .prop_map(|(file, name, len, seed, mode)| Step::Set { file, name, len, seed, mode }),
        4 => (file.clone(), name).prop_map(|(file, name)| Step::Remove { file, name }),
        1 => file.prop_map(|file| Step::Recreate { file }),
        1 => Just(Step::Remount),
    ];
    prop::collection::vec(step, 1..count)
}

type Model = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

fn name_of(file: usize) -> String {
    format!("file{file}")
}

fn run(options: &[&str], steps: Vec<Step>) {
    let mut rig = Rig::new(24, options);
    let mut model: Model = vec![BTreeMap::new(); FILES];
    for file in 0..FILES {
        drop(create(&rig, &name_of(file)));
    }
    for step in steps {
        if let Step::Remount = step {
            rig = rig.remount();
        } else {
            apply(&rig, &mut model, &step);
        }
        for (file, expected) in model.iter().enumerate() {
            assert_eq!(
                &dump(&rig, &lookup(&rig, &name_of(file))),
                expected,
                "{step:?}"
            );
        }
    }
    rig.assert_clean();
}

fn apply(rig: &Rig, model: &mut Model, step: &Step) {
    match *step {
        Step::Set {
            file,
            name,
            len,
            seed,
            mode,
        } => {
            let (inode, value) = (lookup(rig, &name_of(file)), bytes(len, seed));
            let name = NAMES[name].as_bytes();
            let exists = model[file].contains_key(name);
            let set = rig
                .mounted
                .set_xattr(&inode, name, &value, mode, &Caller::root());
            match set {
                Ok(()) => {
                    assert!(exists || mode != SetMode::Replace);
                    assert!(!exists || mode != SetMode::Create);
                    model[file].insert(name.to_vec(), value);
                }
                Err(Error::NoSpace) => {
                    let mut all = model[file].clone();
                    all.insert(name.to_vec(), value);
                    let needed: usize = all.iter().map(|(n, v)| n.len() + v.len() + 24).sum();
                    assert!(
                        needed > rig.fs().block_size() - 36,
                        "{needed} bytes find no space"
                    );
                }
                Err(Error::Exists) => assert!(exists && mode == SetMode::Create),
                Err(Error::NoAttribute) => assert!(!exists && mode == SetMode::Replace),
                Err(error) => panic!("{step:?}: {error}"),
            }
        }
        Step::Remove { file, name } => {
            let removed = remove(rig, &lookup(rig, &name_of(file)), NAMES[name]);
            let was = model[file].remove(NAMES[name].as_bytes());
            assert_eq!(removed.is_ok(), was.is_some());
        }
        Step::Recreate { file } => {
            unlink(rig, &name_of(file));
            drop(create(rig, &name_of(file)));
            model[file].clear();
        }
        Step::Remount => {}
    }
}

macro_rules! models {
    ($($name:ident: $options:expr;)*) => {
        $(#[test]
        fn $name() {
            let config = ProptestConfig { cases: 24, max_shrink_iters: 200, ..Default::default() };
            proptest!(config, |(steps in steps(40))| run(&$options, steps));
        })*
    };
}

models! {
    model_small_inodes: ["-I", "128"];
    model_ordinary_inodes: ["-b", "4096", "-I", "256"];
    model_large_inodes: ["-b", "4096", "-I", "1024"];
    model_small_blocks: ["-b", "1024", "-I", "256"];
    model_value_inodes: ["-b", "4096", "-O", "ea_inode"];
    model_value_inodes_small_blocks: ["-b", "1024", "-I", "128", "-O", "ea_inode"];
    model_value_inodes_without_checksums: ["-I", "128", "-O", "ea_inode,^metadata_csum"];
    model_value_inodes_without_extents:
        ["-b", "1024", "-O", "ea_inode,^extents,^64bit,^flex_bg,^metadata_csum"];
    model_clusters: ["-O", "bigalloc,ea_inode", "-C", "16384"];
    model_inline_data: ["-I", "512", "-O", "inline_data,ea_inode"];
    model_ext2: ["-I", "128", "-O", "^has_journal,^extents,^64bit,^metadata_csum,^huge_file"];
}

#[test]
fn the_largest_value_and_what_is_larger() {
    let rig = Rig::new(24, &["-O", "ea_inode"]);
    let large = bytes(super::super::VALUE_MAX_BYTES, 3);
    set(&rig, &rig.file, "user.large", &large).unwrap();
    assert!(matches!(
        set(&rig, &rig.file, "user.more", &bytes(65537, 1)),
        Err(Error::TooBig)
    ));
    let rig = rig.remount();
    assert_eq!(dump(&rig, &rig.file)[&b"user.large"[..]], large);
    rig.assert_clean();
}

/// A value that fills a block completely would be the last attribute without value inodes.
#[test]
fn a_value_leaves_room_for_the_names_of_others() {
    for (block, fill) in [("1024", 963), ("4096", 4035)] {
        let rig = Rig::new(24, &["-b", block, "-I", "256", "-O", "ea_inode"]);
        set(&rig, &rig.file, "user.fills", &bytes(fill, 1)).unwrap();
        for number in 0..8_u32 {
            let name = format!("user.{number}");
            set(&rig, &rig.file, &name, &bytes(30 + number as usize, number)).expect("room");
        }
        let rig = rig.remount();
        assert_eq!(dump(&rig, &rig.file).len(), 9);
        rig.assert_clean();
    }
}

#[test]
fn names_that_cannot_be() {
    let rig = Rig::new(24, &[]);
    let long = format!("user.{}", "x".repeat(251));
    assert!(matches!(
        set(&rig, &rig.file, &long, b"1"),
        Err(Error::Range)
    ));
    set(&rig, &rig.file, &long[..255], b"1").unwrap();
    for name in [
        "foo.bar",
        "system.data",
        "system.x",
        "nodot",
        "system.richacl",
    ] {
        assert!(
            matches!(
                set(&rig, &rig.file, name, b"1"),
                Err(Error::NotSupported(_))
            ),
            "{name}"
        );
    }
    assert!(matches!(
        set(&rig, &rig.file, "user.", b"1"),
        Err(Error::Invalid(_))
    ));
    rig.assert_clean();
}

#[test]
fn every_kind_of_file_has_attributes_and_gives_them_back() {
    for options in [&["-I", "128"][..], &["-I", "128", "-O", "ea_inode"]] {
        let rig = Rig::new(24, options);
        let root = rig.mounted.root().unwrap();
        let caller = Caller::root();
        let dir = rig.mounted.mkdir(&root, b"dir", 0o755, &caller).unwrap();
        let fifo = rig
            .mounted
            .mknod(&root, b"fifo", FileType::Fifo, 0o644, (0, 0), &caller)
            .unwrap();
        let fast = rig
            .mounted
            .symlink(&root, b"fast", b"target", &caller)
            .unwrap();
        let slow = rig
            .mounted
            .symlink(&root, b"slow", &[b'x'; 100], &caller)
            .unwrap();
        for (seed, inode) in [&dir, &fifo, &fast, &slow].into_iter().enumerate() {
            set(&rig, inode, "trusted.value", &bytes(900, seed as u32)).unwrap();
        }
        assert!(set(&rig, &fast, "user.value", b"1").is_err());
        assert_eq!(rig.mounted.read_link(&fast).unwrap(), b"target");
        drop((dir, fifo, fast, slow, root));
        let rig = rig.remount();
        assert_eq!(
            rig.mounted.read_link(&lookup(&rig, "fast")).unwrap(),
            b"target"
        );
        for (seed, name) in ["dir", "fifo", "fast", "slow"].into_iter().enumerate() {
            assert_eq!(
                dump(&rig, &lookup(&rig, name))[&b"trusted.value"[..]],
                bytes(900, seed as u32)
            );
        }
        for name in ["fifo", "fast", "slow"] {
            unlink(&rig, name);
        }
        let root = rig.mounted.root().unwrap();
        rig.mounted.rmdir(&root, b"dir", &caller).unwrap();
        drop(root);
        rig.assert_clean();
    }
}
