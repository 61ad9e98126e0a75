//! What a look over a file system found.

use std::fmt;
use std::time::Duration;
use uext4_format::{Corrupt, Place};

/// What a look may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory for what has to be remembered.
    pub memory_bytes: u64,
    /// Time.
    pub time: Duration,
    /// Findings that are kept; the others are counted.
    pub findings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            time: Duration::from_secs(24 * 3600),
            findings: 1000,
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In ext4's words: "extent header", "directory entry".
    pub structure: &'static str,
    /// What is wrong with it.
    pub what: &'static str,
    /// What was expected, or the name that it is about.
    pub detail: Option<String>,
    /// Which group, inode or block.
    pub place: Place,
    /// Where it stands on the device.
    pub byte: Option<u64>,
}

impl Finding {
    pub(super) fn of(corrupt: &Corrupt, byte: Option<u64>, detail: Option<String>) -> Self {
        Self {
            structure: corrupt.structure,
            what: corrupt.problem,
            detail,
            place: corrupt.place,
            byte,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.structure, self.what)?;
        match &self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

/// What a look over a file system came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order in which they were met, as many as were to be kept.
    pub findings: Vec<Finding>,
    /// How many more there were.
    pub n_more: u64,
    /// Why it is not complete.
    pub incomplete: Option<&'static str>,
    /// Inodes in use.
    pub n_inodes: u64,
    /// Directories among them.
    pub n_directories: u64,
}

impl Report {
    /// True when everything was looked at and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.n_more == 0 && self.incomplete.is_none()
    }

    pub(super) fn add(&mut self, finding: Finding, limits: &Limits) {
        if self.findings.len() < limits.findings {
            self.findings.push(finding);
        } else {
            self.n_more += 1;
        }
    }
}
