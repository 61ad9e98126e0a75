//! What a look over a file system found.

use crate::{Error, Result};
use std::fmt;
use std::time::Duration;
use uext4_format::Corrupt;

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
    /// What, and in which group, inode or block.
    pub corrupt: Corrupt,
    /// What was expected, or the name that it is about.
    pub detail: Option<String>,
    /// Where it stands on the device.
    pub byte: Option<u64>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.corrupt)?;
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

    /// For whoever accepts only what is sound.
    ///
    /// # Errors
    /// The first finding, or [`Error::Mount`] when not everything was looked at.
    pub fn require_sound(&self) -> Result<()> {
        match (self.findings.first(), self.incomplete) {
            (Some(first), _) => Err(first.corrupt.clone().into()),
            (None, Some(why)) => Err(Error::Mount(format!("it could not be checked: {why}"))),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn add(&mut self, finding: Finding, limits: &Limits) {
        if self.findings.len() < limits.findings {
            self.findings.push(finding);
        } else {
            self.n_more += 1;
        }
    }
}
