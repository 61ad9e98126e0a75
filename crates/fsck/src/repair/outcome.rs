//! Result of a repair.

use crate::report::Finding;

/// Result of a repair.
#[derive(Clone, Debug, Default)]
pub struct RepairReport {
    /// Problems that were repaired.
    pub n_repaired: u64,
    /// Problems that are left, in order.
    pub left: Vec<Finding>,
    /// Whether a decision ended the repair.
    pub was_stopped: bool,
    /// The reason why not everything was checked.
    pub incomplete: Option<&'static str>,
    /// Backups of the superblock and blocks of descriptors that are stale, and cannot be read or
    /// written.
    pub n_unwritten_backups: u64,
    /// Inodes in use, if everything was checked.
    pub n_inodes: u64,
    /// Directories among them.
    pub n_directories: u64,
}

impl RepairReport {
    /// That of a repair which ended at the first problem.
    pub fn of_left(finding: Finding) -> Self {
        Self {
            left: vec![finding],
            ..Self::default()
        }
    }

    /// True if everything was checked and nothing is left to repair.
    pub fn is_sound(&self) -> bool {
        self.left.is_empty() && !self.was_stopped && self.incomplete.is_none()
    }

    /// True if nothing was repaired, left or refused: a limit ended the check.
    pub fn is_without_result(&self) -> bool {
        self.n_repaired == 0 && self.left.is_empty() && !self.was_stopped
    }
}
