//! `uext4 build --table`: disks of several partitions.

use crate::rig::{Rig, bytes};
use std::process::Stdio;
use uext4_testkit::oracle::{self, KernelMount, LoopDevice, Program};
use uext4_testkit::wait;

const TABLE: &str = "# A machine that starts by UEFI.
label: gpt
size=34M, type=U, name=\"esp\", content=\"esp.img\"
size=16M, type=swap
type=root-x86-64, name=\"root\", content=build
size=1M, name=\"data\"
";

/// Bytes of the first partition, of which 300 KB are no hole.
const ESP_BYTES: u64 = 33 << 20;

fn rig() -> Rig {
    let rig = Rig::empty();
    std::fs::create_dir_all(rig.path("tree/etc")).unwrap();
    std::fs::create_dir(rig.path("parts")).unwrap();
    std::fs::write(rig.path("tree/large"), vec![7; 3 << 20]).unwrap();
    std::fs::write(rig.path("tree/etc/fstab"), "none").unwrap();
    let mut esp = vec![0; ESP_BYTES as usize];
    for (nr, byte) in esp[1 << 20..(1 << 20) + 300_000].iter_mut().enumerate() {
        *byte = nr.to_le_bytes()[nr % 3] | 1;
    }
    std::fs::write(rig.path("parts/esp.img"), esp).unwrap();
    table(&rig, TABLE);
    rig
}

fn table(rig: &Rig, text: &str) {
    std::fs::write(rig.path("parts/table"), text).unwrap();
}

const FIXED: [&str; 5] = ["build", "disk.img", "tree", "--table", "parts/table"];

fn judge(rig: &Rig, name: &'static str, args: &[&str], file: &str) -> String {
    let program = Program::new(name).unwrap().args(args);
    program.arg(rig.path(file)).run_ok().unwrap().all()
}

/// Copies partition `nr` of a disk to a file of its own.
fn cut(rig: &Rig, made: &serde_json::Value, nr: usize) -> Vec<u8> {
    let number = |name: &str| made["partitions"][nr][name].as_u64().unwrap() as usize;
    let disk = bytes(&rig.image());
    disk[number("start_bytes")..][..number("size_bytes")].to_vec()
}

#[test]
fn a_disk_has_the_partitions_of_its_table() {
    let rig = rig();
    let made = rig.json(&[&FIXED[..], &["--json"]].concat());
    let said = judge(&rig, "sfdisk", &["--verify"], "disk.img");
    assert!(said.contains("No errors detected"), "{said}");
    let said = judge(&rig, "sgdisk", &["-v"], "disk.img");
    assert!(said.contains("No problems found"), "{said}");
    let said = judge(&rig, "sfdisk", &["--dump"], "disk.img");
    let own = &made["partitions"][2];
    let guid = own["guid"].as_str().unwrap().to_uppercase();
    assert!(
        said.contains(&guid) && said.contains("name=\"data\""),
        "{said}"
    );
    assert_eq!(made["partition"]["number"], 3);
    assert_eq!(made["partition"]["start_bytes"], own["start_bytes"]);
    assert!(cut(&rig, &made, 0).starts_with(&bytes(&rig.path("parts/esp.img"))));
    assert!(cut(&rig, &made, 1).iter().all(|byte| *byte == 0));
    std::fs::write(rig.path("root.img"), cut(&rig, &made, 2)).unwrap();
    oracle::assert_clean(&rig.path("root.img"));
    rig.ok(&["build", "plain.img", "tree", "-q"]);
    assert!(bytes(&rig.path("root.img")) == bytes(&rig.path("plain.img")));
    let third = ["disk.img", "--partition", "3"];
    assert!(
        rig.ok(&[&["ls"], &third[..], &["/etc"]].concat())
            .contains("fstab")
    );
    assert_eq!(
        rig.ok(&[&["cat"], &third[..], &["/etc/fstab"]].concat()),
        "none"
    );
    assert!(rig.ok(&[&["check"], &third[..]].concat()).contains("sound"));
    rig.ok(&[&["info"], &third[..]].concat());
    rig.fails(3, "", &["info", "disk.img", "--partition", "1"]);
    // The table of the disk makes the same disk, but for the contents.
    let dump = judge(&rig, "sfdisk", &["--dump"], "disk.img");
    let again = dump.replace("name=\"root\"", "name=\"root\", content=build");
    let again = again.replace("name=\"esp\"", "name=\"esp\", content=\"parts/esp.img\"");
    std::fs::write(rig.path("dump"), again).unwrap();
    rig.ok(&[
        "build",
        "again.img",
        "tree",
        "-q",
        "--table",
        "dump",
        "--size",
        "min",
    ]);
    assert!(bytes(&rig.path("again.img")) == bytes(&rig.image()));
}

#[test]
fn what_is_built_does_not_depend_on_the_output() {
    let rig = rig();
    rig.ok(&[&FIXED[..], &["-q"]].concat());
    let said = rig.ok(&["build", "again.img", "tree", "--table", "parts/table"]);
    assert!(bytes(&rig.path("again.img")) == bytes(&rig.image()));
    assert!(
        said.contains("Partition 1 at byte 1048576, GUID "),
        "{said}"
    );
    assert!(said.contains(", the file system\n"), "{said}");
    rig.ok(&["build", "a.qcow2", "tree", "-q", "--table", "parts/table"]);
    rig.ok(&[
        "build",
        "b.qcow2",
        "tree",
        "-q",
        "--table",
        "parts/table",
        "--threads",
        "1",
    ]);
    assert!(bytes(&rig.path("a.qcow2")) == bytes(&rig.path("b.qcow2")));
    judge(&rig, "qemu-img", &["check", "-q"], "a.qcow2");
    let image = rig.image().display().to_string();
    judge(&rig, "qemu-img", &["compare", &image], "a.qcow2");
    let piped = rig.run(&["build", "-", "tree", "--table", "parts/table"]);
    assert!(piped.status.success() && piped.stdout == bytes(&rig.image()));
}

/// With `size=` the partition has that size, and the file system is as long unless `--size` says
/// otherwise.
#[test]
fn the_size_of_the_partition_is_that_of_the_file_system() {
    let rig = rig();
    table(&rig, "label: gpt\ncontent=build, size=64M\nsize=1M");
    let made = rig.json(&[&FIXED[..], &["--json"]].concat());
    assert_eq!(
        (&made["size_bytes"], &made["partition"]["size_bytes"]),
        (&serde_json::json!(64 << 20), &serde_json::json!(64 << 20))
    );
    assert!(made["inodes"].as_u64().unwrap() > 1000, "those of mke2fs");
    let made = rig.json(&[&FIXED[..], &["--json", "-F", "--size", "min"]].concat());
    assert!(made["size_bytes"].as_u64().unwrap() < 8 << 20);
    assert_eq!(made["partition"]["size_bytes"], 64 << 20);
    let both = ["--json", "-F", "--verity", "append"];
    let made = rig.json(&[&FIXED[..], &both].concat());
    assert_eq!(made["partition"]["size_bytes"], 64 << 20);
    let root = made["verity"]["root_hash"].as_str().unwrap();
    std::fs::write(rig.path("root.img"), cut(&rig, &made, 0)).unwrap();
    let offset = format!("--hash-offset={}", made["verity"]["hash_offset_bytes"]);
    let program = Program::new("veritysetup").unwrap().arg("verify");
    let program = program.args([rig.path("root.img"), rig.path("root.img")]);
    program.args([root, &offset]).run_ok().unwrap();
    rig.fails(
        2,
        "--size: a file system of 65 MiB does not fit: there are 64 MiB",
        &[&FIXED[..], &["-F", "--size", "65M"]].concat(),
    );
    table(
        &rig,
        "label: gpt\nlast-lba: 99999\ncontent=build, size=+\nstart=40M",
    );
    rig.fails(
        2,
        "table:4: start: the partition overlaps with partition 1",
        &[&FIXED[..], &["-F"]].concat(),
    );
    table(
        &rig,
        "label: gpt\nlast-lba: 99999\nstart=40M\ncontent=build, size=+",
    );
    let made = rig.json(&[&FIXED[..], &["--json", "-F"]].concat());
    assert_eq!(
        (&made["size_bytes"], &made["disk_bytes"]),
        (
            &serde_json::json!(39 << 20),
            &serde_json::json!((99_999 + 34) * 512)
        )
    );
    table(&rig, "label: gpt\ncontent=build\nstart=3M, size=1M");
    rig.fails(
        1,
        "parts/table gives the file system 2 MiB",
        &[&FIXED[..], &["-F"]].concat(),
    );
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let rig = rig();
    let refused = |old: &str, new: &str, said: &str| {
        assert!(TABLE.contains(old), "{old}");
        table(&rig, &TABLE.replace(old, new));
        rig.fails(2, said, &FIXED);
        assert!(!rig.image().exists(), "{said}");
    };
    refused(
        "34M",
        "32M",
        "parts/table:3: content=parts/esp.img: the file has 34603008 bytes, and",
    );
    refused(
        "size=16M, ",
        "",
        "parts/table:4: size: without it the partition has all space",
    );
    refused(
        "type=swap",
        "type=82",
        "parts/table:4: type: \"82\" is not a type",
    );
    refused(
        "label: gpt",
        "label: sgi",
        "parts/table:2: label: \"sgi\" is not a kind of table",
    );
    refused(
        "content=build",
        "size=1M",
        "parts/table: content: 0 lines have content=build",
    );
    refused(
        "esp.img",
        "..",
        "parts/table:3: content=parts/..: it is no regular file",
    );
    table(
        &rig,
        "label: gpt\ncontent=build\ncontent=\"/proc/cpuinfo\", size=1M",
    );
    rig.fails(1, "the file changed while it was copied", &FIXED);
    table(&rig, &TABLE.replace("esp.img", "none"));
    let _ = std::fs::rename(rig.path("parts/esp.img"), rig.path("esp"));
    rig.fails(
        1,
        "parts/table:3: content=parts/none: cannot be read: No such file",
        &FIXED,
    );
    rig.fails(
        1,
        "none: cannot be read",
        &["build", "n.img", "tree", "--table", "none"],
    );
    table(&rig, TABLE);
    let own = ["build", "parts/table", "tree", "--table", "parts/table"];
    rig.fails(2, "parts/table: it is the file that is to be made", &own);
    assert_eq!(bytes(&rig.path("parts/table")), TABLE.as_bytes());
    table(&rig, "label: gpt\ncontent=build\ncontent=\"../old\"");
    std::fs::write(rig.path("old"), "old").unwrap();
    let old = ["build", "old", "tree", "--table", "parts/table"];
    rig.fails(
        2,
        "content=parts/../old: it is the file that is to be made",
        &old,
    );
    assert_eq!(bytes(&rig.path("old")), b"old");
    rig.fails(
        2,
        "cannot be used with",
        &[&FIXED[..], &["--partition", "gpt"]].concat(),
    );
    rig.fails(
        2,
        "no partition table",
        &[&FIXED[..], &["--format", "android-sparse"]].concat(),
    );
    assert!(!rig.image().exists() && !rig.path("n.img").exists());
}

/// A signal while the sources are read.
#[test]
fn an_end_by_a_signal_leaves_nothing() {
    let rig = rig();
    let args = ["build", "disk.img", "-", "--table", "parts/table"];
    let before = std::fs::read_dir(rig.path(".")).unwrap().count();
    let mut child = rig.start(&args, Stdio::piped());
    rig.wait_for_new_file(&child);
    let pid = child.id().to_string();
    let kill = Program::new("kill").unwrap().args(["-TERM", &pid]);
    kill.run_ok().unwrap();
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(rig.path(".")).unwrap().count(), before);
}

/// partx tells the kernel of the partitions, whether it knows such tables or not.
#[test]
fn the_kernel_takes_the_partitions() {
    if !KernelMount::available_or_skip("the_kernel_takes_the_partitions") {
        return;
    }
    let rig = rig();
    let mbr = "label: dos\nsize=2M, type=c, bootable\ncontent=build\nsize=1M, type=82";
    for text in [TABLE, mbr] {
        table(&rig, text);
        let made = rig.json(&[&FIXED[..], &["-F", "--json"]].concat());
        let device = LoopDevice::attach(&rig.image()).unwrap();
        let name = device.path().trim_start_matches("/dev/");
        let partitions = made["partitions"].as_array().unwrap();
        let seen = |partition: &serde_json::Value, file: &str| {
            let number = &partition["number"];
            let path = format!("/sys/block/{name}/{name}p{number}/{file}");
            let sectors = std::fs::read_to_string(path).ok()?;
            sectors.trim().parse::<u64>().ok().map(|count| count * 512)
        };
        // A kernel that does not know the table forgets partitions when it looks for them itself.
        let places = wait::until("the kernel has the partitions", || {
            let partx = Program::new("partx").unwrap().arg("--update");
            partx.arg(device.path()).run().unwrap();
            let places = partitions
                .iter()
                .map(|one| seen(one, "start").zip(seen(one, "size")));
            places.collect::<Option<Vec<_>>>()
        });
        for (partition, (start, size)) in partitions.iter().zip(places) {
            assert_eq!(partition["start_bytes"], start);
            assert_eq!(partition["size_bytes"], size);
        }
    }
}

#[test]
fn an_mbr_has_four_partitions() {
    let rig = rig();
    let text = "label: dos\nlabel-id: 0x1badcafe\nstart=1M size=34M, type=c, bootable, \
                content=esp.img\ncontent=build\n";
    table(&rig, text);
    let made = rig.json(&[&FIXED[..], &["--json"]].concat());
    assert_eq!(made["partition"]["guid"], "1badcafe-02");
    assert_eq!(made["partition"]["disk_guid"], "0x1badcafe");
    let said = judge(&rig, "sfdisk", &["--dump"], "disk.img");
    let first = "start=        2048, size=       69632, type=c, bootable";
    assert!(
        said.contains("label-id: 0x1badcafe") && said.contains(first),
        "{said}"
    );
    assert_eq!(
        rig.ok(&["cat", "disk.img", "--partition", "2", "/etc/fstab"]),
        "none"
    );
    assert!(cut(&rig, &made, 0).starts_with(&bytes(&rig.path("parts/esp.img"))));
    let said = rig.ok(&[&FIXED[..], &["-F"]].concat());
    assert!(
        said.contains(", PARTUUID 1badcafe-02, the file system\n"),
        "{said}"
    );
}
