//! Accepted differences between our check and e2fsck, with the reason for each.

use uext4::check::{CheckReport, Finding};
use uext4::format::DamageLocation;
use uext4_testkit::oracle::Verdict;

/// Whether e2fsck reports only what our check does not: the free counts in the superblock. They are
/// written at best at an unmount; a mount uses the counts of the groups.
pub(crate) fn is_harmless(verdict: &Verdict) -> bool {
    let problems = verdict.problems();
    let says_nothing = |problem: &str| {
        problem.ends_with("? no") || problem.contains("WARNING: Filesystem still has errors")
    };
    let is_total = |problem: &str| {
        TOTALS.iter().any(|total| problem.starts_with(total)) && problem.ends_with(").")
    };
    let mut named = problems.iter().filter(|problem| !says_nothing(problem));
    named.clone().next().is_some() && named.all(|problem| is_total(problem))
}

/// Totals only: messages about a group continue with its number.
const TOTALS: [&str; 2] = ["Free blocks count wrong (", "Free inodes count wrong ("];

/// A structure and its problem.
type Kind = (&'static str, &'static str);

/// A problem that our check reports and e2fsck does not.
struct Stricter {
    what: Kind,
    /// Inodes to which it applies; `None` for all, and for structures that are no inode.
    inodes: Option<std::ops::Range<u32>>,
    /// Consequential findings: an unreadable inode is not counted.
    follows: &'static [Kind],
}

const fn of(structure: &'static str, problem: &'static str) -> Stricter {
    Stricter {
        what: (structure, problem),
        inodes: None,
        follows: &[],
    }
}

const COUNT: Kind = ("inode", "the block count is wrong");
const LEAK: Kind = ("block bitmap", "unused clusters are marked in use");
const VALUE: Kind = ("value inode", "the reference count is wrong");

/// In each case the kernel refuses the mount, the inode or its attributes; `only_ours` has a test
/// for each.
const STRICTER: &[Stricter] = &[
    of("journal superblock", "first block is outside the log"),
    of("journal superblock", "start is outside the log"),
    // e2fsck ignores the depth of a node without entries.
    Stricter {
        follows: &[COUNT, LEAK],
        ..of("extent header", "unexpected depth")
    },
    of("extent header", "inner node without entries"),
    // e2fsck ignores these fields of the resize inode (the kernel then cannot grow the file
    // system), of quota files and of the journal (the kernel then does not mount).
    Stricter {
        inodes: Some(3..9),
        follows: &[LEAK],
        ..of("inode", "extra size is wrong")
    },
    Stricter {
        inodes: Some(3..9),
        ..of("xattr block", "it is outside the data area")
    },
    of("value inode", "it has attributes of its own"),
    // Without the feature.
    Stricter {
        follows: &[("inode", "a flag that it cannot have"), VALUE],
        ..of("xattr entry", "no inode can hold its value")
    },
    of("xattr entry", "the value has another size"),
    Stricter {
        follows: &[COUNT, VALUE],
        ..of("extended attribute", "zero byte in the name")
    },
    // e2fsck subtracts value bytes from the space for entries and stops when it is used up.
    Stricter {
        follows: &[COUNT, VALUE],
        ..of("extended attribute", "entry goes past the end")
    },
    Stricter {
        follows: &[COUNT, VALUE],
        ..of("extended attribute", "no end of the entries")
    },
];

impl Stricter {
    fn says(&self, finding: &Finding) -> bool {
        let inode = match finding.corrupt.place {
            DamageLocation::Inode(nr) | DamageLocation::InodeBlock(nr, _) => nr.0,
            _ => 0,
        };
        let fits = self
            .inodes
            .as_ref()
            .is_none_or(|some| some.contains(&inode));
        fits && self.what == kind(finding)
    }
}

fn kind(finding: &Finding) -> Kind {
    (finding.corrupt.structure, finding.corrupt.problem.phrase())
}

/// The entries of [`STRICTER`] that explain the report, or the unexplained findings.
pub(crate) fn explain(report: &CheckReport) -> Result<Vec<&'static str>, Vec<&Finding>> {
    let says = |stricter: &&Stricter| report.findings.iter().any(|found| stricter.says(found));
    let reasons: Vec<_> = STRICTER.iter().filter(says).collect();
    let is_explained = |finding: &Finding| {
        reasons
            .iter()
            .any(|reason| reason.says(finding) || reason.follows.contains(&kind(finding)))
    };
    let findings = report.findings.iter();
    let rest: Vec<_> = findings.filter(|finding| !is_explained(finding)).collect();
    match rest.is_empty() {
        true => Ok(reasons.iter().map(|reason| reason.what.1).collect()),
        false => Err(rest),
    }
}
