//! Mounts made by `mount(8)` and by service managers.

use crate::rig::Rig;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use uext4_testkit::skip;

fn can_mount() -> bool {
    let can = skip::opens("/dev/fuse") && skip::may_mount();
    skip::can_or_skip("mount(8)", can, "root and /dev/fuse")
}

/// Runs the helper `mount.fuse.uext4` as `mount(8)` does.
fn helper(rig: &Rig, args: &[&str]) -> Output {
    let link = rig.path("mount.fuse.uext4");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_uext4"), &link).unwrap();
    }
    let mut command = Command::new(link);
    command.args(args).current_dir(rig.path(""));
    command.output().unwrap()
}

#[test]
fn it_is_a_helper_of_mount() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    fs::create_dir(rig.path("mnt")).unwrap();
    let (image, dir) = (rig.image(), rig.path("mnt"));
    let (image, dir) = (image.to_str().unwrap(), dir.to_str().unwrap());
    let options = "rw,nosuid,dev,nofail,_netdev,noauto,x-systemd.automount,offset=0";
    let args = [image, dir, "-n", "-o", options, "-t", "fuse.uext4"];
    let mounted = helper(&rig, &args);
    assert!(mounted.status.success(), "{mounted:?}");
    fs::write(rig.path("mnt/file"), "data").unwrap();
    let changed = helper(&rig, &[image, dir, "-o", "remount,ro,user_id=0,group_id=0"]);
    let refused = fs::write(rig.path("mnt/late"), "");
    rig.ok(&["umount", "mnt"]);
    assert!(changed.status.success(), "{changed:?}");
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(30));
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "data");
    let fake = helper(&rig, &[image, dir, "-f", "-o", "rw"]);
    assert!(fake.status.success() && fs::read_dir(dir).unwrap().count() == 0);
    let none = helper(&rig, &["/none", dir, "-o", "rw"]);
    assert_eq!(none.status.code(), Some(32), "{none:?}");
}

#[test]
fn mount_fuse_runs_it() {
    if !can_mount() || !Path::new("/sbin/mount.fuse3").exists() {
        return;
    }
    let rig = Rig::new(&[]);
    fs::create_dir(rig.path("mnt")).unwrap();
    let tools = Path::new(env!("CARGO_BIN_EXE_uext4")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let mut command = Command::new("/sbin/mount.fuse3");
    command.arg(rig.image()).arg(rig.path("mnt"));
    command.args(["-t", "fuse.uext4", "-o", "ro,noatime"]);
    let mounted = command.env("PATH", path).output().unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table
        .lines()
        .find(|line| line.contains(rig.path("mnt").to_str().unwrap()));
    let line = line.expect("it is mounted").to_owned();
    rig.ok(&["umount", "mnt"]);
    assert!(line.contains("fuse.uext4 ro,noatime"), "{line}");
}

#[test]
fn a_service_manager_hears_that_it_is_ready() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new(&[]);
    fs::create_dir(rig.path("mnt")).unwrap();
    let socket = UnixDatagram::bind(rig.path("notify")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
    command.args(["mount", "--foreground", "disk.img", "mnt"]);
    command.env("NOTIFY_SOCKET", rig.path("notify"));
    command.stderr(std::process::Stdio::null());
    let mut server = command.current_dir(rig.path("")).spawn().unwrap();
    let mut said = [0; 500];
    let len = socket.recv(&mut said).expect("it says something");
    let said = String::from_utf8_lossy(&said[..len]).into_owned();
    assert!(said.starts_with("READY=1\n"), "{said}");
    assert!(
        said.contains(&format!("MAINPID={}\n", server.id())),
        "{said}"
    );
    // The mount is usable at once.
    fs::write(rig.path("mnt/file"), "data").unwrap();
    // A service manager stops it by SIGTERM.
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "data");
}
