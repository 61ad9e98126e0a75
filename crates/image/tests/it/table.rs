//! Disks of several partitions, judged by sfdisk: it makes the same disk of the same script.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use uext4_image::{Container, Format, Made, Options, Table};
use uext4_testkit::oracle::Program;
use uext4_testkit::rng::Rng;

use crate::support::{Rig, SIZE, UUID, apply, judge, writes};

fn table(rig: &Rig, text: &str) -> Options {
    std::fs::write(rig.path("table"), text).unwrap();
    Options {
        table: Some(Table::read(&rig.path("table")).unwrap()),
        ..Options::default()
    }
}

/// What creating or finishing a container of this table says.
fn refused(rig: &Rig, text: &str) -> String {
    let file = rig.path("table");
    std::fs::write(&file, text).unwrap();
    let made = Table::read(&file).map_err(Into::into).and_then(|table| {
        let options = Options {
            table: Some(table),
            ..Options::default()
        };
        let container = Container::create(&rig.path("disk"), options)?;
        container.finish(SIZE, UUID, |_| ControlFlow::Continue(()))
    });
    assert!(!rig.path("disk").exists());
    let said = made.err().unwrap_or_else(|| panic!("{text}")).to_string();
    said.replace(&format!("{}", file.parent().unwrap().display()), "")
}

/// The lines of a dump without the names of device and file, and without identities that `text`
/// does not give.
fn dump(disk: &std::path::Path, text: &str) -> String {
    let dump = judge("sfdisk", &["--dump"], &[disk]);
    let name = disk.display().to_string();
    let lines = dump.lines().filter(|line| !line.starts_with("device:"));
    let lines = lines.filter(|line| !line.starts_with("label-id:") || text.contains("label-id:"));
    let mut kept = String::new();
    for line in lines {
        let line = line.replace(&name, "");
        let fields = line
            .split(", ")
            .filter(|field| match field.strip_prefix("uuid=") {
                Some(uuid) => text.contains(&uuid.to_lowercase()),
                None => true,
            });
        writeln!(kept, "{}", fields.collect::<Vec<_>>().join(", ")).unwrap();
    }
    kept
}

/// sfdisk's disk of the same size, for an MBR 8 MiB larger. It is told the sizes of files, and the
/// places of a GPT without an end, since it prefers the largest gap of a disk whose size it knows.
fn by_sfdisk(rig: &Rig, text: &str, made: &Made) -> PathBuf {
    let path = rig.path("judge");
    let file = std::fs::File::create(&path).unwrap();
    // Near the end of a disk sfdisk does not align partitions of an MBR.
    let behind = if text.contains("label: dos") {
        8 << 20
    } else {
        0
    };
    file.set_len(made.disk_bytes + behind).unwrap();
    let mut script = String::new();
    let is_endless = text.contains("label: gpt") && !text.contains("last-lba");
    let mut partitions = made.partitions.iter();
    for line in text.lines() {
        let (own, _) = line.split_once("content=").unwrap_or((line, ""));
        script.push_str(own);
        if line.contains('=') {
            let made = partitions.next().unwrap();
            if !line.contains("size=") {
                write!(script, " size={}", made.size_bytes / 512).unwrap();
            }
            if is_endless && !line.contains("start=") {
                write!(script, " start={}", made.start_bytes / 512).unwrap();
            }
        }
        script.push('\n');
    }
    std::fs::write(rig.path("script"), &script).unwrap();
    let run = "sfdisk -q --no-reread --no-tell-kernel \"$1\" <\"$0\"";
    let program = Program::new("sh").unwrap().args(["-c", run]);
    let said = program.arg(rig.path("script")).arg(&path).run().unwrap();
    assert_eq!(said.code, Some(0), "{script}\n{}", said.all());
    path
}

/// A table of up to 8 partitions, all of which have a place.
fn random(rng: &mut Rng, label: &str) -> String {
    let is_gpt = label == "gpt";
    let mut text = format!("label: {label}\n");
    if rng.chance(50) {
        text.push_str(if is_gpt {
            "label-id: F1DE5DA8-2D67-40A5-8E67-8F1D7E4F0001\n"
        } else {
            "label-id: 0x0badcafe\n"
        });
    }
    let has_end = is_gpt && rng.chance(40);
    if has_end {
        writeln!(text, "last-lba: {}", rng.between(5 << 20, 6 << 20)).unwrap();
    }
    if is_gpt && rng.chance(40) {
        writeln!(text, "first-lba: {}", rng.between(34, 3000)).unwrap();
    }
    let count = rng.between(1, if is_gpt { 8 } else { 4 });
    let own = rng.below(count);
    let mut next = 1 << 18; // behind all lines so far
    let mut numbers: Vec<u64> = (1..=if is_gpt { 128 } else { 4 }).collect();
    for nr in 0..count {
        let mut fields = Vec::new();
        next += 1 << 17; // 64 MiB
        if rng.chance(30) {
            fields.push(format!("start={next}"));
            // Past cylinders 255 and 1023, which addresses of an MBR have other forms for.
            next += if is_gpt {
                1 << 18
            } else {
                *rng.pick(&[4400, 8400]) << 11
            };
        }
        let is_last = nr + 1 == count;
        let size = match rng.below(3) {
            0 if nr != own => format!("size={}", rng.between(1, 3000)),
            1 => format!("size={}M", rng.between(41, 60)),
            2 if has_end && is_last && nr != own => "size=+".to_owned(),
            _ if nr == own => String::new(),
            // sfdisk rounds what is longer than a MiB.
            _ if is_gpt => format!("size= {}KiB", rng.between(1, 1000)),
            _ => format!("size={}MiB", rng.between(1, 3)),
        };
        if !size.is_empty() {
            fields.push(size);
        }
        if rng.chance(60) {
            let kinds: &[&str] = if is_gpt {
                &[
                    "U",
                    "uefi",
                    "L",
                    "swap",
                    "home",
                    "raid",
                    "lvm",
                    "\"Linux root (x86-64)\"",
                    "\"EFI System\"",
                    "\"Linux extended boot\"",
                    "\"BIOS boot\"",
                    "\"Microsoft basic data\"",
                    "\"Linux variable data\"",
                    "21686148-6449-6e6f-744e-656564454649",
                ]
            } else {
                &["c", "0xef", "linux", "S", "uefi", "7", "raid", "lvm"]
            };
            fields.push(format!("type={}", rng.pick(kinds)));
        }
        if is_gpt && rng.chance(50) {
            let names = [
                "esp",
                "\"a, b\"",
                "\"x\\x22y\\x5cz\"",
                "\"éß\"",
                "\"back\\slash\"",
            ];
            fields.push(format!("name={}", rng.pick(&names)));
        }
        if is_gpt && rng.chance(30) {
            let all = [
                "\"RequiredPartition GUID:50,63\"",
                "LegacyBIOSBootable",
                "\"48,59\"",
                "\"NoBlockIOProtocol,GUID:60\"",
            ];
            fields.push(format!("attrs={}", rng.pick(&all)));
        }
        if is_gpt && rng.chance(30) {
            fields.push(format!("uuid=11111111-2222-4333-8444-5555555555{nr:02}"));
        }
        if !is_gpt && rng.chance(30) {
            fields.push("bootable".to_owned());
        }
        if nr == own {
            fields.push("content=build".to_owned());
        } else if !text.contains("content=file") && rng.chance(20) {
            fields.retain(|field| !field.starts_with("size="));
            fields.push("content=file".to_owned());
        }
        if rng.chance(20) {
            let number = numbers.remove(rng.below(numbers.len() as u64) as usize);
            let device = rng.pick(&["/dev/sda", "", "nvme0n1p"]);
            write!(text, "{device}{number} : ").unwrap();
        } else if rng.chance(10) {
            text.push_str("# a comment\n");
        }
        let between = rng.pick(&[", ", " ", ","]);
        writeln!(text, "{}", fields.join(between)).unwrap();
        // Lines without a number take the first that is free.
        if let Some(free) = numbers.iter().position(|number| *number == nr + 1) {
            numbers.remove(free);
        }
    }
    text
}

#[test]
fn sfdisk_makes_the_same_disk_of_the_same_script() {
    let mut tried = 0;
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let label = if seed % 3 == 0 { "dos" } else { "gpt" };
        let text = random(&mut rng, label);
        let rig = Rig::new();
        std::fs::write(rig.path("file"), rng.bytes(100_001)).unwrap();
        std::fs::write(rig.path("table"), &text).unwrap();
        let Ok(table) = Table::read(&rig.path("table")) else {
            continue; // a number that is taken
        };
        let options = Options {
            table: Some(table),
            ..Options::default()
        };
        let made = rig.make("disk", options, &writes(seed));
        let disk = rig.path("disk");
        let said = judge("sfdisk", &["--verify"], &[&disk]);
        assert!(said.contains("No errors detected"), "seed {seed}: {said}");
        let other = by_sfdisk(&rig, &text, &made);
        let dumps = (
            dump(&disk, &text.to_lowercase()),
            dump(&other, &text.to_lowercase()),
        );
        assert_eq!(dumps.0, dumps.1, "seed {seed}: {text}");
        match label {
            "gpt" => {
                let said = judge("sgdisk", &["-v"], &[&disk]);
                assert!(said.contains("No problems found"), "seed {seed}: {said}");
            }
            _ => {
                let (mut a, mut b) = ([0; 512], [0; 512]);
                std::fs::File::open(&disk)
                    .unwrap()
                    .read_exact_at(&mut a, 0)
                    .unwrap();
                std::fs::File::open(&other)
                    .unwrap()
                    .read_exact_at(&mut b, 0)
                    .unwrap();
                if !text.contains("label-id") {
                    b[440..444].copy_from_slice(&a[440..444]);
                }
                assert!(a == b, "seed {seed}: {text}");
            }
        }
        tried += 1;
    }
    assert!(tried > 80, "{tried}");
}

const THREE: &str = "label: gpt
size=64M, type=U, name=esp, content=esp
content=build, size=50M
size=8M, type=swap, content=\"dir/s w\\x61p\"
";

fn files(rig: &Rig) {
    std::fs::create_dir_all(rig.path("dir")).unwrap();
    let esp = std::fs::File::create(rig.path("esp")).unwrap();
    esp.set_len(33 << 20).unwrap();
    esp.write_all_at(&Rng::new(1).bytes(70_000), (5 << 20) + 7)
        .unwrap();
    std::fs::write(rig.path("dir/s wap"), Rng::new(2).bytes(5000)).unwrap();
}

#[test]
fn partitions_hold_their_files_and_holes_stay() {
    let rig = Rig::new();
    files(&rig);
    let raw = rig.raw("raw", &writes(3));
    let made = rig.make("disk", table(&rig, THREE), &writes(3));
    let bytes = rig.bytes("disk");
    let start = |nr: usize| made.partitions[nr].start_bytes as usize;
    assert!(bytes[start(0)..].starts_with(&rig.bytes("esp")));
    assert!(bytes[start(1)..].starts_with(&raw));
    assert!(bytes[start(2)..].starts_with(&rig.bytes("dir/s wap")));
    let own: Vec<bool> = made
        .partitions
        .iter()
        .map(|one| one.has_file_system)
        .collect();
    assert_eq!(own, [false, true, false]);
    let blocks = |name: &str| std::fs::metadata(rig.path(name)).unwrap().blocks() * 512;
    let more = blocks("disk") - blocks("raw");
    assert!(more < 400_000, "{more} bytes beside the file system");
    // A file without holes gives the same bytes.
    std::fs::write(rig.path("whole"), rig.bytes("esp")).unwrap();
    let same = THREE.replace("content=esp", "content=whole");
    let whole = rig.make("again", table(&rig, &same), &writes(3));
    assert!(rig.bytes("again") == bytes);
    assert_eq!(
        (whole.disk_id, whole.partitions),
        (made.disk_id, made.partitions)
    );
}

/// Every part of the disk changes its identities, so that two forms can be attached at once.
#[test]
fn identities_follow_from_all_partitions() {
    let rig = Rig::new();
    files(&rig);
    let mut seen = std::collections::BTreeSet::new();
    let mut add = |made: Made| {
        assert!(
            made.partitions
                .iter()
                .all(|one| seen.insert(one.uuid.clone()))
        );
        assert!(seen.insert(made.disk_id));
    };
    add(rig.make("disk", table(&rig, THREE), &writes(3)));
    for (old, new) in [
        ("64M", "65M"),
        ("8M", "9M"),
        ("type=swap", "type=L"),
        ("50M", "51M"),
    ] {
        add(rig.make("disk", table(&rig, &THREE.replace(old, new)), &writes(3)));
    }
    let mut esp = rig.bytes("esp");
    esp[(5 << 20) + 70_000] ^= 1;
    std::fs::write(rig.path("esp"), esp).unwrap();
    add(rig.make("disk", table(&rig, THREE), &writes(3)));
    let given = format!("label-id: F1DE5DA8-2D67-40A5-8E67-8F1D7E4F0001\n{}", THREE);
    let made = rig.make("disk", table(&rig, &given), &writes(3));
    assert_eq!(made.disk_id, "f1de5da8-2d67-40a5-8e67-8f1d7e4f0001");
}

#[test]
fn a_disk_in_qcow2_is_that_of_raw() {
    let rig = Rig::new();
    files(&rig);
    rig.make("disk", table(&rig, THREE), &writes(4));
    let format = Format::Qcow2;
    for name in ["one", "two"] {
        let options = Options {
            format,
            ..table(&rig, THREE)
        };
        rig.make(name, options, &writes(4));
    }
    assert!(rig.bytes("one") == rig.bytes("two"));
    judge("qemu-img", &["check", "-q"], &[&rig.path("one")]);
    judge(
        "qemu-img",
        &["compare"],
        &[&rig.path("one"), &rig.path("disk")],
    );
    let far = "label: gpt\nsize=1M\nstart=17T, content=build";
    let options = Options {
        format,
        ..table(&rig, far)
    };
    let error = Container::create(&rig.path("far"), options).err().unwrap();
    assert!(error.to_string().contains("16 TiB"), "{error}");
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let rig = Rig::new();
    files(&rig);
    let mib = |said: &str| said.to_owned();
    let esp = refused(&rig, &THREE.replace("64M", "32M"));
    let said = "/table:2: content=/esp: the file has 34603008 bytes, and its partition 33554432";
    assert_eq!(esp, mib(said));
    let none = refused(&rig, &THREE.replace("content=esp", "content=none"));
    assert!(
        none.starts_with("/table:2: content=/none: cannot be read: No such file"),
        "{none}"
    );
    let directory = refused(&rig, &THREE.replace("content=esp", "content=dir"));
    assert!(directory.contains("no regular file"), "{directory}");
    let small = refused(&rig, &THREE.replace("50M", "40M"));
    assert!(
        small.starts_with("/table:3: size: the file system"),
        "{small}"
    );
    std::fs::write(rig.path("esp"), b"").unwrap();
    let empty = refused(&rig, &THREE.replace("size=64M, ", ""));
    assert!(
        empty.contains("/table:2: content: the file is empty"),
        "{empty}"
    );
    let next = "label: gpt\ncontent=build\nstart=30M size=1M";
    let next = refused(&rig, next);
    assert!(
        next.starts_with("/table:3: start: the partition overlaps"),
        "{next}"
    );
}

#[test]
fn outputs_are_no_contents() {
    let rig = Rig::new();
    files(&rig);
    let before = rig.bytes("esp");
    std::fs::hard_link(rig.path("esp"), rig.path("disk")).unwrap();
    let error = Container::create(&rig.path("disk"), table(&rig, THREE))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("it is the file that is to be made"),
        "{error}"
    );
    std::fs::remove_file(rig.path("disk")).unwrap();
    let mut options = table(&rig, THREE);
    options.verity = crate::support::verity(uext4_image::VerityPlace::File(rig.path("esp"))).verity;
    let error = Container::create(&rig.path("disk"), options).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("it is the file that is to be made"),
        "{error}"
    );
    assert!(rig.bytes("esp") == before);
}

#[test]
fn a_file_that_changes_meanwhile_leaves_nothing() {
    for len in [0, 10 << 20, 40 << 20] {
        let rig = Rig::new();
        files(&rig);
        let container = Container::create(&rig.path("disk"), table(&rig, THREE)).unwrap();
        apply(&*container.device(), &writes(1));
        let esp = std::fs::OpenOptions::new()
            .write(true)
            .open(rig.path("esp"))
            .unwrap();
        esp.set_len(len).unwrap();
        let ended = container.finish(SIZE, UUID, |_| ControlFlow::Continue(()));
        let said = ended.err().unwrap().to_string();
        assert!(
            said.contains("table:2: content=") && said.contains("changed while"),
            "{said}"
        );
        assert!(!rig.path("disk").exists());
    }
}

#[test]
fn the_end_that_is_asked_for_comes_while_files_are_copied() {
    let rig = Rig::new();
    files(&rig);
    let container = Container::create(&rig.path("disk"), table(&rig, THREE)).unwrap();
    let mut total = 0;
    let ended = container.finish(SIZE, UUID, |progress| {
        total = progress.total_bytes;
        match progress.bytes > 1 << 20 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    assert!(matches!(ended, Err(uext4_image::Error::Cancelled)));
    assert_eq!(total, (33 << 20) + 5000);
    assert!(!rig.path("disk").exists());
}
