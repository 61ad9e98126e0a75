//! Findings and limits of a check.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use uext4_format::Corrupt;
use uext4_sync::Arc;

/// Limits of a check, and the object that follows it.
#[derive(Clone)]
pub struct Limits {
    /// Memory in bytes. Beyond half of it, the largest arrays are in a file, if there may be one.
    pub memory_bytes: u64,
    /// Directory for a temporary file, which on tmpfs is memory as well. Without one, or if it
    /// cannot grow, the check ends at the limit. A repair has none: it writes what follows from
    /// these arrays.
    pub spill: Option<PathBuf>,
    /// Duration.
    pub time: Duration,
    /// Threads that check parts of the file system; no effect on the report. Their memory, at most
    /// an eighth of the limit, comes on top.
    pub threads: usize,
    /// Findings to keep; further ones are only counted.
    pub findings: usize,
    /// Is told how far the check is.
    pub watch: Option<Arc<dyn Watch>>,
}

/// The long passes of a check, numbered as those of e2fsck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Inodes and their maps, by group.
    Inodes,
    /// Directories.
    Directories,
    /// Bitmaps, by group.
    Bitmaps,
}

impl Pass {
    /// The number of the pass in e2fsck.
    pub fn number(self) -> u8 {
        match self {
            Self::Inodes => 1,
            Self::Directories => 2,
            Self::Bitmaps => 5,
        }
    }
}

/// Follows a check.
pub trait Watch: Send + Sync {
    /// The check begins to work on part `done` of `total`. A repair checks several times, so both
    /// may begin anew. Called often; must not block.
    fn advance(&self, pass: Pass, done: u64, total: u64);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            spill: None,
            time: Duration::from_secs(24 * 3600),
            threads: 1,
            findings: 1000,
            watch: None,
        }
    }
}

impl Limits {
    /// The same without a temporary file.
    pub(crate) fn in_memory(&self) -> Self {
        Self {
            spill: None,
            ..self.clone()
        }
    }
}

/// One inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The problem, and its group, inode or block.
    pub corrupt: Corrupt,
    /// The expected value, or the affected name.
    pub detail: Option<String>,
    /// Byte offset on the device.
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

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// The findings in order, up to the limit.
    pub findings: Vec<Finding>,
    /// Number of further findings.
    pub n_more: u64,
    /// The reason why the check is incomplete.
    pub incomplete: Option<&'static str>,
    /// Inodes in use.
    pub n_inodes: u64,
    /// Directories among them.
    pub n_directories: u64,
}

impl CheckReport {
    /// The report of a file system that cannot be opened, for this damage.
    pub fn of_damage(corrupt: Corrupt, limits: &Limits) -> Self {
        let (detail, byte) = (None, None);
        let mut report = Self::default();
        let finding = Finding {
            corrupt,
            detail,
            byte,
        };
        report.add(finding, limits);
        report
    }

    /// True if the check is complete and without findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.n_more == 0 && self.incomplete.is_none()
    }

    pub(crate) fn add(&mut self, finding: Finding, limits: &Limits) {
        if self.findings.len() < limits.findings {
            self.findings.push(finding);
        } else {
            self.n_more += 1;
        }
    }
}
