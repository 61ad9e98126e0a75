//! Repair of the images of `check_faults`: single and double faults in every checked structure.
//!
//! After a repair `e2fsck -fn` finds nothing, a second repair changes nothing, and each file that
//! could be read before has its content, unless e2fsck loses it as well. What is left without a
//! repair is counted, by the first problem.
//!
//! More seeds: `UEXT4_REPAIR_SEEDS=20000 cargo test -p uext4 --test it repairs`;
//! `UEXT4_REPAIR_FIRST` repeats the seed of a failure.

use crate::check_faults::images::{INLINE, OLD, base};
use crate::check_faults::lists::is_harmless;
use crate::check_faults::{Blow, blows};
use crate::damage::number;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::check::Limits;
use uext4::device::{Access, FileDevice, MemDevice};
use uext4::repair::{RepairAll, RepairReport, code, repair};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_testkit::damage::{Target, Wound};
use uext4_testkit::oracle::{self, Repair};

/// As the modern base of `check_faults`, without quota, whose usage no repair counts, and without
/// MMP, where each repair waits for other hosts.
const MODERN: &[&str] = &["-b", "1024", "-O", "ea_inode,project,orphan_file"];

/// Counts over all images.
#[derive(Default)]
struct Tally {
    repaired: u64,
    /// Images with a problem that has no repair, by its code.
    left: BTreeMap<String, u64>,
    /// Files that both lose, and that only e2fsck loses.
    lost_by_both: u64,
    lost_by_e2fsck: u64,
    failures: Vec<String>,
}

/// Adds files with contents of their own, in an indexed directory and deep below it.
fn furnish(image: &Path) {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite).expect("it is there"));
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device, options).expect("it is sound");
    let paths = fs.paths();
    for number in 0..FILES {
        let dir = format!("/files/{}/below", number % 5);
        paths.create_dir_all(&dir).expect("there is room");
        let bytes = vec![u8::try_from(number + 1).expect("few"); number * 97 + 1];
        let path = format!("{dir}/a file with a name of its own {number}");
        paths.write(&path, bytes).expect("there is room");
    }
    fs.unmount().expect("it closes");
    oracle::assert_clean(image);
}

/// Number of these files.
const FILES: usize = 200;

/// Contents of all files that can be read.
fn contents(image: &Path) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    let Ok(device) = FileDevice::open(image, Access::ReadOnly) else {
        return all;
    };
    let options = MountOptions {
        access: uext4::Access::ReadOnly,
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let Ok(fs) = Filesystem::mount(Arc::new(device), options) else {
        return all;
    };
    let paths = fs.paths();
    for entry in paths.walk("/").into_iter().flatten().flatten() {
        let found = entry.metadata();
        if !found.is_file() || !(1..FILE_BYTES_MAX).contains(&found.len()) {
            continue;
        }
        if let Ok(bytes) = paths.read(entry.full_path()) {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            all.insert(hasher.finish());
        }
    }
    all
}

/// Larger files have a wrong size.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Repairs the image in memory, where no other host has to be waited for.
fn repaired(image: &Path) -> uext4::Result<RepairReport> {
    let device = Arc::new(MemDevice::from_bytes(
        &std::fs::read(image).expect("it is there"),
    ));
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let report = repair(device.clone(), options, &mut RepairAll, &Limits::default());
    std::fs::write(image, device.to_bytes()).expect("there is room");
    report
}

impl Tally {
    fn judge(&mut self, image: &Path, scratch: &Path, wounds: &[Wound], seed: u64) {
        let before = contents(image);
        std::fs::copy(image, scratch).expect("a copy");
        let ours = match repaired(image) {
            Ok(report) => report,
            Err(error) => return self.leave(text_of(&error)),
        };
        let texts: Vec<_> = wounds.iter().map(ToString::to_string).collect();
        let seed = format!("seed {seed}: {}", texts.join(" and "));
        if let Some(left) = ours.left.first() {
            return self.leave(&code(&left.corrupt));
        }
        if let Some(why) = ours.incomplete {
            return self.fail(&seed, why);
        }
        self.repaired += u64::from(ours.n_repaired > 0);
        let verdict = oracle::e2fsck(image).expect("e2fsck runs");
        if !verdict.is_silent() && !is_harmless(&verdict) {
            return self.fail(&seed, &format!("{:?}", verdict.problems()));
        }
        match repaired(image) {
            Ok(again) if again.n_repaired == 0 && again.is_sound() => {}
            again => self.fail(&seed, &format!("a second repair: {again:?}")),
        }
        self.compare_contents(&before, image, scratch, &seed);
    }

    fn compare_contents(
        &mut self,
        before: &BTreeSet<u64>,
        image: &Path,
        scratch: &Path,
        seed: &str,
    ) {
        let after = contents(image);
        if before.is_subset(&after) {
            return;
        }
        oracle::e2fsck_repair(scratch, Repair::Everything).expect("e2fsck runs");
        let by_e2fsck = contents(scratch);
        let lost = before
            .difference(&after)
            .filter(|one| by_e2fsck.contains(one));
        let lost = lost.count();
        self.lost_by_both += before.difference(&after).count() as u64 - lost as u64;
        self.lost_by_e2fsck += before
            .difference(&by_e2fsck)
            .filter(|one| after.contains(one))
            .count() as u64;
        if lost > 0 {
            self.fail(seed, &format!("{lost} files are lost that e2fsck keeps"));
        }
    }

    fn leave(&mut self, what: &str) {
        *self.left.entry(what.to_string()).or_default() += 1;
    }

    fn fail(&mut self, seed: &str, what: &str) {
        println!("{seed}: {what}");
        self.failures.push(format!("{seed}: {what}"));
    }
}

/// The kind of an error, without its numbers.
fn text_of(error: &uext4::Error) -> &str {
    match error {
        uext4::Error::Corrupt(corrupt) => corrupt.problem.phrase(),
        uext4::Error::Unsupported(feature) => feature,
        uext4::Error::Mount(_) => "mount",
        _ => "other",
    }
}

fn try_seed(base: &Path, dir: &Path, targets: &[Target], seed: u64, tally: &mut Tally) {
    let (image, scratch) = (dir.join("image"), dir.join("scratch"));
    std::fs::copy(base, &image).expect("a copy");
    let mut wounds = Vec::new();
    for (at, blow) in blows(targets, seed).into_iter().enumerate() {
        match Blow::strike(blow, &image) {
            // The first fault can make the second structure unreachable.
            Err(_) if at > 0 => {}
            wound => wounds.extend(wound.expect("a wound")),
        }
    }
    if !wounds.is_empty() {
        tally.judge(&image, &scratch, &wounds, seed);
    }
}

#[test]
fn repairs_end_in_a_state_that_e2fsck_accepts() {
    let dir = oracle::scratch_dir().expect("there is room");
    let bases: Vec<PathBuf> = [MODERN, INLINE, OLD]
        .iter()
        .enumerate()
        .map(|(at, options)| {
            let path = dir.path().join(format!("base{at}"));
            base(&path, options);
            furnish(&path);
            assert!(contents(&path).len() > FILES, "they can be read");
            path
        })
        .collect();
    let all = Target::ALL
        .into_iter()
        .chain(Target::RARE)
        .chain(Target::INNER);
    let targets: Vec<_> = all.collect();
    let mut tally = Tally::default();
    let first = number("UEXT4_REPAIR_FIRST", 0);
    for seed in first..first + number("UEXT4_REPAIR_SEEDS", 75) {
        let base = &bases[(seed / 7 % bases.len() as u64) as usize];
        try_seed(base, dir.path(), &targets, seed, &mut tally);
    }
    println!("{} repaired; left: {:?}", tally.repaired, tally.left);
    let (both, theirs) = (tally.lost_by_both, tally.lost_by_e2fsck);
    println!("files lost by both: {both}, by e2fsck only: {theirs}");
    assert!(tally.repaired > 0, "nothing was repaired");
    let failures = tally.failures;
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
