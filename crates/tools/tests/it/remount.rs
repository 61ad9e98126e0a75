//! Freeze, thaw and remount of running mounts; each image is checked while mounted.

use crate::rig::Rig;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use uext4_fuse::{Ask, Client};
use uext4_testkit::rings::RingsSwitch;

/// Number of blocked requests; more than the server has threads.
const WAITING: usize = 40;

/// A mount, unmounted on drop.
struct Mounted<'r> {
    rig: &'r Rig,
    dir: PathBuf,
}

impl<'r> Mounted<'r> {
    fn new(rig: &'r Rig, options: &str) -> Self {
        let dir = rig.path("mnt");
        let _ = fs::create_dir(&dir);
        rig.ok(&["mount", "-o", options, "disk.img", "mnt"]);
        Self { rig, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn unmount(self) {
        self.rig.ok(&["umount", "mnt"]);
        std::mem::forget(self);
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        self.rig.run(&["thaw", "mnt"]);
        self.rig.run(&["umount", "--lazy", "mnt"]);
    }
}

fn can_mount() -> bool {
    uext4_testkit::skip::fuse_or_skip("remount")
}

fn flags(dir: &Path) -> String {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table
        .lines()
        .find(|line| line.contains(dir.to_str().unwrap()));
    line.expect("it is mounted")
        .split(' ')
        .nth(3)
        .unwrap()
        .to_owned()
}

#[test]
fn read_only_and_read_write_again() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    let mount = Mounted::new(&rig, "noatime,nosuid");
    fs::write(mount.path("file"), "first").unwrap();
    let open = fs::File::options().write(true).open(mount.path("file"));
    rig.fails(5, "in use", &["remount", "mnt", "-o", "ro"]);
    drop(open);
    fs::write(mount.path("other"), "not synced by anybody").unwrap();
    rig.ok(&["remount", "mnt", "-o", "ro"]);
    rig.assert_clean();
    assert!(
        flags(&mount.dir).starts_with("ro,nosuid,"),
        "{}",
        flags(&mount.dir)
    );
    let refused = fs::write(mount.path("late"), "");
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(30));
    assert_eq!(
        rig.ok(&["cat", "disk.img", "/other"]),
        "not synced by anybody"
    );
    rig.fails(
        1,
        "data= cannot change",
        &["remount", "mnt", "-o", "data=writeback"],
    );
    rig.fails(2, "bogus", &["remount", "mnt", "-o", "bogus"]);
    rig.ok(&["remount", "mnt", "-o", "rw,commit=30"]);
    assert!(
        flags(&mount.dir).starts_with("rw,nosuid,"),
        "{}",
        flags(&mount.dir)
    );
    fs::write(mount.path("late"), "after").unwrap();
    mount.unmount();
    assert_eq!(rig.ok(&["cat", "disk.img", "/late"]), "after");
    rig.assert_clean();
}

#[test]
fn mounted_read_only_it_becomes_writable() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    let mount = Mounted::new(&rig, "ro");
    assert!(fs::write(mount.path("file"), "").is_err());
    rig.ok(&["remount", "mnt", "-o", "rw"]);
    fs::write(mount.path("file"), "now").unwrap();
    rig.fails(5, "in use", &["mkdir", "disk.img", "/x"]);
    mount.unmount();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "now");
    rig.assert_clean();
}

fn touch(path: &Path) -> Child {
    Command::new("touch")
        .arg(path)
        .spawn()
        .expect("touch starts")
}

#[test]
fn a_frozen_mount_is_clean_and_readable() {
    if !can_mount() {
        return;
    }
    let rings = RingsSwitch::is_available().then(|| RingsSwitch::on().expect("it is available"));
    let over_rings = rings.as_ref().map(|_| "noatime,io_uring");
    for options in [Some("noatime,no_io_uring"), over_rings]
        .into_iter()
        .flatten()
    {
        let rig = Rig::new(&[]);
        let mount = Mounted::new(&rig, options);
        fs::write(mount.path("file"), vec![7; 300_000]).unwrap();
        // The kernel holds the directory's lock while a change waits.
        fs::create_dir(mount.path("dir")).unwrap();
        rig.ok(&["freeze", "mnt"]);
        rig.assert_clean();
        rig.fails(5, "is frozen", &["freeze", "mnt"]);
        let before = crate::rig::bytes(&rig.image());
        let mut waiting: Vec<Child> = (0..WAITING)
            .map(|nr| touch(&mount.path(&format!("dir/new {nr}"))))
            .collect();
        for _ in 0..20 {
            assert_eq!(fs::read(mount.path("file")).unwrap().len(), 300_000);
            assert_eq!(fs::read_dir(&mount.dir).unwrap().count(), 3);
            assert!(!mount.path("absent").exists());
        }
        rig.ok(&["ls", "disk.img", "/"]);
        assert!(
            waiting
                .iter_mut()
                .all(|child| child.try_wait().unwrap().is_none())
        );
        assert!(
            crate::rig::bytes(&rig.image()) == before,
            "frozen, and written"
        );
        rig.ok(&["thaw", "mnt"]);
        for mut child in waiting {
            assert!(child.wait().unwrap().success());
        }
        rig.fails(1, "not frozen", &["thaw", "mnt"]);
        let made = fs::read_dir(mount.path("dir")).unwrap();
        assert_eq!(made.count(), WAITING);
        mount.unmount();
        rig.assert_clean();
    }
}

#[test]
fn a_frozen_mount_can_be_taken_off() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    let mount = Mounted::new(&rig, "noatime");
    fs::write(mount.path("file"), "data").unwrap();
    rig.ok(&["freeze", "mnt"]);
    mount.unmount();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "data");
    rig.assert_clean();
    rig.fails(1, "not a mount point", &["freeze", "mnt"]);
}

fn preallocated(dir: &Path) -> u64 {
    let ask = Ask::Get {
        names: vec!["mb_preallocated".into()],
    };
    let answer = Client::connect(dir).unwrap().ask(&ask).unwrap();
    answer["mb_preallocated"].as_u64().expect("a number")
}

#[test]
fn the_last_writer_gives_back_what_is_held_for_the_file() {
    use std::io::Write;
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    let mount = Mounted::new(&rig, "noatime");
    let before = preallocated(&mount.dir);
    let mut file = fs::File::create(mount.path("file")).unwrap();
    let reader = fs::File::open(mount.path("file")).unwrap();
    for _ in 0..10 {
        file.write_all(&[7; 100_000]).unwrap();
        file.sync_all().unwrap();
    }
    let held = preallocated(&mount.dir);
    assert!(held > before, "nothing is held ahead: {before}, {held}");
    drop(file);
    // The kernel sends RELEASE asynchronously. The reader stays open.
    while preallocated(&mount.dir) >= held {
        std::thread::yield_now();
    }
    drop(reader);
    mount.unmount();
    rig.assert_clean();
}
