//! Single and double faults in every checked structure, compared with `e2fsck -fn`. Except for the
//! two lists in `lists`, our check reports every fault that e2fsck reports, and nothing on an image
//! that e2fsck calls clean.
//!
//! More seeds: `UEXT4_CHECK_SEEDS=20000 cargo test -p uext4 --test it check_faults`;
//! `UEXT4_CHECK_FIRST` repeats the seed of a failure.

mod agreed;
mod image;
pub(crate) mod images;
pub(crate) mod lists;
mod only_ours;

use crate::check::checked;
use crate::damage::number;
use images::{INLINE, MODERN, OLD, base};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use uext4::check::Limits;
use uext4_testkit::damage::{Checksums, Target, Wound};
use uext4_testkit::oracle;

/// Counts over all images.
#[derive(Default)]
struct Tally {
    judged: u64,
    noticed: u64,
    harmless: u64,
    /// Findings of our check alone, by reason.
    stricter: BTreeMap<&'static str, u64>,
    missed: u64,
    alarms: u64,
}

impl Tally {
    fn missed(&mut self, what: &str) {
        println!("missed: {what}");
        self.missed += 1;
    }

    fn alarm(&mut self, what: &str) {
        println!("false alarm: {what}");
        self.alarms += 1;
    }

    fn count(&mut self, reason: &'static str) {
        *self.stricter.entry(reason).or_default() += 1;
    }

    fn judge(&mut self, image: &Path, wounds: &[Wound], seed: u64) {
        self.judged += 1;
        let ours = checked(image, &Limits::default());
        let verdict = oracle::e2fsck(image).expect("e2fsck runs");
        let said = || {
            let wounds: Vec<_> = wounds.iter().map(ToString::to_string).collect();
            format!("seed {seed}: {}", wounds.join(" and "))
        };
        if verdict.is_silent() {
            match ours {
                Ok(report) if report.is_clean() => {}
                Ok(report) => match lists::explain(&report) {
                    Ok(reasons) => reasons.into_iter().for_each(|reason| self.count(reason)),
                    Err(rest) => self.alarm(&format!("{}: {rest:?}", said())),
                },
                // The check refuses the image and says so.
                Err(uext4::Error::Unsupported(feature)) => self.count(feature),
                Err(error) => self.alarm(&format!("{}: {error}", said())),
            }
            return;
        }
        self.noticed += 1;
        let is_found = !ours.is_ok_and(|report| report.is_clean());
        match is_found || lists::is_harmless(&verdict) {
            true => self.harmless += u64::from(!is_found),
            false => self.missed(&format!("{}: {:?}", said(), verdict.problems())),
        }
    }
}

/// A fault to inject into a structure.
#[derive(Clone, Copy)]
pub(crate) struct Blow {
    target: Target,
    seed: u64,
    checksums: Checksums,
}

impl Blow {
    /// `None` where there is no such structure.
    pub(crate) fn strike(self, image: &Path) -> anyhow::Result<Option<Wound>> {
        Wound::inflict(image, self.target, self.seed, self.checksums)
    }
}

/// One fault, or two for every second group of seeds.
pub(crate) fn blows(targets: &[Target], seed: u64) -> Vec<Blow> {
    let pick = |at: u64| targets[(at % targets.len() as u64) as usize];
    let checksums = |at: u64| match at % 5 {
        0 => Checksums::Left,
        _ => Checksums::Fixed,
    };
    let blow = |target, seed, at| Blow {
        target,
        seed,
        checksums: checksums(at),
    };
    let mut chosen = vec![blow(pick(seed), seed, seed / 22)];
    if seed / 22 % 2 == 1 && pick(seed / 44) != pick(seed) {
        chosen.push(blow(pick(seed / 44), !seed, seed / 110));
    }
    sort(&mut chosen);
    chosen
}

/// Structures that lead to others are damaged last.
fn sort(blows: &mut [Blow]) {
    blows.sort_by_key(|blow| match blow.target {
        Target::Superblock => 2,
        Target::Descriptor => 1,
        _ => 0,
    });
}

/// Many faults at once, as of a device that fails.
pub(crate) fn burst(targets: &[Target], seed: u64, count: u64) -> Vec<Blow> {
    let all = (0..count).flat_map(|at| blows(targets, seed.wrapping_add(at * BURST_STEP)));
    let mut chosen: Vec<_> = all.take(usize::try_from(count).expect("few")).collect();
    sort(&mut chosen);
    // What a damaged superblock leads to cannot be found to damage it.
    let first = chosen
        .iter()
        .position(|blow| blow.target == Target::Superblock);
    chosen.truncate(first.map_or(chosen.len(), |first| first + 1));
    chosen
}

/// Distance of the seeds of a burst: other targets, and other bytes.
const BURST_STEP: u64 = 22 * 10 * 1009 + 1;

/// Judges the image, and after two faults also each fault alone, because one can hide the other.
fn try_seed(image: &Path, targets: &[Target], seed: u64, tally: &mut Tally) {
    let blows = blows(targets, seed);
    let mut wounds = Vec::new();
    for (at, blow) in blows.iter().enumerate() {
        match blow.strike(image) {
            // The first fault can make the second structure unreachable.
            Err(_) if at > 0 => {}
            wound => wounds.extend(wound.expect("a wound")),
        }
    }
    if !wounds.is_empty() {
        tally.judge(image, &wounds, seed);
    }
    heal(image, &wounds);
    if wounds.len() < 2 {
        return;
    }
    for blow in blows {
        let alone = blow.strike(image).expect("the image is sound");
        let alone: Vec<_> = alone.into_iter().collect();
        if !alone.is_empty() {
            tally.judge(image, &alone, seed);
        }
        heal(image, &alone);
    }
}

fn heal(image: &Path, wounds: &[Wound]) {
    for wound in wounds.iter().rev() {
        wound.heal(image).expect("it was written before");
    }
}

#[test]
fn check_judges_as_e2fsck() {
    let targets: Vec<_> = Target::ALL.into_iter().chain(Target::RARE).collect();
    judge_seeds(&targets, 66);
}

#[test]
fn check_judges_inner_parts_as_e2fsck() {
    judge_seeds(&Target::INNER, 24);
}

fn judge_seeds(targets: &[Target], seeds: u64) {
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
    let mut tally = Tally::default();
    let first = number("UEXT4_CHECK_FIRST", 0);
    for seed in first..first + number("UEXT4_CHECK_SEEDS", seeds) {
        let at = (seed / 7 % kinds.len() as u64) as usize % bases.len();
        try_seed(&bases[at], targets, seed, &mut tally);
    }
    bases.iter().for_each(|base| oracle::assert_clean(base));
    let Tally {
        judged,
        noticed,
        harmless,
        stricter,
        missed,
        alarms,
    } = tally;
    println!("{judged} images, {noticed} noticed by e2fsck, {harmless} of these harmless");
    println!("only by us: {stricter:?}");
    assert!(noticed > 0, "e2fsck noticed nothing");
    assert!(
        missed + alarms == 0,
        "{missed} missed, {alarms} false alarms"
    );
}
