//! Mounts with a damaged image or a failing device: each request is answered with the right error
//! until the unmount, which reports the damage.

use crate::rig::Rig;
use std::fs;
use std::process::{Command, Output};
use uext4_testkit::oracle;
use uext4_testkit::skip;

/// Time limit in seconds; a command that takes longer hangs.
const HANGS_SECONDS: &str = "60";

/// Runs a shell script in the rig's directory, with the time limit.
fn sh(rig: &Rig, script: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", HANGS_SECONDS, "sh", "-c", script]);
    let output = command.current_dir(rig.path("")).env("LC_ALL", "C");
    let output = output.output().expect("timeout(1) starts");
    assert!(output.status.code().is_some(), "{script}: hangs");
    output
}

/// The script must fail with this message.
fn refused(rig: &Rig, word: &str, script: &str) {
    let output = sh(rig, script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(word),
        "{script}: {said:?}, not {word:?}"
    );
}

/// The script must succeed. Returns its output.
fn done(rig: &Rig, script: &str) -> String {
    let output = sh(rig, script);
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A background mount on `mnt`, unmounted on drop.
struct Mounted<'r>(&'r Rig);

impl<'r> Mounted<'r> {
    fn new(rig: &'r Rig, image: &str, options: &str) -> Option<Self> {
        if !skip::fuse_or_skip("bad_days") {
            return None;
        }
        fs::create_dir(rig.path("mnt")).unwrap();
        rig.ok(&["mount", "-o", options, image, "mnt"]);
        Some(Self(rig))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.0.run(&["umount", "--lazy", "mnt"]);
    }
}

/// Destroys the only block of `/dir`.
fn damage_dir(rig: &Rig) {
    rig.ok(&["mkdir", "-p", "disk.img", "/dir/sub"]);
    let block = rig.debugfs("bmap /dir 0");
    let block: u64 = block.split_whitespace().last().unwrap().parse().unwrap();
    let image = fs::File::options().write(true).open(rig.image()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, &[0x55; 1024], block * 1024).unwrap();
}

#[test]
fn damage_is_answered_as_the_option_says_and_recorded() {
    for (option, goes_on) in [("errors=continue", true), ("errors=remount-ro", false)] {
        let rig = Rig::new(&[]);
        fs::write(rig.path("src"), "data").unwrap();
        rig.ok(&["put", "disk.img", "src", "/file"]);
        damage_dir(&rig);
        let Some(_mounted) = Mounted::new(&rig, "disk.img", option) else {
            return;
        };
        done(&rig, "touch mnt/before");
        refused(&rig, "Structure needs cleaning", "ls mnt/dir");
        assert_eq!(done(&rig, "cat mnt/file"), "data");
        if goes_on {
            done(&rig, "echo late > mnt/late");
            let unmounted = rig.run(&["umount", "mnt"]);
            let said = String::from_utf8_lossy(&unmounted.stderr).into_owned();
            let is_told = said.contains("errors are recorded") && said.contains("directory leaf");
            assert!(unmounted.status.success() && is_told, "{said}");
            assert_eq!(rig.ok(&["cat", "disk.img", "/late"]), "late\n");
        } else {
            refused(&rig, "Read-only file system", "touch mnt/late");
            rig.fails(1, "directory leaf", &["umount", "mnt"]);
        }
        let told = rig.json(&["info", "--json", "disk.img"]);
        assert!(told["errors"].as_u64() > Some(0), "{option}: {told}");
        let header = done(&rig, "dumpe2fs -h disk.img 2>&1");
        assert!(header.contains("with errors"), "{option}: {header}");
        // Changes made before the damage was found are in the image.
        assert!(rig.ok(&["ls", "disk.img"]).contains("before"), "{option}");
        sh(&rig, "e2fsck -fy disk.img");
        rig.assert_clean();
    }
}

/// A superblock may request errors=panic; as a mount option it is refused.
#[test]
fn damage_stops_writing_where_the_machine_should_panic() {
    const SAID: &str = "a server does not bring its machine down";
    let rig = Rig::new(&[]);
    damage_dir(&rig);
    done(&rig, "tune2fs -e panic disk.img");
    let Some(mounted) = Mounted::new(&rig, "disk.img", "errors=continue") else {
        return;
    };
    rig.ok(&["umount", "mnt"]);
    for (options, refused) in [
        ("rw", false),
        ("errors=continue", false),
        ("errors=panic", true),
    ] {
        let output = rig.run(&["mount", "-o", options, "disk.img", "mnt"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let sentences = usize::from(options != "errors=continue");
        assert_eq!(said.matches(SAID).count(), sentences, "{options}: {said}");
        assert_eq!(output.status.success(), !refused, "{options}: {said}");
        if options == "errors=continue" {
            rig.umounts_with_errors();
        }
        if options == "rw" {
            done(&rig, "touch mnt/before");
            self::refused(&rig, "Structure needs cleaning", "ls mnt/dir");
            self::refused(&rig, "Read-only file system", "touch mnt/late");
            rig.fails(1, "directory leaf", &["umount", "mnt"]);
            assert!(rig.ok(&["ls", "disk.img"]).contains("before"));
        }
    }
    drop(mounted);
}

#[test]
fn images_of_strangers_are_looked_over_first() {
    let rig = Rig::new(&[]);
    fs::write(rig.path("src"), "data").unwrap();
    rig.ok(&["put", "disk.img", "src", "/file"]);
    assert!(rig.ok(&["check", "disk.img"]).starts_with("sound"));
    {
        let Some(_mounted) = Mounted::new(&rig, "disk.img", "untrusted") else {
            return;
        };
        assert_eq!(done(&rig, "cat mnt/file"), "data");
        refused(&rig, "Read-only file system", "touch mnt/new");
        let stats = rig.json(&["stats", "--json", "mnt"]);
        let limits = format!("/proc/{}/limits", stats["server"]["pid"]);
        let limits = fs::read_to_string(limits).unwrap();
        let limit = limits
            .lines()
            .find(|line| line.starts_with("Max address space"));
        assert!(
            limit.is_some_and(|line| !line.contains("unlimited")),
            "{limits}"
        );
        rig.ok(&["umount", "mnt"]);
    }
    damage_dir(&rig);
    rig.fails(4, "directory", &["check", "disk.img"]);
    let output = rig.run(&["check", "--json", "disk.img"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &told["findings"][0];
    assert!(
        first["byte"].as_u64() > Some(0) && first["what"].is_string(),
        "{told}"
    );
    assert_eq!(told["clean"], false);
    for options in ["untrusted", "untrusted,rw"] {
        rig.fails(
            4,
            "uext4 fsck",
            &["mount", "-o", options, "disk.img", "mnt"],
        );
    }
    rig.fails(1, "memory", &["check", "--memory", "1K", "disk.img"]);
}

#[test]
fn an_image_that_keeps_a_server_busy_is_answered() {
    let rig = Rig::new(&["-O", "^dir_index"]);
    fs::create_dir(rig.path("names")).unwrap();
    for nr in 0..1500 {
        fs::write(rig.path(&format!("names/{nr:0200}")), "").unwrap();
    }
    rig.ok(&["put", "-r", "disk.img", "names", "/names"]);
    fs::write(rig.path("src"), "data").unwrap();
    rig.ok(&["put", "disk.img", "src", "/file"]);
    for (options, bound) in [
        ("untrusted", false),
        ("untrusted,operation_bytes=100000", true),
        ("untrusted,rw,operation_bytes=100000", true),
    ] {
        let Some(_mounted) = Mounted::new(&rig, "disk.img", options) else {
            return;
        };
        let said = if bound {
            "Structure needs cleaning"
        } else {
            "No such file"
        };
        for _ in 0..3 {
            refused(&rig, said, "stat mnt/names/absent");
            assert_eq!(done(&rig, "cat mnt/file"), "data");
        }
        assert!(rig.run(&["umount", "mnt"]).status.success());
        fs::remove_dir(rig.path("mnt")).unwrap();
    }
    // On a writable mount the limit is recorded like damage.
    let told = done(&rig, "dumpe2fs -h disk.img 2>&1");
    assert!(told.contains("FS Error count"), "{told}");
    sh(&rig, "e2fsck -fy disk.img");
    rig.assert_clean();
}

/// A tmpfs of 20 MiB on `host`.
struct Host<'r>(&'r Rig);

impl<'r> Host<'r> {
    fn new(rig: &'r Rig) -> Option<Self> {
        fs::create_dir(rig.path("host")).unwrap();
        if sh(rig, "mount -t tmpfs -o size=20m tmpfs host")
            .status
            .success()
        {
            return Some(Self(rig));
        }
        skip::can_or_skip("a small host", false, "root");
        None
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        sh(self.0, "umount -l host");
    }
}

#[test]
fn a_full_host_stops_writing_and_loses_no_promise() {
    let rig = Rig::empty();
    let Some(_host) = Host::new(&rig) else {
        return;
    };
    rig.ok(&["mkfs", "host/disk.img", "--size", "200M", "-q"]);
    let Some(_mounted) = Mounted::new(&rig, "host/disk.img", "noatime") else {
        return;
    };
    done(&rig, "echo promised > mnt/promised; sync mnt/promised");
    let fill = "dd if=/dev/urandom of=mnt/big bs=1M count=40 conv=fsync";
    refused(&rig, "No space left on device", fill);
    // With the host full, a journal write fails eventually.
    let provoke = "for nr in $(seq 5000); do echo x > mnt/$nr || exit 1; sync mnt/$nr; done";
    refused(&rig, "Read-only file system", provoke);
    refused(&rig, "Read-only file system", "touch mnt/late");
    assert_eq!(done(&rig, "cat mnt/promised"), "promised\n");
    done(&rig, "ls -l mnt; stat -f mnt");
    rig.fails(1, "No space left on device", &["umount", "mnt"]);
    // A copy on a file system with free space recovers.
    done(&rig, "cp --sparse=always host/disk.img disk.img");
    rig.ok(&["replay", "disk.img"]);
    rig.assert_clean();
    assert_eq!(rig.ok(&["cat", "disk.img", "/promised"]), "promised\n");
}

#[test]
fn a_truncated_image_answers_with_errors_until_it_is_taken_off() {
    let rig = Rig::new(&[]);
    let Some(_mounted) = Mounted::new(&rig, "disk.img", "noatime") else {
        return;
    };
    done(
        &rig,
        "dd if=/dev/urandom of=mnt/big bs=1M count=20 conv=fsync",
    );
    fs::File::options()
        .write(true)
        .open(rig.image())
        .unwrap()
        .set_len(4 << 20)
        .unwrap();
    // Drops the kernel's cached pages of the file.
    let big = fs::File::open(rig.path("mnt/big")).unwrap();
    rustix::fs::fadvise(&big, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    drop(big);
    refused(&rig, "Input/output error", "cat mnt/big > /dev/null");
    done(&rig, "ls mnt; stat -f mnt");
    sh(&rig, "umount mnt; true");
    assert!(done(&rig, "ls mnt").is_empty());
}

#[test]
fn an_image_without_a_name_is_served_to_the_end() {
    let rig = Rig::new(&[]);
    let Some(_mounted) = Mounted::new(&rig, "disk.img", "noatime") else {
        return;
    };
    fs::hard_link(rig.image(), rig.path("other.img")).unwrap();
    fs::remove_file(rig.image()).unwrap();
    done(&rig, "echo data > mnt/file; sync mnt/file");
    rig.ok(&["umount", "mnt"]);
    assert_eq!(rig.ok(&["cat", "other.img", "/file"]), "data\n");
    oracle::assert_clean(&rig.path("other.img"));
}
