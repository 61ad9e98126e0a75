//! Decisions about problems: all repairs, the safe ones, or those of a caller.

use crate::problems::{Preen, Problem};
use crate::report::Finding;

/// What is to be done about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Repair it.
    Repair,
    /// Leave it, and go on.
    Leave,
    /// Leave it, and end the repair.
    Stop,
}

/// Decides about each problem before it is repaired.
pub trait Decisions {
    /// About a problem, with its row; `None` if it cannot be repaired, and is left in any case.
    fn decide(&mut self, finding: &Finding, problem: Option<&Problem>) -> Decision;
}

/// Repairs everything that can be repaired, as `e2fsck -y` does.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairAll;

impl Decisions for RepairAll {
    fn decide(&mut self, _: &Finding, _: Option<&Problem>) -> Decision {
        Decision::Repair
    }
}

/// Repairs what loses nothing, and stops at the first other problem, as `e2fsck -p` does.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairSafe;

impl Decisions for RepairSafe {
    fn decide(&mut self, _: &Finding, problem: Option<&Problem>) -> Decision {
        match problem {
            Some(problem) if problem.preen == Preen::Repairs => Decision::Repair,
            _ => Decision::Stop,
        }
    }
}
