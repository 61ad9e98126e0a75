//! e2fsck: the oracle of consistency.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

use super::program::Program;

/// Bits of e2fsck's exit code, from its manual page.
const ERRORS_CORRECTED: i32 = 1;
const REBOOT_NEEDED: i32 = 2;
const OPERATIONAL_ERROR: i32 = 8;

/// Result of a run of e2fsck.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its whole output, standard error included.
    pub output: String,
}

/// Permitted changes of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// `-fp`: replay the journal and make only safe repairs.
    Preen,
    /// `-fy`: repair everything that is found.
    Everything,
    /// `-E journal_only`: replay the journal and stop.
    JournalOnly,
}

impl Repair {
    fn args(self) -> &'static [&'static str] {
        match self {
            Self::Preen => &["-f", "-p"],
            Self::Everything => &["-f", "-y"],
            Self::JournalOnly => &["-p", "-E", "journal_only"],
        }
    }
}

impl Verdict {
    /// No problem and no change. A damaged resize inode counts as a problem, although e2fsck exits
    /// with 0.
    pub fn is_clean(&self) -> bool {
        self.code == Some(0) && !self.output.contains("Resize inode not valid")
    }

    /// Clean, and no problem reported. For some faults e2fsck reports and asks, but exits with 0.
    pub fn is_silent(&self) -> bool {
        self.is_clean() && self.problems().is_empty()
    }

    /// The image is consistent now: it was clean, or all problems were repaired.
    pub fn is_repaired(&self) -> bool {
        self.code
            .is_some_and(|code| code & !(ERRORS_CORRECTED | REBOOT_NEEDED) == 0)
    }

    /// e2fsck could not run (no superblock, cannot open, out of memory).
    pub fn is_operational_error(&self) -> bool {
        self.code.is_none_or(|code| code & OPERATIONAL_ERROR != 0)
    }

    /// Output lines that report a problem: without banner, passes, summary, MMP wait, skipped
    /// journal and optimization hints.
    pub fn problems(&self) -> Vec<&str> {
        self.output
            .lines()
            .map(str::trim)
            .filter(|line| is_problem(line))
            .collect()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e2fsck exit code {:?}\n{}", self.code, self.output)
    }
}

fn is_problem(line: &str) -> bool {
    let summary = line.contains(" files (") && line.contains("% non-contiguous)");
    const TOLD: [&str; 4] = [
        "e2fsck ",
        "Pass ",
        "MMP interval is ",
        "Warning: skipping journal recovery",
    ];
    let hint = line.ends_with("Optimize? no");
    !(line.is_empty() || summary || hint || TOLD.iter().any(|start| line.starts_with(start)))
}

/// Checks `image` in full and changes nothing (`e2fsck -fn`). e2fsck reports a journal that needs
/// recovery, and does not replay it.
///
/// # Errors
/// e2fsck is missing, cannot start or does not end.
pub fn e2fsck(image: &Path) -> Result<Verdict> {
    judge(&["-f", "-n"], image)
}

/// Checks `image` with the external journal `journal`; without `repair` it changes nothing (as
/// [`e2fsck`]).
///
/// # Errors
/// As [`e2fsck`].
pub fn e2fsck_of_pair(image: &Path, journal: &Path, repair: Option<Repair>) -> Result<Verdict> {
    let mut args = repair.map_or(vec!["-f", "-n"], |repair| repair.args().to_vec());
    let journal = journal.to_str().context("a path in UTF-8")?;
    args.extend(["-j", journal]);
    judge(&args, image)
}

/// Runs e2fsck with permission to change `image`.
///
/// # Errors
/// As [`e2fsck`].
pub fn e2fsck_repair(image: &Path, repair: Repair) -> Result<Verdict> {
    judge(repair.args(), image)
}

/// Fails with the output of e2fsck unless `image` is clean.
///
/// # Panics
/// The image is not clean, or e2fsck cannot run.
#[track_caller]
pub fn assert_clean(image: &Path) {
    // An oracle that cannot run is a failed test.
    let verdict = e2fsck(image).expect("e2fsck runs");
    assert!(
        verdict.is_clean(),
        "{} is not clean: {verdict}",
        image.display()
    );
}

fn judge(args: &[&str], image: &Path) -> Result<Verdict> {
    let output = Program::new("e2fsck")?
        .args(args)
        .arg(image)
        .run()
        .with_context(|| format!("e2fsck of {}", image.display()))?;
    Ok(Verdict {
        code: output.code,
        output: output.all(),
    })
}
