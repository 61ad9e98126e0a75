//! Generated trees come back as they were, and policies leave out what they name.

use crate::rig::Rig;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};
use uext4::Timestamp;
use uext4::format::acl::{Acl, Tag};
use uext4_testkit::manifest::{Field, HostDir, Manifest, Policy};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::tree::{Shape, TreeSpec};
use uext4_tree::{Devices, Existing, Export, Import, Permissions, Times};

fn manifest(path: &Path) -> Manifest {
    Manifest::of(&HostDir::new(path)).expect("it is walked")
}

/// Data with holes, hard links, links, nodes, pipes, sockets, owners, ACLs and other attributes.
#[test]
fn generated_trees_come_back() {
    if !KernelMount::available_or_skip("generated_trees_come_back") {
        return;
    }
    for seed in 1..=2 {
        let rig = Rig::of_size(96 << 20);
        let shape = Shape {
            data_max_bytes: 4 << 20,
            ..Shape::new(250).for_block_size(1024)
        };
        fs::create_dir(rig.host("in")).unwrap();
        let spec = TreeSpec::generate(seed, &shape);
        spec.apply(&rig.host("in")).expect("the tree is made");
        let before = manifest(&rig.host("in"));
        let mut import = Import::new(&rig.fs);
        import.tree(rig.host("in"), "/in").unwrap();
        let mut export = Export::new(&rig.fs);
        export.tree("/in", rig.host("out")).unwrap();
        println!("seed {seed}");
        before.assert_same(&manifest(&rig.host("out")), &Policy::default());
        assert_eq!(export.summary().reduced, 0, "seed {seed}");
        rig.assert_clean();
    }
}

#[test]
fn ordinary_permissions_and_no_devices() {
    if !KernelMount::available_or_skip("ordinary_permissions_and_no_devices") {
        return;
    }
    let rig = Rig::of_size(96 << 20);
    let shape = Shape {
        data_max_bytes: 4 << 20,
        ..Shape::new(400).for_block_size(1024)
    };
    fs::create_dir(rig.host("in")).unwrap();
    let spec = TreeSpec::generate(5, &shape);
    spec.apply(&rig.host("in")).expect("the tree is made");
    Import::new(&rig.fs).tree(rig.host("in"), "/in").unwrap();
    let mut export = Export::new(&rig.fs)
        .devices(Devices::Leave)
        .permissions(Permissions::Ordinary { umask: 0o27 });
    export.tree("/in", rig.host("out")).unwrap();
    let summary = export.summary();
    drop(export);
    let (mut before, after) = (manifest(&rig.host("in")), manifest(&rig.host("out")));
    let granting =
        |name: &[u8]| name.starts_with(b"system.posix_acl_") || name == b"security.capability";
    let (mut left_out, mut reduced) = (0, 0);
    before.entries.retain(|_, entry| {
        let is_device = entry.device.is_some();
        left_out += u64::from(is_device);
        !is_device
    });
    for (path, entry) in &mut before.entries {
        let had = entry.xattrs.len();
        // Without its list a file has the rights of its group, not of the mask.
        let list = entry.xattrs.get(&b"system.posix_acl_access"[..]);
        let list = list.and_then(|value| Acl::from_xattr(value).expect("a list"));
        let group = list.map(|list| {
            let mut entries = list.entries().iter();
            let group = entries.find(|entry| entry.tag == Tag::GroupObj);
            u32::from(group.expect("a group").perm) << 3
        });
        entry.mode &= !0o070 | group.unwrap_or(0o070);
        entry.xattrs.retain(|name, _| !granting(name));
        // A file with several names is counted once.
        if entry.link_group.as_ref().is_none_or(|first| first == path) {
            reduced += (had - entry.xattrs.len()) as u64;
        }
        if entry.target.is_none() {
            entry.mode &= 0o777 & !0o27;
        }
    }
    before.assert_same(&after, &Policy::default().ignore(Field::LinkGroup));
    assert!(left_out > 0 && reduced > 0, "the tree has neither");
    assert_eq!((summary.left_out, summary.reduced), (left_out, reduced));
    rig.assert_clean();
}

#[test]
fn later_times_become_the_latest_one() {
    let rig = Rig::new();
    rig.make(&["in/", "in/early", "in/late"]);
    for (name, seconds) in [("in/early", 500), ("in/late", 2000)] {
        let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 7);
        let times = FileTimes::new()
            .set_modified(time)
            .set_accessed(time + Duration::from_secs(1));
        File::open(rig.host(name))
            .unwrap()
            .set_times(times)
            .unwrap();
    }
    let latest = Timestamp::new(500, 8);
    let mut import = Import::new(&rig.fs).times(Times::NotAfter(latest));
    import.tree(rig.host("in"), "/in").unwrap();
    for (name, time) in [
        ("early", Timestamp::new(500, 7)),
        ("late", latest),
        ("", latest),
    ] {
        let found = rig.fs.paths().metadata(format!("/in/{name}")).unwrap();
        let attr = found.attr();
        assert_eq!((attr.mtime, attr.atime), (time, time), "{name}");
    }
    rig.assert_clean();
}

/// The progress bar counts data, not holes, and each file once.
#[test]
fn the_size_of_an_export_is_known_before() {
    let rig = Rig::new();
    rig.make(&["in/", "in/dir/"]);
    fs::write(rig.host("in/plain"), vec![1; 10_000]).unwrap();
    fs::write(rig.host("in/dir/two"), vec![2; 8192]).unwrap();
    fs::hard_link(rig.host("in/dir/two"), rig.host("in/names")).unwrap();
    symlink("plain", rig.host("in/link")).unwrap();
    let sparse = File::create(rig.host("in/sparse")).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    Import::new(&rig.fs).tree(rig.host("in"), "/in").unwrap();
    rig.fs.sync().unwrap();
    let block = 1024;
    let export = Export::new(&rig.fs);
    assert_eq!(export.total_bytes("/in"), 10_000 + 8192 + block);
    assert_eq!(export.total_bytes("/in/plain"), 10_000);
    assert_eq!(export.total_bytes("/in/dir/two"), 4096);
    assert_eq!(
        (export.total_bytes("/in/link"), export.total_bytes("/none")),
        (0, 0)
    );
    drop(export);
    rig.assert_clean();
}

#[test]
fn a_file_is_no_directory_to_fill() {
    let rig = Rig::new();
    rig.make(&["in/", "in/dir/", "in/dir/file"]);
    rig.fs.paths().write("/file", "kept").unwrap();
    rig.fs.paths().write("/dir", "kept").unwrap();
    let told = |failed: uext4_tree::Result<()>| failed.expect_err("it fails").to_string();
    let mut import = Import::new(&rig.fs).existing(Existing::Replace);
    assert_eq!(
        told(import.content(rig.host("in"), "/file")),
        "/file: not a directory"
    );
    assert_eq!(
        told(import.tree(rig.host("in/dir"), "/dir")),
        "/dir: file exists"
    );
    drop(import);
    for path in ["/file", "/dir"] {
        assert_eq!(rig.fs.paths().read(path).unwrap(), b"kept");
    }
    rig.assert_clean();
}
