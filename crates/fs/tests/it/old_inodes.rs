//! Inodes of older implementations: fewer extra fields, other block and link counts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use uext4::device::{Access, BlockDevice, FileDevice};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{
    Caller, Error, FallocateMode, Filesystem, MountOptions, SetAttr, Threads, WriteContext,
};
use uext4_testkit::oracle::{self, KernelMount, debugfs, debugfs_one};

const ROOT: Caller = Caller::root();

/// An image made by mke2fs with these files and directories, changed by debugfs.
fn changed(options: &[&str], files: &[&str], dirs: &[&str], commands: &[String]) -> Image {
    let source = oracle::scratch_dir().unwrap();
    for name in files {
        std::fs::write(source.path().join(name), [7; 40_960]).unwrap();
    }
    for name in dirs {
        std::fs::create_dir(source.path().join(name)).unwrap();
    }
    let from = ["-d", source.path().to_str().unwrap()];
    let (dir, path) = oracle::mke2fs_image(32 << 20, &[options, &from].concat()).unwrap();
    debugfs(&path, oracle::Access::Write, commands).unwrap();
    oracle::assert_clean(&path);
    Image { _dir: dir, path }
}

struct Image {
    _dir: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Image {
    fn copy(&self) -> Image {
        let dir = oracle::scratch_dir().unwrap();
        let path = dir.path().join("copy");
        std::fs::copy(&self.path, &path).unwrap();
        Image { _dir: dir, path }
    }

    fn mount(&self) -> Filesystem {
        mount(&self.path)
    }

    fn attributes(&self, name: &str) -> String {
        let mount = KernelMount::new(&self.path, "ro").unwrap();
        let mut getfattr = Command::new("getfattr");
        getfattr
            .args(["-d", "-m", "-", name])
            .current_dir(mount.path());
        let said = String::from_utf8(getfattr.output().unwrap().stdout).unwrap();
        mount.unmount().unwrap();
        said
    }

    fn extra_isize(&self, name: &str) -> String {
        let stat = debugfs_one(&self.path, &format!("stat /{name}")).unwrap();
        let line = stat
            .lines()
            .find(|line| line.contains("extra inode fields"));
        line.unwrap_or("none").to_owned()
    }
}

fn mount(path: &Path) -> Filesystem {
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(path, Access::ReadWrite).unwrap());
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    Filesystem::mount(device, options).unwrap()
}

#[test]
fn old_inodes_grow_when_they_change_as_with_the_kernel() {
    if !KernelMount::available_or_skip("old inodes") {
        return;
    }
    let files = ["plain", "small", "full", "crowded"];
    let value = |bytes: usize| "v".repeat(bytes);
    let mut commands: Vec<String> = files
        .iter()
        .map(|name| format!("sif /{name} extra_isize 4"))
        .collect();
    commands.push("ea_set /small user.a short".into());
    commands.push(format!("ea_set /full user.large {}", value(40)));
    commands.push(format!("ea_set /full user.b {}", value(16)));
    for nr in 0..3 {
        commands.push(format!("ea_set /crowded user.n{nr} {}", value(8)));
    }
    let ours = changed(&["-b", "1024", "-I", "256"], &files, &[], &commands);
    let theirs = ours.copy();
    let kernel = KernelMount::new(&theirs.path, "").unwrap();
    let fs = ours.mount();
    for name in files {
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(kernel.path().join(name), private).unwrap();
        let inode = fs
            .lookup(&fs.root().unwrap(), name.as_bytes(), &ROOT)
            .unwrap();
        let set = SetAttr {
            mode: Some(0o700),
            ..SetAttr::default()
        };
        fs.set_attr(&inode, &set, &ROOT).unwrap();
    }
    kernel.unmount().unwrap();
    fs.unmount().unwrap();
    oracle::assert_clean(&ours.path);
    for name in files {
        assert_eq!(
            ours.extra_isize(name),
            "Size of extra inode fields: 32",
            "{name}"
        );
        assert_eq!(ours.extra_isize(name), theirs.extra_isize(name), "{name}");
        assert_eq!(ours.attributes(name), theirs.attributes(name), "{name}");
    }
    assert!(ours.attributes("full").contains(&value(40)));
}

/// A change of the file or the directory of the test below.
type Change = fn(&Filesystem, &uext4::path::Paths) -> uext4::Result<()>;

/// An inode that its attributes fill stores seconds only: no operation shows a time that is another
/// after the next mount.
#[test]
fn times_without_extra_fields_are_the_same_after_a_mount() {
    let names = ["file", "dir"];
    let value = |bytes: usize| "v".repeat(bytes);
    let mut commands = Vec::new();
    for name in names {
        commands.push(format!("sif /{name} extra_isize 4"));
        commands.push(format!("ea_set /{name} user.block {}", value(930)));
        commands.push(format!("ea_set /{name} user.inode {}", value(72)));
    }
    let image = changed(&["-b", "1024", "-I", "256"], &["file"], &["dir"], &commands);
    let changes: [(&str, Change); 7] = [
        ("chmod", |fs, _| {
            let file = fs.lookup(&fs.root()?, b"file", &ROOT)?;
            let mode = Some(0o600);
            let set = SetAttr {
                mode,
                ..SetAttr::default()
            };
            fs.set_attr(&file, &set, &ROOT).map(drop)
        }),
        ("write", |_, paths| Ok(paths.write("/file", [1; 9])?)),
        ("create", |_, paths| Ok(paths.write("/dir/new", [1; 9])?)),
        (
            "link",
            |_, paths| Ok(paths.hard_link("/file", "/dir/link")?),
        ),
        ("unlink", |_, paths| Ok(paths.remove_file("/dir/link")?)),
        ("rename", |_, paths| Ok(paths.rename("/file", "/dir/file")?)),
        ("rename of a directory", |_, paths| {
            Ok(paths.rename("/dir", "/other")?)
        }),
    ];
    let times = |fs: &Filesystem| {
        let mut listed = Vec::new();
        for entry in fs.paths().walk("/").unwrap() {
            let entry = entry.unwrap();
            let attr = fs.attr(&entry.inode);
            listed.push((entry.path, attr.mtime, attr.ctime));
        }
        listed.sort();
        listed
    };
    for (name, change) in changes {
        let fs = image.mount();
        change(&fs, &fs.paths()).unwrap();
        let shown = times(&fs);
        fs.unmount().unwrap();
        let fs = image.mount();
        assert_eq!(times(&fs), shown, "{name}");
        fs.unmount().unwrap();
    }
    let kept = image.extra_isize("other/file");
    assert_eq!(kept, "Size of extra inode fields: 4", "it has not grown");
    oracle::assert_clean(&image.path);
}

#[test]
fn links_are_counted_on_only_in_indexed_directories() {
    if !KernelMount::available_or_skip("dir_nlink") {
        return;
    }
    let source = ["-b", "4096"];
    let dir = oracle::scratch_dir().unwrap();
    let commands = ["sif /dir links_count 65000".to_owned()];
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let from = ["-d", dir.path().to_str().unwrap()];
    let (_kept, path) = oracle::mke2fs_image(32 << 20, &[&source[..], &from].concat()).unwrap();
    debugfs(&path, oracle::Access::Write, &commands).unwrap();
    let fs = mount(&path);
    let inode = fs.lookup(&fs.root().unwrap(), b"dir", &ROOT).unwrap();
    let refused = fs.mkdir(&inode, b"one", 0o755, &ROOT).map(drop);
    assert!(matches!(refused, Err(Error::TooManyLinks)), "{refused:?}");
    drop(inode);
    fs.unmount().unwrap();
    let kernel = KernelMount::new(&path, "").unwrap();
    let refused = std::fs::create_dir(kernel.path().join("dir/one")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(31), "EMLINK");
    kernel.unmount().unwrap();
}

#[test]
fn a_count_in_blocks_becomes_one_in_sectors() {
    let commands = [
        "sif /file flags 0xc0000".to_owned(),
        "sif /file blocks 10".to_owned(),
    ];
    let image = changed(&["-b", "4096"], &["file"], &[], &commands);
    let fs = image.mount();
    let inode = fs.lookup(&fs.root().unwrap(), b"file", &ROOT).unwrap();
    assert_eq!(fs.attr(&inode).sectors, 80);
    fs.write(&inode, 40_960, &[1; 4096], &WriteContext::ROOT)
        .unwrap();
    assert_eq!(fs.attr(&inode).sectors, 88);
    drop(inode);
    fs.unmount().unwrap();
    oracle::assert_clean(&image.path);
}

/// More than 2^32 sectors: a count that needs the upper 16 bits.
#[test]
fn files_of_more_than_two_tebibytes_are_counted() {
    const TIB: u64 = 1 << 40;
    let dir = oracle::scratch_dir().unwrap();
    let path = dir.path().join("image");
    let device = FileDevice::create(&path, 9 * TIB / 4).unwrap();
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.inodes = mkfs::InodeCount::AtLeast(1000);
    mkfs::format(&device, &options).unwrap();
    drop(device);
    let fs = mount(&path);
    let inode = fs
        .create(&fs.root().unwrap(), b"huge", 0o644, &ROOT)
        .unwrap();
    let len = 2 * TIB + (1 << 30);
    fs.fallocate(&inode, FallocateMode::Allocate, 0..len, &WriteContext::ROOT)
        .unwrap();
    assert!(fs.attr(&inode).sectors > u64::from(u32::MAX));
    drop(inode);
    fs.unmount().unwrap();
    oracle::assert_clean(&path);
    if KernelMount::available_or_skip("a huge file") {
        let kernel = KernelMount::new(&path, "").unwrap();
        let metadata = std::fs::metadata(kernel.path().join("huge")).unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) > u64::from(u32::MAX));
        std::fs::remove_file(kernel.path().join("huge")).unwrap();
        kernel.unmount().unwrap();
        oracle::assert_clean(&path);
    }
}

/// Stale content of an inode table that was not zeroed must not become visible.
#[test]
fn tables_that_were_not_zeroed_hold_no_inodes() {
    let shapes: [&[&str]; 3] = [
        &[
            "-O",
            "uninit_bg,^metadata_csum",
            "-E",
            "lazy_itable_init=1,nodiscard",
        ],
        &["-E", "lazy_itable_init=1,nodiscard"],
        &[
            "-O",
            "uninit_bg,^metadata_csum",
            "-E",
            "lazy_itable_init=0,nodiscard",
        ],
    ];
    for shape in shapes {
        let dir = oracle::scratch_dir().unwrap();
        let path = dir.path().join("image");
        let garbage: Vec<u8> = (0..64 << 20)
            .map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        std::fs::write(&path, &garbage).unwrap();
        let mut mke2fs = Command::new("mke2fs");
        mke2fs
            .args(["-q", "-F", "-t", "ext4", "-b", "1024", "-N", "16384"])
            .args(shape)
            .arg(&path);
        assert!(mke2fs.status().unwrap().success());
        let fs = mount(&path);
        let top = fs.root().unwrap();
        for nr in 0..6000 {
            let name = format!("{nr}");
            match nr % 100 {
                0 => drop(fs.mkdir(&top, name.as_bytes(), 0o755, &ROOT).unwrap()),
                _ => drop(fs.create(&top, name.as_bytes(), 0o644, &ROOT).unwrap()),
            }
        }
        drop(top);
        fs.unmount().unwrap();
        oracle::assert_clean(&path);
        if KernelMount::available_or_skip("unzeroed tables") {
            let kernel = KernelMount::new(&path, "ro").unwrap();
            assert_eq!(std::fs::read_dir(kernel.path()).unwrap().count(), 6001);
            kernel.unmount().unwrap();
        }
    }
}

#[test]
fn entries_without_types() {
    let image = changed(&["-O", "^filetype", "-b", "1024"], &["file"], &["dir"], &[]);
    let fs = image.mount();
    let top = fs.root().unwrap();
    for nr in 0..300 {
        let name = format!("a name of some length, {nr}");
        fs.symlink(&top, name.as_bytes(), b"to", &ROOT).unwrap();
    }
    let dir = fs.mkdir(&top, b"sub", 0o755, &ROOT).unwrap();
    let flags = uext4::RenameFlags::Replace;
    fs.rename(&top, b"dir", &dir, b"moved", flags, &ROOT)
        .unwrap();
    fs.rename(&top, b"file", &dir, b"file", flags, &ROOT)
        .unwrap();
    drop((dir, top));
    fs.unmount().unwrap();
    oracle::assert_clean(&image.path);
    if KernelMount::available_or_skip("entries without types") {
        let kernel = KernelMount::new(&image.path, "").unwrap();
        assert!(kernel.path().join("sub/moved").is_dir());
        assert_eq!(
            std::fs::read(kernel.path().join("sub/file")).unwrap().len(),
            40_960
        );
        assert_eq!(std::fs::read_dir(kernel.path()).unwrap().count(), 302);
        kernel.unmount().unwrap();
    }
}
