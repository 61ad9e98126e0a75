//! Single and double faults in every structure that the check looks at, beside `e2fsck -fn`: no
//! fault that e2fsck reports is missed and no image that it calls clean is reported, but for the
//! two lists here.
//!
//! More seeds: `UEXT4_FAULT_SEEDS=20000 cargo test -p uext4 --test it check_faults`;
//! `UEXT4_FAULT_FIRST` repeats the seed of a failure.

use crate::check::{harmless_problem, look};
use crate::damage::number;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use uext4::check::Limits;
use uext4::device::{Access, FileDevice};
use uext4::{Caller, FileType, Filesystem, InodeRef, MountOptions, SetMode, Threads};
use uext4_testkit::damage::{Checksums, Target, Wound};
use uext4_testkit::oracle::{self, Verdict};

const MODERN: &[&str] = &["-b", "1024", "-O", "ea_inode,quota,project,orphan_file"];
const INLINE: &[&str] = &["-b", "4096", "-O", "ea_inode,inline_data"];
const OLD: &[&str] = &["-b", "1024", "-O", "^extents,^metadata_csum,^64bit"];

fn fill(fs: &Filesystem) -> uext4::Result<()> {
    let (root, caller) = (fs.root()?, Caller::root());
    let wide = fs.mkdir(&root, b"wide", 0o755, &caller)?;
    for i in 0..150 {
        let name = format!("a name in a directory with an index {i}");
        fs.create(&wide, name.as_bytes(), 0o644, &caller)?;
        if i % 4 == 0 {
            fs.unlink(&wide, name.as_bytes(), &caller)?;
        }
    }
    let holes = fs.create(&root, b"holes", 0o644, &caller)?;
    for i in 0..500 {
        fs.write(&holes, i * 8192, &[i as u8; 600])?;
    }
    fs.symlink(&root, b"fast", b"wide", &caller)?;
    fs.symlink(&root, b"slow", &[b's'; 300], &caller)?;
    fs.mknod(&root, b"node", FileType::CharDevice, 0o600, (1, 3), &caller)?;
    let with_values = |dir: &InodeRef, name: &[u8], bytes: &[usize]| -> uext4::Result<()> {
        let file = fs.create(dir, name, 0o644, &caller)?;
        for (at, len) in bytes.iter().enumerate() {
            let name = format!("user.attribute{at}");
            let value = vec![at as u8 + 1; *len];
            fs.set_xattr(&file, name.as_bytes(), &value, SetMode::Any, &caller)?;
        }
        fs.write(&file, 0, b"data")?;
        Ok(())
    };
    let sub = fs.mkdir(&root, b"sub", 0o755, &caller)?;
    with_values(&sub, b"few", &[5, 20])?;
    with_values(&sub, b"many", &[70; 7])?;
    with_values(&sub, b"as many", &[70; 7])?;
    Ok(())
}

fn values_in_inodes(fs: &Filesystem) -> uext4::Result<()> {
    let (root, caller) = (fs.root()?, Caller::root());
    for name in [&b"large"[..], b"larger"] {
        let file = fs.create(&root, name, 0o644, &caller)?;
        fs.set_xattr(&file, b"user.large", &[9; 9000], SetMode::Any, &caller)?;
        fs.set_xattr(&file, b"user.small", &[3; 30], SetMode::Any, &caller)?;
    }
    Ok(())
}

fn base(path: &Path, options: &[&str]) {
    oracle::mke2fs(path, 16 << 20, options).expect("mke2fs");
    let device = Arc::new(FileDevice::open(path, Access::ReadWrite).expect("it is there"));
    let mount = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device, mount).expect("it is sound");
    fill(&fs).expect("there is room");
    if options != OLD {
        values_in_inodes(&fs).expect("the feature is there");
    }
    fs.unmount().expect("it closes");
    if options == MODERN {
        let tune2fs = Command::new("tune2fs")
            .args(["-O", "mmp"])
            .arg(path)
            .output();
        assert!(tune2fs.expect("tune2fs runs").status.success());
    }
    oracle::assert_clean(path);
    let report = look(path, &Limits::default()).expect("it can be read");
    assert!(report.is_clean(), "{options:?}: {report:#?}");
}

/// What one image came to.
#[derive(Default)]
struct Tally {
    judged: u64,
    noticed: u64,
    harmless: u64,
    missed: u64,
    alarms: u64,
}

impl Tally {
    fn missed(&mut self, what: String) {
        println!("missed: {what}");
        self.missed += 1;
    }

    fn alarm(&mut self, what: String) {
        println!("false alarm: {what}");
        self.alarms += 1;
    }

    fn judge(&mut self, image: &Path, wounds: &[Wound], seed: u64) {
        self.judged += 1;
        let ours = look(image, &Limits::default());
        let verdict = oracle::e2fsck(image).expect("e2fsck runs");
        let said = || {
            let wounds: Vec<_> = wounds.iter().map(ToString::to_string).collect();
            format!("seed {seed}: {}", wounds.join(" and "))
        };
        if verdict.is_clean() {
            match ours {
                Ok(report) if report.is_clean() => {}
                Ok(report) if report.findings.iter().any(is_only_ours) => self.harmless += 1,
                Ok(report) => self.alarm(format!("{}: {:?}", said(), report.findings)),
                Err(uext4::Error::Unsupported(_)) => self.harmless += 1,
                Err(error) => self.alarm(format!("{}: {error}", said())),
            }
            return;
        }
        self.noticed += 1;
        let is_found = !ours.is_ok_and(|report| report.is_clean());
        if is_found {
            return;
        }
        match is_harmless(wounds, &verdict) {
            true => self.harmless += 1,
            false => self.missed(format!("{}: {:?}", said(), verdict.problems())),
        }
    }
}

fn is_harmless(wounds: &[Wound], verdict: &Verdict) -> bool {
    let of_superblock = |wound: &Wound| wound.target == Target::Superblock;
    // Where e2fsck does not even start: fields of the superblock that no engine reads.
    let is_unread = verdict.is_operational_error() && wounds.iter().all(of_superblock);
    // Numbers of quota inodes mean nothing without the feature; e2fsck takes their inodes for used.
    let has_number = wounds
        .iter()
        .any(|wound| wound.target == Target::QuotaNumbers);
    let is_harmless = |problem: &&str| {
        harmless_problem(problem)
            // Its owner and times, which nothing reads.
            || problem.contains("The bad block inode looks invalid")
            || (has_number && problem.starts_with("Inode bitmap differences"))
    };
    is_unread || verdict.problems().iter().all(is_harmless)
}

/// What we report and e2fsck does not; other findings may follow from it.
fn is_only_ours(finding: &uext4::check::Finding) -> bool {
    const STRICTER: &[(&str, &str)] = &[
        // The kernel refuses the mount.
        ("journal superblock", "first block is outside the log"),
        ("journal superblock", "start is outside the log"),
        // The kernel refuses the inode; e2fsck does not look at one without a type.
        ("inode", "extra size is wrong"),
        // Flags without the feature, which neither the kernel nor e2fsck follows.
        (
            "group descriptor",
            "a bitmap that was never written, without the feature",
        ),
        // Records that neither the kernel nor e2fsck replays.
        ("journal", "it holds records that nobody is told to replay"),
        // e2fsck does not mind the depth of a tree without entries; the kernel refuses the inode.
        ("extent header", "unexpected depth"),
        ("extent header", "inner node without entries"),
        // The kernel refuses the mount, or to initialise the table.
        ("group descriptor", "checksum does not match"),
        ("group descriptor", "inode counts exceed the group"),
        // The kernel refuses such an inode, and e2fsck does not look at it.
        ("value inode", "it is no regular file"),
        ("value inode", "it has attributes of its own"),
        // The kernel refuses the attributes.
        ("xattr entry", "the value has another size"),
        ("extended attribute", "zero byte in the name"),
    ];
    let corrupt = &finding.corrupt;
    let is = |(structure, problem): &(&str, &str)| {
        corrupt.structure == *structure && corrupt.problem == *problem
    };
    STRICTER.iter().any(is)
}

/// One wound, or on every second seed two.
fn inflict(image: &Path, seed: u64) -> Vec<Wound> {
    let targets: Vec<_> = Target::ALL.into_iter().chain(Target::RARE).collect();
    let pick = |at: u64| targets[(at % targets.len() as u64) as usize];
    // What leads to other structures goes last.
    let rank = |target: &Target| match target {
        Target::Superblock => 2,
        Target::Descriptor => 1,
        _ => 0,
    };
    let checksums = |at: u64| match at % 5 {
        0 => Checksums::Left,
        _ => Checksums::Fixed,
    };
    let mut chosen = vec![(pick(seed), seed, checksums(seed / 22))];
    if seed / 22 % 2 == 1 && pick(seed / 44) != pick(seed) {
        chosen.push((pick(seed / 44), !seed, checksums(seed / 110)));
    }
    chosen.sort_by_key(|(target, _, _)| rank(target));
    let mut wounds = Vec::new();
    for (target, seed, checksums) in chosen {
        let wound = Wound::inflict(image, target, seed, checksums);
        match wound {
            // The first may have taken the way to the second.
            Err(_) if !wounds.is_empty() => {}
            wound => wounds.extend(wound.expect("a wound")),
        }
    }
    wounds
}

#[test]
fn check_judges_as_e2fsck() {
    let dir = oracle::scratch_dir().expect("there is room");
    let kinds = [MODERN, INLINE, OLD, MODERN];
    let bases: Vec<PathBuf> = [MODERN, INLINE, OLD]
        .iter()
        .enumerate()
        .map(|(at, options)| {
            let path = dir.path().join(format!("base{at}"));
            base(&path, options);
            path
        })
        .collect();
    let image = dir.path().join("image");
    let mut tally = Tally::default();
    let first = number("UEXT4_FAULT_FIRST", 0);
    for seed in first..first + number("UEXT4_FAULT_SEEDS", 66) {
        let at = (seed / 7 % kinds.len() as u64) as usize % bases.len();
        std::fs::copy(&bases[at], &image).expect("a copy of the base");
        let wounds = inflict(&image, seed);
        if !wounds.is_empty() {
            tally.judge(&image, &wounds, seed);
        }
    }
    let Tally {
        judged,
        noticed,
        harmless,
        missed,
        alarms,
    } = tally;
    println!("{judged} images, {noticed} noticed by e2fsck, {harmless} harmless");
    assert!(noticed > 0, "e2fsck noticed nothing");
    assert!(
        missed + alarms == 0,
        "{missed} missed, {alarms} false alarms"
    );
}
