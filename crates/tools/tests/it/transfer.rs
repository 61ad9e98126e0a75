//! `put` and `get` of whole trees against e2fsck, the kernel and the tree itself.

use crate::rig::{Rig, bytes};
use rustix::fs::inotify;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use uext4_testkit::manifest::{Field, HostDir, Manifest, Policy};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::tree::{Shape, TreeSpec};
use uext4_testkit::{skip, wait};

/// Puts a tree into an image. Returns the rig and the tree's manifest.
fn with_tree(entries: usize, mkfs: &[&str]) -> (Rig, Manifest) {
    let rig = Rig::empty();
    rig.ok(&[
        &["mkfs", "disk.img", "--size", "256M", "-q", "-b", "4K"],
        mkfs,
    ]
    .concat());
    let tree = rig.path("tree");
    std::fs::create_dir(&tree).unwrap();
    let shape = Shape {
        data_max_bytes: 24 << 20,
        ..Shape::new(entries)
    };
    TreeSpec::generate(7, &shape)
        .apply(&tree)
        .expect("the tree is made");
    let manifest = Manifest::of(&HostDir::new(&tree)).expect("the tree is walked");
    rig.ok(&["put", "-r", "disk.img", "tree", "/"]);
    rig.assert_clean();
    (rig, manifest)
}

/// Ignores the root's attributes; access times are not compared by default.
fn policy() -> Policy {
    Policy::default().ignore(Field::Root)
}

#[test]
fn a_tree_that_was_put_is_what_the_kernel_reads() {
    if !KernelMount::available_or_skip("a_tree_that_was_put_is_what_the_kernel_reads") {
        return;
    }
    let (rig, manifest) = with_tree(600, &[]);
    let mount = KernelMount::new(&rig.image(), "ro").expect("the kernel mounts it");
    let found = Manifest::of(&HostDir::new(&mount.path().join("tree"))).expect("it is walked");
    mount.unmount().expect("the kernel lets go");
    manifest.assert_same(&found, &policy());
}

#[test]
fn a_tree_comes_back_as_it_was() {
    if !KernelMount::available_or_skip("a_tree_comes_back_as_it_was") {
        return;
    }
    let (rig, manifest) = with_tree(600, &["-O", "inline_data"]);
    let before = bytes(&rig.image());
    rig.ok(&["get", "-r", "disk.img", "/tree", "back"]);
    assert!(bytes(&rig.image()) == before, "get does not write");
    let found = Manifest::of(&HostDir::new(&rig.path("back"))).expect("it is walked");
    manifest.assert_same(&found, &policy());
    let names = rig.json(&["ls", "-aR", "--json", "disk.img", "/tree"]);
    assert_eq!(
        names.as_array().expect("a list").len() + 1,
        manifest.entries.len()
    );
}

#[test]
fn destinations_are_those_of_cp() {
    let rig = Rig::new(&[]);
    std::fs::create_dir_all(rig.path("dir/sub")).unwrap();
    std::fs::write(rig.path("dir/file"), "1").unwrap();
    rig.ok(&["put", "-r", "disk.img", "dir/.", "/"]);
    rig.ok(&["put", "-r", "disk.img", "dir", "/sub"]);
    rig.ok(&["put", "-r", "disk.img", "dir", "/new"]);
    rig.ok(&["put", "disk.img", "dir/file", "/sub/renamed"]);
    for path in ["/file", "/sub/dir/file", "/new/file", "/sub/renamed"] {
        assert_eq!(rig.ok(&["cat", "disk.img", path]), "1", "{path}");
    }
    rig.fails(1, "-r", &["put", "disk.img", "dir", "/x"]);
    rig.fails(1, "exists", &["put", "disk.img", "dir/file", "/file"]);
    std::fs::write(rig.path("dir/file"), "2").unwrap();
    rig.ok(&["put", "--force", "disk.img", "dir/file", "/file"]);
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "2");
    rig.fails(1, "-r", &["get", "disk.img", "/sub", "out"]);
    rig.ok(&["get", "-r", "disk.img", "/", "all"]);
    rig.ok(&["get", "disk.img", "/file", "all/sub"]);
    assert_eq!(bytes(&rig.path("all/sub/file")), b"2");
    rig.fails(1, "exists", &["get", "disk.img", "/file", "all/sub"]);
    rig.assert_clean();
}

#[test]
fn several_sources_need_a_directory_and_a_slash_means_one() {
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("dir")).unwrap();
    for name in ["one", "two", "dir/three"] {
        std::fs::write(rig.path(name), name).unwrap();
    }
    let missing = "no such directory";
    rig.fails(1, missing, &["put", "disk.img", "one", "two", "/new"]);
    rig.fails(1, missing, &["put", "disk.img", "one", "/new/"]);
    rig.fails(1, missing, &["put", "disk.img", "one", "two", "/new/"]);
    assert_eq!(rig.ok(&["ls", "disk.img"]), "lost+found\n");
    rig.ok(&["mkdir", "disk.img", "/in"]);
    rig.ok(&["put", "-r", "disk.img", "one", "two", "dir", "/in/"]);
    assert_eq!(rig.ok(&["ls", "disk.img", "/in"]), "dir\none\ntwo\n");
    assert_eq!(rig.ok(&["cat", "disk.img", "/in/dir/three"]), "dir/three");
    rig.ok(&["put", "-r", "disk.img", "dir/", "/copy/"]);
    assert_eq!(rig.ok(&["ls", "disk.img", "/copy"]), "three\n");
    rig.fails(
        1,
        "directory",
        &["put", "disk.img", "one", "two", "/in/one"],
    );
    rig.fails(1, "directory", &["put", "disk.img", "one", "/in/one/"]);
    // A missing source does not prevent the copy of the others.
    let put = rig.run(&["put", "disk.img", "nothing", "one", "dir", "/copy"]);
    let said = String::from_utf8_lossy(&put.stderr).into_owned();
    assert_eq!(put.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing: No such file") && said.contains("dir: is a directory"));
    assert!(
        said.contains("2 files failed, 1 with 3 bytes were copied"),
        "{said}"
    );
    assert_eq!(rig.ok(&["ls", "disk.img", "/copy"]), "one\nthree\n");
    rig.fails(1, missing, &["get", "disk.img", "/in/one", "newdir/"]);
    assert!(!rig.path("newdir").exists());
    rig.assert_clean();
}

#[test]
fn links_are_kept_or_followed() {
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("dir")).unwrap();
    std::fs::write(rig.path("file"), "file").unwrap();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, rig.path(name));
    link("../file", "dir/link").unwrap();
    rig.ok(&["put", "-r", "disk.img", "dir", "/kept"]);
    assert!(
        rig.ok(&["ls", "-l", "disk.img", "/kept"])
            .contains("link -> ../file")
    );
    rig.ok(&["put", "-rL", "disk.img", "dir", "/followed"]);
    assert_eq!(rig.ok(&["cat", "disk.img", "/followed/link"]), "file");
    assert!(
        !rig.ok(&["ls", "-l", "disk.img", "/followed"])
            .contains("->")
    );
    link("..", "dir/loop").unwrap();
    link("nowhere", "dir/broken").unwrap();
    let put = rig.run(&["put", "-rL", "disk.img", "dir", "/loop"]);
    let said = String::from_utf8_lossy(&put.stderr).into_owned();
    assert_eq!(put.status.code(), Some(1), "{said}");
    assert!(said.contains("dir/broken: No such file"), "{said}");
    assert!(said.contains("leads back to"), "{said}");
    assert_eq!(rig.ok(&["cat", "disk.img", "/loop/link"]), "file");
    rig.assert_clean();
}

#[test]
fn standard_streams_are_files() {
    let rig = Rig::new(&[]);
    let data = "line\n".repeat(100_000);
    let output = rig.fed(data.as_bytes(), &["put", "disk.img", "-", "/stream"]);
    assert!(output.status.success(), "{output:?}");
    let got = rig.run(&["get", "disk.img", "/stream", "-"]);
    assert!(got.status.success() && got.stdout == data.as_bytes());
    assert!(!rig.path("-").exists());
    let empty = rig.fed(b"", &["put", "disk.img", "-", "/empty"]);
    assert!(empty.status.success(), "{empty:?}");
    assert_eq!(
        rig.json(&["stat", "--json", "disk.img", "/empty"])["size"],
        0
    );
    rig.fails(1, "exists", &["put", "disk.img", "-", "/stream"]);
    assert!(
        rig.fed(b"new", &["put", "-f", "disk.img", "-", "/stream"])
            .status
            .success()
    );
    assert_eq!(rig.ok(&["cat", "disk.img", "/stream"]), "new");
    rig.fails(2, "name", &["put", "disk.img", "-", "/"]);
    rig.fails(2, "alone", &["put", "disk.img", "-", "x", "/"]);
    rig.fails(2, "only a file", &["get", "-r", "disk.img", "/", "-"]);
    std::fs::write(rig.path("-"), "a file").unwrap();
    rig.ok(&["put", "disk.img", "./-", "/dash"]);
    assert_eq!(rig.ok(&["cat", "disk.img", "/dash"]), "a file");
    rig.assert_clean();
}

#[test]
fn a_given_time_makes_the_same_bytes() {
    let same = "01234567-89ab-cdef-0123-456789abcdef";
    let made = |variable: Option<&str>, args: &[&str]| {
        let rig = Rig::empty();
        std::fs::create_dir(rig.path("tree")).unwrap();
        for number in 0..40 {
            let data = vec![number; 40 * usize::from(number)];
            std::fs::write(rig.path("tree").join(number.to_string()), data).unwrap();
        }
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let file = std::fs::File::options()
            .write(true)
            .open(rig.path("tree/7"))
            .unwrap();
        file.set_modified(old).unwrap();
        let run = |args: &[&str]| {
            let output = match variable {
                Some(value) => rig.run_with(&[("SOURCE_DATE_EPOCH", value)], args),
                None => rig.run(args),
            };
            assert!(output.status.success(), "{args:?}: {output:?}");
        };
        let mkfs = [
            "mkfs",
            "-q",
            "disk.img",
            "32M",
            "-U",
            same,
            "--hash-seed",
            same,
        ];
        let time = if args.is_empty() {
            vec![]
        } else {
            vec!["--time", "2000000000"]
        };
        run(&[mkfs.as_slice(), &time].concat());
        run(&[["put", "-r", "disk.img", "tree", "/"].as_slice(), args].concat());
        rig.assert_clean();
        rig
    };
    let modified = |rig: &Rig, path: &str| {
        rig.json(&["stat", "--json", "disk.img", path])["modified"].as_u64()
    };
    for (variable, args) in [
        (None, ["--time", "2000000000"].as_slice()),
        (Some("1600000000"), &[]),
    ] {
        let (one, other) = (made(variable, args), made(variable, args));
        assert!(
            bytes(&one.image()) == bytes(&other.image()),
            "{variable:?} {args:?}"
        );
        match variable {
            None => assert_eq!(modified(&one, "/tree/7"), Some(2_000_000_000)),
            Some(_) => {
                assert_eq!(modified(&one, "/tree/7"), Some(1_000_000), "it is older");
                assert_eq!(modified(&one, "/tree/8"), Some(1_600_000_000));
            }
        }
    }
}

/// Counts the files of a directory that programs open.
struct Opened(OwnedFd);

impl Opened {
    fn of(dir: &Path) -> Self {
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, dir, inotify::WatchFlags::OPEN).unwrap();
        Self(events)
    }

    fn wait_for(&self, count: usize) {
        let mut buf = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buf);
        let mut left = count;
        wait::until_true("files are opened", || {
            while left > 0 && reader.next().is_ok() {
                left -= 1;
            }
            left == 0
        });
    }
}

#[test]
fn an_interrupted_copy_ends_with_a_clean_image() {
    use std::process::Stdio;
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("tree")).unwrap();
    for number in 0..3000 {
        std::fs::write(rig.path("tree").join(number.to_string()), "x").unwrap();
    }
    let interrupt = |mut child: std::process::Child| {
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1));
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
        let info = rig.json(&["info", "--json", "disk.img"]);
        assert_eq!(info["journal"]["needs_recovery"], false);
        said
    };
    let opened = Opened::of(&rig.path("tree"));
    let child = rig.start(&["put", "-r", "disk.img", "tree", "/copy"], Stdio::null());
    opened.wait_for(50);
    let said = interrupt(child);
    assert!(
        said.contains("interrupted: ") && said.contains("were copied"),
        "{said}"
    );
    // An interrupted stream leaves no file.
    let mut child = rig.start(&["put", "disk.img", "-", "/stream"], Stdio::piped());
    // Closing stdin would end the stream.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"data").unwrap();
    let is_read = || rustix::io::ioctl_fionread(&stdin).unwrap() == 0;
    wait::until_true("the stream is read", is_read);
    let said = interrupt(child);
    assert!(said.contains("interrupted"), "{said}");
    rig.fails(1, "no such file", &["stat", "disk.img", "/stream"]);
    rig.assert_clean();
}

#[test]
fn links_of_an_image_lead_nowhere_on_the_host() {
    if !skip::root_or_skip("links_of_an_image_lead_nowhere_on_the_host") {
        return;
    }
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("outside")).unwrap();
    std::fs::create_dir(rig.path("tree")).unwrap();
    let outside = rig.path("outside");
    rig.ok(&["mkdir", "disk.img", "/tree"]);
    rig.ok(&[
        "ln",
        "-s",
        "disk.img",
        outside.to_str().unwrap(),
        "/tree/link",
    ]);
    rig.ok(&["get", "-r", "disk.img", "/tree", "tree"]);
    assert!(rig.path("tree/tree/link").is_symlink());
    // A second entry with the same name, which only a hostile image contains.
    rig.ok(&["mkdir", "-p", "disk.img", "/evil/linj/x"]);
    rig.ok(&[
        "ln",
        "-s",
        "disk.img",
        outside.to_str().unwrap(),
        "/evil/link",
    ]);
    let mut image = bytes(&rig.image());
    for at in 0..image.len() - 4 {
        if &image[at..at + 4] == b"linj" {
            image[at..at + 4].copy_from_slice(b"link");
        }
    }
    std::fs::write(rig.image(), image).unwrap();
    let output = rig.run(&["get", "-r", "disk.img", "/evil", "evil"]);
    assert!(!output.status.success(), "damaged, or a name that exists");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

/// As `cp -a SRC/. DST` does.
#[test]
fn a_directory_that_is_there_gets_the_attributes_of_its_source() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let rig = Rig::new(&[]);
    rig.ok(&["mkdir", "disk.img", "/d"]);
    rig.ok(&["chmod", "700", "disk.img", "/d"]);
    for dest in ["one", "other"] {
        std::fs::create_dir(rig.path(dest)).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(rig.path(dest), mode).unwrap();
    }
    // An ordinary user gets a note about the owner.
    for (from, to) in [("/d/.", "one"), ("/d", "other")] {
        let output = rig.run(&["get", "-r", "disk.img", from, to]);
        assert!(output.status.success(), "{output:?}");
    }
    let mode = |path: &str| std::fs::metadata(rig.path(path)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("one"), mode("other"), mode("other/d")),
        (0o700, 0o755, 0o700)
    );
}

/// In a user namespace the list names a user that is not there: the kernel answers EINVAL.
#[test]
fn a_list_or_an_owner_that_is_refused_leaves_no_rights() {
    use std::os::unix::fs::MetadataExt;
    let run = |program: &str, args: &[&str], rig: &Rig| {
        let mut command = std::process::Command::new(program);
        command.args(args).current_dir(rig.path(".")).output()
    };
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("f"), "x").unwrap();
    let tool = env!("CARGO_BIN_EXE_uext4");
    let has =
        |done: std::io::Result<std::process::Output>| done.is_ok_and(|done| done.status.success());
    let prepared = has(run("chmod", &["600", "f"], &rig))
        && has(run("setfacl", &["-m", "u:1000:rwx", "f"], &rig))
        && has(run("unshare", &["-Ur", "true"], &rig));
    if !uext4_testkit::skip::can_or_skip("a refused list", prepared, "setfacl, unshare -U") {
        return;
    }
    rig.ok(&["put", "disk.img", "f", "/f"]);
    let copied = run(
        "unshare",
        &["-Ur", tool, "get", "disk.img", "/f", "out"],
        &rig,
    );
    let copied = copied.unwrap();
    let mode = std::fs::metadata(rig.path("out")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o600, "{copied:?}");
    // A program that gives the rights of that user must not give those of another one.
    let prepared = has(run("setfacl", &["-b", "f"], &rig))
        && has(run("chown", &["5000:5000", "f"], &rig))
        && has(run("chmod", &["6755", "f"], &rig));
    if !uext4_testkit::skip::can_or_skip("a refused owner", prepared, "root") {
        return;
    }
    rig.ok(&["put", "disk.img", "f", "/program"]);
    let args = ["-Ur", tool, "get", "disk.img", "/program", "program"];
    let copied = run("unshare", &args, &rig).unwrap();
    let mode = std::fs::metadata(rig.path("program")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o755, "{copied:?}");
}
