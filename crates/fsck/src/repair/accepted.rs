//! The problems of one directory that are to be repaired, by place.

use crate::report::Finding;
use std::collections::HashMap;
use std::mem::discriminant;
use uext4_format::{CorruptKind, DamageLocation};

/// A structure and its problem; the numbers are those of the first finding.
pub(super) type Problem = (&'static str, CorruptKind);

/// See the module. Each problem is there once for a place.
#[derive(Default)]
pub(super) struct Accepted(HashMap<DamageLocation, Vec<Problem>>);

impl Accepted {
    pub(super) fn of(findings: &[Finding]) -> Self {
        let mut accepted = Self::default();
        for finding in findings {
            let found = &finding.corrupt;
            if !accepted.has(found.place, found.problem) {
                let here = accepted.0.entry(found.place).or_default();
                here.push((found.structure, found.problem));
            }
        }
        accepted
    }

    /// Whether this problem of this place is to be repaired, whatever its numbers.
    pub(super) fn has(&self, place: DamageLocation, problem: CorruptKind) -> bool {
        let kind = discriminant(&problem);
        let mut here = self.at(place).iter();
        here.any(|(_, found)| discriminant(found) == kind)
    }

    /// Whether a problem without numbers is to be repaired at any place.
    pub(super) fn has_any(&self, problem: CorruptKind) -> bool {
        self.all().any(|(_, found)| found == problem)
    }

    pub(super) fn at(&self, place: DamageLocation) -> &[Problem] {
        self.0.get(&place).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Problem> + '_ {
        self.0.values().flatten().copied()
    }
}
