//! e2fsck: the judge of consistency.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

use super::program::Program;

/// Bits of e2fsck's exit code, from its manual page.
const ERRORS_CORRECTED: i32 = 1;
const REBOOT_NEEDED: i32 = 2;
const OPERATIONAL_ERROR: i32 = 8;

/// What e2fsck found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All that it said.
    pub output: String,
}

/// How e2fsck may change the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// `-fp`: replay the journal and repair what is safe without a question.
    Preen,
    /// `-fy`: repair everything.
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
    /// Nothing was wrong and nothing was changed. Of a damaged resize inode e2fsck tells, and
    /// exits with 0.
    pub fn is_clean(&self) -> bool {
        self.code == Some(0) && !self.output.contains("Resize inode not valid")
    }

    /// e2fsck had nothing to say. Of some faults it tells and asks, and exits with 0 all the same.
    pub fn is_silent(&self) -> bool {
        self.is_clean() && self.problems().is_empty()
    }

    /// The image is consistent now: it was clean, or everything was repaired.
    pub fn is_repaired(&self) -> bool {
        self.code
            .is_some_and(|code| code & !(ERRORS_CORRECTED | REBOOT_NEEDED) == 0)
    }

    /// e2fsck could not do its work (no superblock, cannot open, out of memory).
    pub fn is_operational_error(&self) -> bool {
        self.code.is_none_or(|code| code & OPERATIONAL_ERROR != 0)
    }

    /// Lines that tell of a problem: not the banner, the passes or the summary, nor that it waits
    /// or leaves the journal as it is, nor what could be done better.
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

/// Checks `image` in full and changes nothing (`e2fsck -fn`). A journal that needs recovery is
/// reported by e2fsck and not replayed.
///
/// # Errors
/// e2fsck is missing, cannot start or does not end.
pub fn e2fsck(image: &Path) -> Result<Verdict> {
    judge(&["-f", "-n"], image)
}

/// Checks `image`, whose journal is the device `journal`: changes nothing (as [`e2fsck`]) without
/// `repair`.
///
/// # Errors
/// As [`e2fsck`].
pub fn e2fsck_of_pair(image: &Path, journal: &Path, repair: Option<Repair>) -> Result<Verdict> {
    let mut args = repair.map_or(vec!["-f", "-n"], |repair| repair.args().to_vec());
    let journal = journal.to_str().context("a path in UTF-8")?;
    args.extend(["-j", journal]);
    judge(&args, image)
}

/// Runs e2fsck and lets it change `image`.
///
/// # Errors
/// As [`e2fsck`].
pub fn e2fsck_repair(image: &Path, repair: Repair) -> Result<Verdict> {
    judge(repair.args(), image)
}

/// Fails with all that e2fsck said unless `image` is clean.
///
/// # Panics
/// The image is not clean, or e2fsck cannot run.
#[track_caller]
pub fn assert_clean(image: &Path) {
    // An oracle that cannot speak is a failed test, so both ways end here.
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
