//! Location and ownership of images: partitions, external journals, unprivileged users.

use crate::damage::crashed;
use crate::rig::{Rig, bytes};
use crate::room::{self, OURS, can_mount, in_room, rig_of};
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use uext4_testkit::oracle;
use uext4_testkit::skip;

/// Partitions a disk of 200 MiB by an sfdisk script; false without sfdisk.
pub(crate) fn partitioned(rig: &Rig, label: &str, script: &str) -> bool {
    let disk = fs::File::create(rig.path("disk.img")).unwrap();
    disk.set_len(200 << 20).unwrap();
    let mut command = Command::new("sfdisk");
    command.args(["--quiet", "--label", label, "--no-tell-kernel"]);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let piped = command.arg(rig.image()).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = piped else {
        return skip::can_or_skip("partition tables", false, "sfdisk");
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success(), "sfdisk takes {script}");
    true
}

/// Copies a part of the image into a file and checks it by e2fsck.
pub(crate) fn judge(rig: &Rig, start_sectors: u64, len_sectors: u64) {
    let (image, part) = (rig.image(), rig.path("part.img"));
    let mut command = Command::new("dd");
    command.arg(format!("if={}", image.display()));
    command.arg(format!("of={}", part.display()));
    command.args(["bs=512", "conv=sparse", "status=none"]);
    command.arg(format!("skip={start_sectors}"));
    command.arg(format!("count={len_sectors}"));
    assert!(command.status().unwrap().success());
    oracle::assert_clean(&part);
    let found = oracle::debugfs_one(&part, "cat /greeting").unwrap();
    assert!(found.contains("hello"), "{found}");
    fs::remove_file(part).unwrap();
}

/// Earlier releases grew one over the end of its partition.
#[test]
fn a_file_system_behind_the_end_of_its_partition_is_only_made_smaller() {
    let rig = Rig::empty();
    if !partitioned(&rig, "dos", "2048,65536,L\n") {
        return;
    }
    let start = ["--offset", "1M"];
    let run = |args: &[&str]| rig.ok(&[args, &start].concat());
    rig.ok(&["mkfs", "-q", "large.img", "--size", "64M"]);
    fs::write(rig.path("greeting"), "hello").unwrap();
    rig.ok(&["put", "large.img", "greeting", "/greeting"]);
    let large = bytes(&rig.path("large.img"));
    let disk = fs::File::options().write(true).open(rig.image()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&disk, &large, 1 << 20).unwrap();
    drop(disk);
    run(&["check", "disk.img"]);
    let cat = ["cat", "disk.img", "/greeting", "--offset", "1M"];
    rig.fails(3, "the superblock says", &cat);
    let tune = ["tune", "disk.img", "-L", "x", "--offset", "1M"];
    rig.fails(3, "the superblock says", &tune);
    run(&["resize", "disk.img", "30M"]);
    assert_eq!(rig.ok(&cat), "hello");
    judge(&rig, 2048, 65536);
    rig.fails(
        1,
        "partition 1",
        &["resize", "disk.img", "40M", "--offset", "1M"],
    );
}

/// The log would write to the next partition.
#[test]
fn a_log_of_a_file_system_that_reaches_over_its_partition_is_not_replayed() {
    if !skip::root_or_skip("a_log_of_a_file_system_that_reaches_over_its_partition") {
        return;
    }
    let rig = Rig::empty();
    if !partitioned(&rig, "dos", "2048,65536,L\n67584,65536,L\n") {
        return;
    }
    let large = bytes(&crashed().image());
    let disk = fs::File::options().write(true).open(rig.image()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&disk, &large, 1 << 20).unwrap();
    drop(disk);
    let before = bytes(&rig.image());
    let shrink = ["resize", "disk.img", "30M", "--offset", "1M"];
    let dry_run = [&shrink[..], &["-n"]].concat();
    rig.fails(1, "bound of partition 1", &shrink);
    rig.fails(1, "bound of partition 1", &dry_run);
    assert!(bytes(&rig.image()) == before, "written");
}

#[test]
fn file_systems_in_partitions_are_found_by_number() {
    let mbr = "2048,65536,L\n67584,65536,L\n133120,,E\n135168,65536,L\n";
    let gpt = "2048,65536\n67584,65536\n133120,65536\n";
    for (label, script, number, start) in [
        ("dos", mbr, "2", 67584),
        ("dos", mbr, "5", 135_168),
        ("gpt", gpt, "1", 2048),
        ("gpt", gpt, "3", 133_120),
    ] {
        let rig = Rig::empty();
        if !partitioned(&rig, label, script) {
            return;
        }
        let part = ["--partition", number];
        let run = |args: &[&str]| rig.ok(&[args, &part].concat());
        run(&["mkfs", "disk.img", "-q"]);
        fs::write(rig.path("src"), "hello").unwrap();
        run(&["put", "disk.img", "src", "/greeting"]);
        assert_eq!(run(&["cat", "disk.img", "/greeting"]), "hello");
        assert!(run(&["info", "disk.img"]).contains("32 MiB"));
        judge(&rig, start, 65536);
        rig.fails(3, "no partition 9", &["ls", "disk.img", "--partition", "9"]);
        rig.fails(3, "--partition", &["ls", "disk.img"]);
    }
}

#[test]
fn a_journal_on_another_device_is_named() {
    let rig = Rig::empty();
    let (log, other) = (rig.path("log.img"), rig.path("other.img"));
    for path in [&log, &other] {
        oracle::mke2fs(path, 16 << 20, &["-b", "4096", "-O", "journal_dev"]).expect("mke2fs");
    }
    let header = Command::new("dumpe2fs").arg(&log).output().unwrap().stdout;
    let header = String::from_utf8_lossy(&header).into_owned();
    let uuid = header.lines().find(|line| line.contains("UUID:")).unwrap();
    let uuid = uuid.split_whitespace().last().unwrap();
    oracle::mke2fs(
        &rig.image(),
        64 << 20,
        &["-b", "4096", "-O", "^has_journal"],
    )
    .unwrap();
    // mke2fs accepts only block devices as journals, so debugfs writes the same fields.
    let bytes: String = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    let mut script = String::from("feature has_journal\nset_super_value journal_dev 0x800\n");
    script.push_str(&format!("set_super_value journal_uuid {uuid}\n"));
    assert_eq!(bytes.len(), 32);
    fs::write(rig.path("script"), script).unwrap();
    let mut debugfs = Command::new("debugfs");
    debugfs
        .args(["-w", "-f"])
        .arg(rig.path("script"))
        .arg(rig.image());
    assert!(debugfs.output().unwrap().status.success());
    let named = ["--journal-path", "log.img"];
    rig.ok(&[&["mkdir", "disk.img", "/dir"], &named[..]].concat());
    assert!(
        rig.ok(&[&["ls", "disk.img"], &named[..]].concat())
            .contains("dir")
    );
    rig.fails(3, "journal_path", &["ls", "disk.img"]);
    rig.fails(
        3,
        "its UUID is",
        &["ls", "disk.img", "--journal-path", "other.img"],
    );
    rig.fails(
        3,
        "external journal none",
        &["ls", "disk.img", "--journal-path", "none"],
    );
    rig.fails(
        2,
        "--journal-path",
        &["info", "disk.img", "--journal-path", "log.img"],
    );
}

/// `nobody` of Debian.
const UNPRIVILEGED: u32 = 65534;

/// Runs the tool as an unprivileged user that gets the rig's directory.
fn as_unprivileged(rig: &Rig, args: &[&str]) -> Output {
    let tool = env!("CARGO_BIN_EXE_uext4");
    let mut command = if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(rig.path(""), Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", tool]);
        command
    } else {
        Command::new(tool)
    };
    command.env_remove("XDG_RUNTIME_DIR");
    command
        .current_dir(rig.path(""))
        .args(args)
        .output()
        .unwrap()
}

fn unprivileged_can(rig: &Rig, args: &[&str]) -> String {
    let output = as_unprivileged(rig, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn users_work_on_images_of_their_own() {
    let rig = Rig::empty();
    let make = ["mkfs", "disk.img", "--size", "64M", "-q"];
    unprivileged_can(&rig, &make);
    fs::write(rig.path("src"), "mine").unwrap();
    unprivileged_can(&rig, &["put", "disk.img", "src", "/file"]);
    unprivileged_can(&rig, &["get", "disk.img", "/file", "back"]);
    assert_eq!(fs::read_to_string(rig.path("back")).unwrap(), "mine");
    rig.assert_clean();
    if rustix::process::geteuid().is_root() {
        fs::write(rig.path("theirs.img"), fs::read(rig.image()).unwrap()).unwrap();
        let denied = as_unprivileged(&rig, &["mkdir", "theirs.img", "/x"]);
        assert_eq!(denied.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&denied.stderr).contains("Permission denied"));
    }
}

#[test]
fn users_mount_through_fusermount() {
    if !can_mount() {
        return;
    }
    let rig = rig_of(room::UNPRIVILEGED);
    let script = r#""$TOOL" mount -o noatime disk.img mnt; how; grep user_id=65534 /proc/self/mounts
        echo mine >mnt/file; "$TOOL" info mnt; "$TOOL" remount -o ro mnt; "$TOOL" umount mnt"#;
    let said = in_room(&rig, OURS, room::UNPRIVILEGED, script);
    for word in ["fuse.uext4", "nosuid", "nodev", "user_id=65534", "noatime"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "mine\n");
}

#[test]
fn messages_say_what_where_and_what_to_do() {
    let rig = Rig::new(&[]);
    for dir in ["dir", "mnt", "dir/lost+found"] {
        fs::create_dir(rig.path(dir)).unwrap();
    }
    fs::write(rig.path("file"), "text").unwrap();
    rig.ok(&["put", "disk.img", "file", "/file"]);
    let image = fs::read(rig.image()).unwrap();
    fs::write(rig.path("zero.img"), vec![0; 1 << 20]).unwrap();
    fs::write(rig.path("short.img"), &image[..3 << 20]).unwrap();
    let mut damaged = image[..4096].to_vec();
    damaged[1024 + 0x68] ^= 1;
    let (covered, stored) = damaged[1024..2048].split_last_chunk::<4>().unwrap();
    let bad: &str = &format!(
        "bad.img: damaged file system: superblock: checksum does not match (stored {:#x}, \
         computed {:#x}); run `uext4 fsck` on the image",
        u32::from_le_bytes(*stored),
        uext4_format::crc32c(!0, covered)
    );
    fs::write(rig.path("bad.img"), &damaged).unwrap();
    let zero = "zero.img holds no ext4 file system (no magic at byte 1024); \
                it begins with zeroes only; `uext4 mkfs` makes a file system";
    let short = "short.img: the superblock says 67108864 bytes, short.img has 3145728";
    let none = "none.img: No such file or directory";
    let root = "disk.img:/: it has no name of its own, so it can neither be removed nor moved";
    let dir = "dir: Is a directory; an image is a file or a block device";
    for (status, says, args) in [
        (4, bad, "info bad.img"),
        (4, bad, "ls bad.img"),
        (4, bad, "mount bad.img mnt"),
        (3, zero, "info zero.img"),
        (3, zero, "cat zero.img /x"),
        (3, zero, "mount zero.img mnt"),
        (3, short, "ls short.img"),
        (3, short, "mount short.img mnt"),
        (1, none, "info none.img"),
        (1, none, "mount none.img mnt"),
        (1, dir, "mount dir mnt"),
        (1, dir, "mkfs dir --size 9M"),
        (
            1,
            "none: no such directory; make it first",
            "mount disk.img none",
        ),
        (
            1,
            "mount on disk.img: not a directory",
            "mount disk.img disk.img",
        ),
        (
            2,
            "-o bogus: there is no option of this name; `uext4 mount --help` lists them",
            "mount -o ro,bogus disk.img mnt",
        ),
        (2, "-o commit=x: not a number", "remount mnt -o commit=x"),
        (
            3,
            "disk.img at byte 5 holds no ext4 file system (no magic at byte 1024); \
             on a whole disk --partition or --offset finds it",
            "ls disk.img --offset 5",
        ),
        (
            1,
            "disk.img:/none: no such file or directory",
            "ln disk.img /none /new",
        ),
        (
            1,
            "disk.img:/lost+found: is a directory; only -s gives it another name",
            "ln disk.img /lost+found /new",
        ),
        (2, root, "rm -r disk.img /"),
        (2, root, "mv disk.img / /new"),
        (
            2,
            "new.img: a block size is a power of two from 1024 to 65536",
            "mkfs new.img --size 9M -b 3000",
        ),
        (
            2,
            "disk.img: nothing to change; -h lists what can be",
            "tune disk.img",
        ),
        (
            1,
            "dir/lost+found: File exists",
            "get -r disk.img /lost+found dir",
        ),
        (
            1,
            "disk.img:/none: no such file or directory",
            "cat disk.img /none",
        ),
        (
            1,
            "disk.img:/none/new: /none: no such file or directory",
            "mv disk.img /file /none/new",
        ),
        (
            1,
            "disk.img:/file/x: /file: not a directory",
            "ls disk.img /file/x",
        ),
        (2, "none/..: a name is needed", "get -r disk.img / none/.."),
        (
            2,
            "disk.img:/x/..: a name is needed",
            "put disk.img file /x/..",
        ),
        (
            2,
            "-o usrquota,writeback: writeback: limits of quota need writethrough",
            "mount -o usrquota,writeback disk.img mnt",
        ),
        (
            2,
            "disk.img: byte 104857600 is past the end, which is at byte 67108864",
            "ls disk.img --offset 100M",
        ),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let output = rig.run(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, format!("uext4: {says}\n"), "{args:?}");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    }
    // Commands that read images read mounts as well.
    let output = rig.run(&["ls", "dir"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("dir is not a mount point of uext4"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    for command in ["trim disk.img", "replay disk.img", "info disk.img"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut tool = Command::new(env!("CARGO_BIN_EXE_uext4"));
        let tool = tool.current_dir(rig.path(".")).args(command.split(' '));
        let output = tool.stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, "uext4: standard output: No space left on device\n");
        assert_eq!(output.status.code(), Some(1), "{command}");
    }
    let holder = uext4::device::FileDevice::open(rig.image(), uext4::device::Access::ReadWrite);
    rig.fails(5, "in use", &["mount", "disk.img", "mnt"]);
    drop(holder);
}
