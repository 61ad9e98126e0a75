//! The rounds of a repair: asks about the findings of a pass, and has those of one area repaired.

use super::areas::Outcome;
use super::commit::Changes;
use super::copies::Descriptors;
use super::decisions::{Decision, Decisions};
use super::outcome::RepairReport;
use super::patch::Patch;
use crate::problems::{Area, Problem, Task};
use crate::report::Finding;
use crate::state::{Check, Gate, Step, Stop};
use crate::subject::SharedData;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Passes behind a problem that is left would take for free what they cannot read.
const LEFT: &str = "the passes behind a problem that is left";

/// Repairs of the same problem before it counts as one without a repair.
const REPEATS_MAX: u8 = 2;

/// State of a repair over its rounds.
pub(super) struct Rounds<'d> {
    decisions: &'d mut dyn Decisions,
    /// Findings of this round that were decided about.
    seen: usize,
    /// Problems that are left, and how often each other one was repaired; by a hash of
    /// their texts.
    known: HashMap<u64, Known>,
    hasher: RandomState,
    /// Clusters that may be copied, in all rounds; unknown before the first copy.
    copies_left: Option<u64>,
    pub(super) changes: Option<Changes>,
    pub(super) descriptors: Descriptors,
    pub(super) report: RepairReport,
}

#[derive(Clone, Copy)]
enum Known {
    /// Accepted, but not possible in so many rounds.
    Accepted(u8),
    /// In so many rounds.
    Repaired(u8),
    /// By a decision.
    Left,
    /// Without a repair.
    Unrepairable,
}

impl Gate for Rounds<'_> {
    fn pass(&mut self, check: &mut Check<'_>) -> Step {
        let new: Vec<Finding> = check
            .report
            .findings
            .iter()
            .skip(self.seen)
            .cloned()
            .collect();
        self.seen = check.report.findings.len();
        let mut by_area: BTreeMap<Option<Area>, Vec<Finding>> = BTreeMap::new();
        for finding in new {
            let problem = Problem::of(&finding.corrupt);
            let area = problem.map(|problem| problem.area);
            by_area.entry(area).or_default().push(finding);
        }
        for finding in by_area.remove(&None).unwrap_or_default() {
            self.leave_unrepairable(check, finding)?;
        }
        for (area, findings) in by_area {
            let Some(area) =
                area.filter(|area| check.report.incomplete.is_none() || !area.counts())
            else {
                break;
            };
            self.repair_area(check, area, findings)?;
        }
        match check.report.incomplete {
            Some(_) => Err(Stop::Incomplete),
            None => Ok(()),
        }
    }
}

impl<'d> Rounds<'d> {
    pub(super) fn new(decisions: &'d mut dyn Decisions) -> Self {
        Self {
            decisions,
            seen: 0,
            known: HashMap::new(),
            hasher: RandomState::new(),
            copies_left: None,
            changes: None,
            descriptors: Descriptors::Unchanged,
            report: RepairReport::default(),
        }
    }

    /// Repairs problems of one area; ends the round if that changes anything.
    fn repair_area(&mut self, check: &mut Check<'_>, area: Area, findings: Vec<Finding>) -> Step {
        let mut tasks: BTreeMap<Task, Vec<Finding>> = BTreeMap::new();
        let mut met = HashSet::new();
        for finding in findings {
            if met.insert(self.key(&finding)) && self.is_accepted(check, area, &finding)? {
                let task = Task::of(area, finding.corrupt.place, &check.geometry);
                tasks.entry(task).or_default().push(finding);
            }
        }
        let mut repaired = Vec::new();
        let mut patch = Patch::new(check);
        patch.space.copies_left = match patch.check.subject.shared_data {
            SharedData::Parted => Some(u64::MAX),
            SharedData::Kept => self.copies_left,
        };
        let mut failed = Vec::new();
        let outcomes = patch.repair_all(area, &tasks)?;
        self.copies_left = patch.space.copies_left;
        for (findings, outcome) in tasks.into_values().zip(outcomes) {
            match outcome {
                Outcome::Repaired => repaired.extend(findings),
                Outcome::Impossible => failed.extend(findings),
            }
        }
        let changes = patch.into_changes();
        // Once the others are made, it is known what is free: then there may be space.
        let may_wait = matches!(area, Area::Descriptor | Area::Map | Area::Connection);
        for finding in failed {
            if !may_wait || repaired.is_empty() || !self.may_try_again(&finding) {
                self.leave_unrepairable(check, finding)?;
            }
        }
        if repaired.is_empty() {
            return Ok(());
        }
        for finding in repaired {
            self.count_repair(&finding);
        }
        if area == Area::Descriptor {
            self.descriptors = Descriptors::Changed;
        }
        self.changes = Some(changes);
        self.seen = 0;
        Err(Stop::Changed)
    }

    /// Asks about a problem that is not decided yet.
    fn is_accepted(&mut self, check: &mut Check<'_>, area: Area, finding: &Finding) -> Step<bool> {
        match self.known.get(&self.key(finding)) {
            Some(Known::Left) => {
                check.report.incomplete = Some(LEFT);
                return Ok(false);
            }
            Some(Known::Unrepairable) => {
                self.leave_unrepairable(check, finding.clone())?;
                return Ok(false);
            }
            Some(Known::Repaired(times)) if *times >= REPEATS_MAX => {
                self.leave_unrepairable(check, finding.clone())?;
                return Ok(false);
            }
            Some(Known::Accepted(_)) => return Ok(true),
            _ => {}
        }
        let problem = Problem::of(&finding.corrupt);
        match self.decisions.decide(finding, problem) {
            Decision::Repair => Ok(true),
            Decision::Leave if area > Area::Descriptor => {
                self.leave(finding.clone());
                check.report.incomplete = Some(LEFT);
                Ok(false)
            }
            Decision::Leave => {
                self.leave(finding.clone());
                check.give_up("the passes behind this problem rely on its repair")
            }
            Decision::Stop => {
                self.report.was_stopped = true;
                self.leave(finding.clone());
                check.give_up("a person has to decide about a problem")
            }
        }
    }

    /// Leaves a problem that has no repair. What is behind it is not changed.
    fn leave_unrepairable(&mut self, check: &mut Check<'_>, finding: Finding) -> Step {
        let known = self.known.insert(self.key(&finding), Known::Unrepairable);
        if !matches!(known, Some(Known::Unrepairable | Known::Left)) {
            if self.decisions.decide(&finding, None) == Decision::Stop {
                self.report.was_stopped = true;
            }
            self.report.left.push(finding);
        }
        check.report.incomplete = Some("a problem has no repair here");
        Ok(())
    }

    /// Counts a repair that was not possible; false if there were too many.
    fn may_try_again(&mut self, finding: &Finding) -> bool {
        let known = self.known.entry(self.key(finding));
        match known.or_insert(Known::Accepted(0)) {
            Known::Accepted(times) => {
                *times += 1;
                *times <= REPEATS_MAX
            }
            _ => false,
        }
    }

    /// Identifies a problem over all rounds.
    fn key(&self, finding: &Finding) -> u64 {
        self.hasher.hash_one(finding.to_string())
    }

    fn leave(&mut self, finding: Finding) {
        self.known.insert(self.key(&finding), Known::Left);
        self.report.left.push(finding);
    }

    fn count_repair(&mut self, finding: &Finding) {
        let known = self.known.entry(self.key(finding));
        let known = known.or_insert(Known::Repaired(0));
        *known = match *known {
            Known::Repaired(times) => Known::Repaired(times + 1),
            Known::Accepted(_) => Known::Repaired(1),
            other => other,
        };
        self.report.n_repaired += 1;
    }
}
