//! What a copy keeps.

use crate::rig::Rig;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use uext4::Timestamp;
use uext4_tree::{Existing, Export, Import, Links, Times};

/// Type, mode, size, modification time, number of names and, of a link, its target.
fn facts(path: &Path) -> (u32, u64, i64, u64, Option<PathBuf>) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    let target = meta
        .is_symlink()
        .then(|| fs::read_link(path).expect("reads"));
    let size = if meta.is_file() { meta.len() } else { 0 };
    let names = if meta.is_dir() { 0 } else { meta.nlink() };
    (meta.mode(), size, meta.mtime(), names, target)
}

#[test]
fn attributes_links_and_holes_come_back() {
    let rig = Rig::new();
    rig.make(&["in/", "in/sub/", "in/sub/file", "in/empty/"]);
    fs::hard_link(rig.host("in/sub/file"), rig.host("in/second")).unwrap();
    symlink("sub/file", rig.host("in/link")).unwrap();
    let sparse = File::create(rig.host("in/sparse")).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    sparse.set_len(3 << 20).unwrap();
    fs::set_permissions(rig.host("in/sub"), Permissions::from_mode(0o2751)).unwrap();
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_007);
    for name in ["in/sub/file", "in/sub"] {
        let file = File::open(rig.host(name)).unwrap();
        file.set_times(FileTimes::new().set_modified(past)).unwrap();
    }
    let mut import = Import::new(&rig.fs);
    import.tree(rig.host("in"), "/kept").unwrap();
    assert_eq!(import.summary().files, 7);
    let total = import.total_bytes(rig.host("in"));
    let mut export = Export::new(&rig.fs);
    export.tree("/kept", rig.host("out")).unwrap();
    assert_eq!(export.summary().files, 7);
    for name in ["", "sub", "sub/file", "second", "link", "sparse", "empty"] {
        let (before, after) = (rig.host("in").join(name), rig.host("out").join(name));
        assert_eq!(facts(&after), facts(&before), "{name}");
    }
    let read = |name: &str| fs::read(rig.host(name)).unwrap();
    assert!(read("in/sparse") == read("out/sparse"));
    assert_eq!(read("out/second"), b"in/sub/file");
    let ino = |name: &str| fs::metadata(rig.host(name)).unwrap().ino();
    assert_eq!(ino("out/second"), ino("out/sub/file"));
    assert!(
        rig.fs
            .paths()
            .metadata("/kept/sparse")
            .unwrap()
            .attr()
            .sectors
            <= 8
    );
    assert_eq!(total, 2 * 11 + (3 << 20));
    rig.assert_clean();
}

#[test]
fn content_fills_directories_that_exist_or_not() {
    let rig = Rig::new();
    rig.make(&["in/", "in/dir/", "in/dir/one", "in/two"]);
    let paths = rig.fs.paths();
    paths.create_dir("/new").unwrap();
    for dir in ["/new", "/newer"] {
        Import::new(&rig.fs).content(rig.host("in"), dir).unwrap();
        assert_eq!(paths.read(format!("{dir}/dir/one")).unwrap(), b"in/dir/one");
    }
    let again = Import::new(&rig.fs).content(rig.host("in"), "/new");
    assert_eq!(
        again.expect_err("files exist").to_string(),
        "/new/dir/one: file exists"
    );
    fs::write(rig.host("in/two"), "changed").unwrap();
    let mut replace = Import::new(&rig.fs).existing(Existing::Replace);
    replace.content(rig.host("in"), "/new").unwrap();
    assert_eq!(paths.read("/new/two").unwrap(), b"changed");
    Export::new(&rig.fs).content("/", rig.host("all")).unwrap();
    let mut names: Vec<_> = fs::read_dir(rig.host("all"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["new", "newer"], "without lost+found");
    let refused = Export::new(&rig.fs).content("/", rig.host("all"));
    let refused = refused.expect_err("nothing is overwritten").to_string();
    assert!(refused.contains("all/new"), "{refused}");
    drop(paths);
    rig.assert_clean();
}

#[test]
fn links_and_times_are_as_asked() {
    let rig = Rig::new();
    rig.make(&["in/", "in/dir/", "in/dir/file"]);
    symlink("dir", rig.host("in/link")).unwrap();
    symlink("..", rig.host("in/dir/up")).unwrap();
    let time = Timestamp::new(77, 0);
    let mut kept = Import::new(&rig.fs).times(Times::At(time));
    kept.tree(rig.host("in"), "/kept").unwrap();
    let paths = rig.fs.paths();
    let link = paths.symlink_metadata("/kept/link").unwrap();
    assert!(link.is_symlink());
    assert_eq!((link.attr().mtime, link.attr().atime), (time, time));
    let followed = Import::new(&rig.fs)
        .links(Links::Follow)
        .tree(rig.host("in"), "/followed");
    let told = followed.expect_err("it has no end").to_string();
    assert!(told.contains("dir/up: leads back to"), "{told}");
    fs::remove_file(rig.host("in/dir/up")).unwrap();
    let mut followed = Import::new(&rig.fs).links(Links::Follow);
    followed.tree(rig.host("in/link"), "/dir").unwrap();
    assert!(paths.symlink_metadata("/dir").unwrap().is_dir());
    drop(paths);
    rig.assert_clean();
}
