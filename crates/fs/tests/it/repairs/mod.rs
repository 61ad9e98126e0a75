//! Repair of damaged images: single and double faults in every checked structure, bursts of them,
//! and lost writes.
//!
//! After a repair `e2fsck -fn` finds nothing, a second repair changes nothing, and each file that
//! could be read before has its content, unless e2fsck loses it as well. What is left without a
//! repair is counted, by the first problem.
//!
//! More seeds: `UEXT4_REPAIR_SEEDS=20000 cargo test -p uext4 --test it repairs`;
//! `UEXT4_REPAIR_FIRST` repeats the seed of a failure, `UEXT4_REPAIR_IMAGE` says where its image is
//! to be kept.

mod cuts;
mod images;

use crate::check_faults::lists::is_harmless;
use crate::damage::number;
use cuts::repaired_by_e2fsck;
use images::{bases, contents, damage};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use uext4::check::Limits;
use uext4::device::{BlockDevice, MemDevice};
use uext4::repair::{RepairAll, RepairReport, code, repair};
use uext4::{MountOptions, Threads};
use uext4_testkit::oracle;

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

/// Repairs the image in memory, where no other host has to be waited for.
fn repaired(image: &Path) -> uext4::Result<RepairReport> {
    let device = Arc::new(MemDevice::from_bytes(
        &std::fs::read(image).expect("it is there"),
    ));
    let report = repaired_in_place(device.clone());
    std::fs::write(image, device.to_bytes()).expect("there is room");
    report
}

impl Tally {
    fn judge(&mut self, image: &Path, scratch: &Path, wounds: &[String], seed: u64) {
        let before = contents(image);
        std::fs::copy(image, scratch).expect("a copy");
        let ours = match repaired(image) {
            Ok(report) => report,
            Err(error) => return self.leave(&text_of(&error)),
        };
        let seed = format!("seed {seed}: {}", wounds.join(" and "));
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
        let Some(by_e2fsck) = repaired_by_e2fsck(scratch).ok().flatten() else {
            self.lost_by_both += before.difference(&after).count() as u64;
            return;
        };
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

fn repaired_in_place(device: Arc<dyn BlockDevice>) -> uext4::Result<RepairReport> {
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    repair(device, options, &mut RepairAll, &Limits::default())
}

/// The kind of an error, without its numbers.
fn text_of(error: &uext4::Error) -> String {
    match error {
        uext4::Error::Corrupt(corrupt) => corrupt.problem.phrase().to_owned(),
        error => error.to_string(),
    }
}

#[test]
fn repairs_end_in_a_state_that_e2fsck_accepts() {
    let dir = oracle::scratch_dir().expect("there is room");
    let bases = bases(dir.path());
    let (image, scratch) = (dir.path().join("image"), dir.path().join("scratch"));
    let mut tally = Tally::default();
    let first = number("UEXT4_REPAIR_FIRST", 0);
    for seed in first..first + number("UEXT4_REPAIR_SEEDS", 75) {
        let wounds = damage(&bases, seed, &image);
        if let Some(kept) = std::env::var_os("UEXT4_REPAIR_IMAGE") {
            std::fs::copy(&image, kept).expect("there is room");
        }
        if !wounds.is_empty() {
            tally.judge(&image, &scratch, &wounds, seed);
        }
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
