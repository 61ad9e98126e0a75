mod open;

use super::{AsBytes, Directory, File, OpenOptions, Paths, Result, Walk};
use crate::ops::filesystem::Filesystem;
use crate::parts::xattr::SetMode;
use crate::types::attr::{Caller, FileType};
use crate::types::error::Error;
use crate::types::options::{MountOptions, Threads};
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use uext4_device::MemDevice;
use uext4_mkfs as mkfs;
use uext4_mkfs::{MkfsOptions, Preset};

fn mounted() -> (Arc<MemDevice>, Filesystem) {
    let device = Arc::new(MemDevice::new(32 << 20));
    mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4)).expect("makes a file system");
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device.clone(), options).expect("mounts");
    (device, fs)
}

fn assert_clean(device: &MemDevice, fs: Filesystem) {
    fs.unmount().expect("unmounts");
    let scratch = uext4_testkit::oracle::scratch_dir().expect("a scratch directory");
    let image = scratch.path().join("image");
    std::fs::write(&image, device.to_bytes()).expect("writes the image");
    uext4_testkit::oracle::assert_clean(&image);
}

fn why<T>(answer: Result<T>) -> Error {
    answer.map(drop).expect_err("must be refused").into()
}

#[test]
fn everything_may_go_to_other_threads() {
    fn check<T: Send + Sync>() {}
    check::<Filesystem>();
    check::<Paths>();
    check::<File>();
    check::<Directory>();
    check::<Walk>();
    check::<crate::state::inode::InodeRef>();
}

#[test]
fn a_tree_is_made_and_taken_apart() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    paths.create_dir_all("a//b/c/").unwrap();
    paths.create_dir_all("/a/b").unwrap();
    for n in 0..600 {
        paths
            .write(format!("/a/b/file-{n}"), format!("content {n}"))
            .unwrap();
    }
    assert_eq!(paths.read("/a/b/file-77").unwrap(), b"content 77");
    let mut names: Vec<_> = paths
        .read_dir("/a/b")
        .unwrap()
        .map(|entry| entry.unwrap().name)
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 601);
    paths.hard_link("/a/b/file-1", "/one").unwrap();
    assert_eq!(paths.metadata("/one").unwrap().nlink(), 2);
    paths.rename("/a/b", "/moved").unwrap();
    assert!(matches!(why(paths.remove_dir("/moved")), Error::NotEmpty));
    assert!(matches!(
        why(paths.remove_dir_all("/one")),
        Error::NotDirectory
    ));
    paths.remove_dir_all("/moved").unwrap();
    assert!(!paths.exists("/moved").unwrap() && paths.exists("/one").unwrap());
    assert_eq!(paths.metadata("/one").unwrap().nlink(), 1);
    assert_clean(&device, fs);
}

#[test]
fn symbolic_links_stay_in_the_image() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    paths.create_dir_all("/dir/sub").unwrap();
    paths.write("/dir/file", "x").unwrap();
    paths.symlink("/dir", "/dir/sub/up").unwrap();
    paths
        .symlink("../../../../dir/./file", "/dir/sub/rel")
        .unwrap();
    assert_eq!(paths.read("dir/sub/up/sub/rel").unwrap(), b"x");
    assert_eq!(
        paths.canonicalize("/dir/sub/up/sub/../file").unwrap(),
        b"/dir/file"
    );
    assert_eq!(paths.canonicalize("/..").unwrap(), b"/");
    assert_eq!(paths.read_link("/dir/sub/up").unwrap(), b"/dir");
    assert!(paths.symlink_metadata("/dir/sub/up").unwrap().is_symlink());
    assert!(paths.symlink_metadata("/dir/sub/up/").unwrap().is_dir());
    paths.remove_dir_all("/dir/sub").unwrap();
    assert!(
        paths.exists("/dir/file").unwrap(),
        "links are not followed when a tree goes"
    );
    paths.symlink("made", "/dangling").unwrap();
    paths.write("/dangling", "through").unwrap();
    assert_eq!(paths.read("/made").unwrap(), b"through");
    assert_clean(&device, fs);
}

#[test]
fn loops_end_at_forty_links() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    paths.symlink("loop", "/loop").unwrap();
    assert!(matches!(why(paths.metadata("/loop")), Error::Loop));
    paths.write("/link-0", "end").unwrap();
    for n in 1..=41 {
        paths
            .symlink(format!("link-{}", n - 1), format!("/link-{n}"))
            .unwrap();
    }
    assert_eq!(paths.read("/link-40").unwrap(), b"end");
    assert!(matches!(why(paths.read("/link-41")), Error::Loop));
    assert_clean(&device, fs);
}

#[test]
fn paths_that_lead_nowhere_are_refused_as_linux_does() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    paths.write("/file", "").unwrap();
    paths.create_dir("/dir").unwrap();
    let errno = |answer: Result<()>| why(answer).errno();
    let get = |path: &str| errno(paths.metadata(path).map(drop));
    const NOENT: i32 = 2;
    const BUSY: i32 = 16;
    const EXIST: i32 = 17;
    const NOTDIR: i32 = 20;
    const ISDIR: i32 = 21;
    const INVAL: i32 = 22;
    assert_eq!([get(""), get("/no"), get("/no/no")], [NOENT; 3]);
    assert_eq!(
        [get("/file/"), get("/file/x"), get("/file/..")],
        [NOTDIR; 3]
    );
    assert_eq!(get(&"n".repeat(256)), 36);
    assert_eq!(errno(paths.create_dir("/dir")), EXIST);
    assert_eq!(errno(paths.create_dir("/")), EXIST);
    assert_eq!(errno(paths.create_dir_all("/file/x")), NOTDIR);
    assert_eq!(errno(paths.remove_dir("/")), BUSY);
    assert_eq!(errno(paths.remove_dir("/dir/.")), INVAL);
    assert_eq!(errno(paths.remove_file("/")), ISDIR);
    assert_eq!(errno(paths.remove_file("/dir")), ISDIR);
    assert_eq!(errno(paths.remove_file("/file/")), NOTDIR);
    assert_eq!(errno(paths.rename("/file", "/new/")), NOTDIR);
    assert_eq!(errno(paths.create("/dir").map(drop)), ISDIR);
    assert_eq!(errno(paths.create("/new/").map(drop)), ISDIR);
    assert_eq!(errno(paths.read_dir("/file").map(drop)), NOTDIR);
    assert_eq!(errno(paths.read_link("/file").map(drop)), INVAL);
    assert_clean(&device, fs);
}

#[test]
fn open_files_keep_position_rights_and_the_end() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    let mut new = OpenOptions::new();
    new.read(true).write(true).create_new(true).mode(0o640);
    let mut file = new.open(&paths, "/file").unwrap();
    assert!(matches!(why(new.open(&paths, "/file")), Error::Exists));
    file.write_all(b"0123456789").unwrap();
    file.seek(SeekFrom::End(-3)).unwrap();
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "789");
    assert!(file.seek(SeekFrom::Current(-11)).is_err());
    assert_eq!(file.metadata().mode(), 0o640);
    let mut append = OpenOptions::new()
        .append(true)
        .open(&paths, "/file")
        .unwrap();
    append.write_all(b"ab").unwrap();
    assert!(
        append.read_at(0, &mut [0]).is_err(),
        "not opened for reading"
    );
    assert!(
        paths.open("/file").unwrap().write_at(0, b"x").is_err(),
        "not opened for writing"
    );
    file.set_len(11).unwrap();
    file.sync_all().unwrap();
    paths.remove_file("/file").unwrap();
    let mut all = [0; 20];
    assert_eq!(
        file.read_at(0, &mut all).unwrap(),
        11,
        "an open file outlives its name"
    );
    assert_eq!(&all[..11], b"0123456789a");
    drop((file, append));
    assert_clean(&device, fs);
}

#[test]
fn copies_keep_holes_and_mode() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    let file = paths.create("/sparse").unwrap();
    file.write_at(5 << 20, b"data").unwrap();
    file.set_len(9 << 20).unwrap();
    drop(file);
    paths.set_permissions("/sparse", 0o4711).unwrap();
    assert_eq!(paths.copy("/sparse", "/copy").unwrap(), 9 << 20);
    let (from, to) = (
        paths.metadata("/sparse").unwrap(),
        paths.metadata("/copy").unwrap(),
    );
    assert_eq!((to.len(), to.mode()), (from.len(), 0o4711));
    assert_eq!(to.attr().sectors, from.attr().sectors);
    assert!(paths.read("/sparse").unwrap() == paths.read("/copy").unwrap());
    assert_clean(&device, fs);
}

#[test]
fn a_copy_of_a_file_to_itself_is_refused_and_leaves_it() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    paths.write("/a", b"contents").unwrap();
    paths.hard_link("/a", "/b").unwrap();
    for to in ["/a", "/b"] {
        assert!(paths.copy("/a", to).is_err());
        assert_eq!(paths.read("/a").unwrap(), b"contents");
    }
    assert_clean(&device, fs);
}

#[test]
fn callers_get_what_the_modes_give_them() {
    let (device, fs) = mounted();
    let root = fs.paths();
    let user = fs.paths_as(Caller {
        uid: 7,
        gid: 7,
        umask: 0o027,
        ..Caller::root()
    });
    root.create_dir_mode("/open", 0o777).unwrap();
    root.set_permissions("/open", 0o1777).unwrap();
    root.create_dir("/closed").unwrap();
    root.set_permissions("/closed", 0o700).unwrap();
    root.write("/closed/file", "").unwrap();
    assert!(matches!(why(user.metadata("/closed/file")), Error::Access));
    assert!(matches!(
        why(user.read_dir("/closed").map(drop)),
        Error::Access
    ));
    user.write("/open/mine", "mine").unwrap();
    let mine = root.metadata("/open/mine").unwrap();
    assert_eq!((mine.uid(), mine.gid(), mine.mode()), (7, 7, 0o640));
    root.mknod("/open/pipe", FileType::Fifo, 0o600, (0, 0))
        .unwrap();
    assert!(user.remove_file("/open/pipe").is_err(), "sticky");
    assert!(user.set_permissions("/open", 0o777).is_err());
    assert_clean(&device, fs);
}

#[test]
fn paths_may_be_anything_with_bytes() {
    let forms: [&dyn AsBytes; 4] = [
        &"/x",
        &b"/x",
        &std::path::Path::new("/x"),
        &vec![b'/', b'x'],
    ];
    assert!(forms.iter().all(|form| form.as_bytes() == b"/x"));
}

#[test]
fn a_walk_meets_every_file_once_and_goes_on_after_an_error() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    let mut made = vec![b"top".to_vec()];
    paths.create_dir("/top").unwrap();
    for dir in ["top/a", "top/a/b", "top/secret"] {
        paths.create_dir(dir).unwrap();
        made.push(dir.into());
        for nr in 0..300 {
            paths.write(format!("{dir}/{nr}"), "").unwrap();
            made.push(format!("{dir}/{nr}").into());
        }
    }
    paths.symlink("/top", "/top/a/link").unwrap();
    made.push(b"top/a/link".to_vec());
    made.retain(|path| path != b"top");
    made.sort();
    let from_top = |path: &[u8]| [b"top/", path].concat();
    let mut found: Vec<_> = paths
        .walk("/top")
        .unwrap()
        .map(|file| from_top(&file.unwrap().path))
        .collect();
    let place = |path: &[u8]| found.iter().position(|one| one == path);
    assert!(place(b"top/a/b") < place(b"top/a/b/7"), "content after it");
    found.sort();
    assert_eq!(found, made);

    paths.set_permissions("/top/secret", 0o700).unwrap();
    let user = fs.paths_as(Caller {
        uid: 1000,
        gid: 1000,
        ..Caller::root()
    });
    let (mut files, mut failed) = (0, Vec::new());
    for file in user.walk("/top").unwrap() {
        match file {
            Ok(_) => files += 1,
            Err(error) => failed.push(error.to_string()),
        }
    }
    assert_eq!(failed, ["/top/secret: permission denied"]);
    assert_eq!(files, made.len() - 300);
    let mut walk = paths.walk("/").unwrap();
    let mut seen = Vec::new();
    while let Some(file) = walk.next() {
        let file = file.unwrap();
        if file.path == b"top" {
            walk.skip_content();
        }
        seen.push(file.path);
    }
    assert_eq!(seen.len(), 2, "top and lost+found: {seen:?}");
    assert!(matches!(why(paths.walk("/top/a/0")), Error::NotDirectory));
    drop(walk);
    assert_clean(&device, fs);
}

#[test]
fn attributes_are_set_by_path() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    paths.write("/file", "x").unwrap();
    paths.symlink("/file", "/link").unwrap();
    let set = |value: &str, mode| paths.set_xattr("/link", "user.name", value, mode);
    set("first", SetMode::Create).unwrap();
    assert!(matches!(why(set("second", SetMode::Create)), Error::Exists));
    set("third", SetMode::Replace).unwrap();
    assert_eq!(paths.xattr("/file", b"user.name").unwrap(), b"third");
    assert_eq!(paths.xattrs("/file").unwrap(), [b"user.name"]);
    paths.remove_xattr("/file", "user.name").unwrap();
    let gone = paths.xattr("/file", "user.name");
    assert!(matches!(why(gone), Error::NoAttribute));
    assert_clean(&device, fs);
}

#[test]
fn the_last_clone_or_open_file_unmounts() {
    let (device, fs) = mounted();
    let is_clean = || {
        let superblock = crate::state::superblock::read_superblock(&*device, None).unwrap();
        !superblock.features().has(uext4_format::Feature::RECOVER)
    };
    let file = fs.paths().create("/file").unwrap();
    let list = fs.paths().read_dir("/").unwrap();
    let clone = fs.clone();
    drop(fs);
    assert_eq!(file.write_at(0, b"data").unwrap(), 4);
    drop(file);
    assert_eq!(list.count(), 2);
    assert!(!is_clean());
    assert_eq!(clone.paths().read("/file").unwrap(), b"data");
    drop(clone);
    assert!(is_clean());
}

#[test]
fn errors_tell_path_component_and_target() {
    let (device, fs) = mounted();
    let paths = fs.paths();
    paths.create_dir_all("/dir/full/below").unwrap();
    paths.write("/dir/file", "x").unwrap();
    paths.symlink("/dir/none", "/link").unwrap();
    let user = fs.paths_as(Caller {
        uid: 7,
        ..Caller::root()
    });
    paths.set_permissions("/dir/full", 0o700).unwrap();
    let told = |answer: Result<()>| answer.expect_err("must be refused").to_string();
    let read = |path: &str| told(paths.read(path).map(drop));
    assert_eq!(read("//dir/no/"), "//dir/no/: no such file or directory");
    assert_eq!(
        read("/dir/file/x/y"),
        "/dir/file/x/y: /dir/file: not a directory"
    );
    assert_eq!(read("/link"), "/link: /dir/none: no such file or directory");
    assert_eq!(read("/dir"), "/dir: is a directory");
    let below = user.metadata("/dir/full/below").map(drop);
    assert_eq!(told(below), "/dir/full/below: permission denied");
    assert_eq!(
        told(paths.write("/no/x", "")),
        "/no/x: /no: no such file or directory"
    );
    assert_eq!(
        told(paths.rename("/dir/file", "/dir/full")),
        "/dir/file -> /dir/full: is a directory"
    );
    let missing = paths.rename("/no", "/yes").expect_err("must be refused");
    assert_eq!(missing.target(), Some(b"/yes".as_slice()));
    let removed = user.remove_dir_all("/dir").expect_err("must be refused");
    assert_eq!(removed.path(), b"/dir/file");
    let file = paths.open("/dir/file").unwrap();
    let refused = std::io::Error::from(file.write_at(0, b"x").unwrap_err());
    assert!(refused.to_string().starts_with("/dir/file: "), "{refused}");
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    drop(file);
    assert_clean(&device, fs);
}
