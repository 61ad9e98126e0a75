//! Where our check and e2fsck may differ, and why each difference harms no one.

use uext4::check::{Finding, Report};
use uext4::format::Place;
use uext4_testkit::damage::{Target, Wound};
use uext4_testkit::oracle::Verdict;

/// What e2fsck reports and we do not:
///
/// - The counts of free blocks and inodes in the superblock. They are written at an unmount at
///   best; a mount counts in the groups.
/// - The bit of the inode that is named as that of project quota, without the features `quota` and
///   `project`: no engine reads that number. e2fsck takes its inode for used, if it is one.
pub(crate) fn is_harmless(wounds: &[Wound], verdict: &Verdict) -> bool {
    let has_number = wounds
        .iter()
        .any(|wound| wound.target == Target::QuotaNumbers);
    let of_number = |problem: &str| {
        let inode = problem.strip_prefix("Inode bitmap differences:  +");
        has_number && inode.is_some_and(|inode| inode.parse::<u32>().is_ok())
    };
    let problems = verdict.problems();
    let says_nothing = |problem: &str| {
        problem.ends_with("? no") || problem.contains("WARNING: Filesystem still has errors")
    };
    let is_total = |problem: &str| {
        TOTALS.iter().any(|total| problem.starts_with(total)) && problem.ends_with(").")
    };
    let is_listed = |problem: &str| of_number(problem) || is_total(problem);
    let mut named = problems.iter().filter(|problem| !says_nothing(problem));
    named.clone().next().is_some() && named.all(|problem| is_listed(problem))
}

/// Without a group: those of one are followed by its number.
const TOTALS: [&str; 2] = ["Free blocks count wrong (", "Free inodes count wrong ("];

/// A structure and what is wrong with it.
type Kind = (&'static str, &'static str);

/// What we report and e2fsck does not.
struct Stricter {
    what: Kind,
    /// Inodes of which it may be said; `None` for all, and for what is no inode.
    inodes: Option<std::ops::Range<u32>>,
    /// What else we say for this reason: of an inode that cannot be read nothing is counted.
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
const LEAK: Kind = ("block bitmap", "clusters that nobody has are marked in use");
const VALUE: Kind = ("value inode", "the reference count is wrong");

/// In each of these cases the kernel refuses the mount, the inode or its attributes: `only_ours`
/// has a test for each.
const STRICTER: &[Stricter] = &[
    of("journal superblock", "first block is outside the log"),
    of("journal superblock", "start is outside the log"),
    // e2fsck does not mind the depth of a node without entries.
    Stricter {
        follows: &[COUNT, LEAK],
        ..of("extent header", "unexpected depth")
    },
    of("extent header", "inner node without entries"),
    // e2fsck does not look at these fields of the resize inode (with which the kernel cannot grow
    // then), of quota files and of the journal (without which it does not mount).
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
    // e2fsck takes bytes of values from the room for entries, and ends where none is left.
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
            Place::Inode(nr) | Place::InodeBlock(nr, _) => nr.0,
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
    (finding.corrupt.structure, finding.corrupt.problem)
}

/// The problems of the list above that explain a report, or what neither they are nor follows.
pub(crate) fn explain(report: &Report) -> Result<Vec<&'static str>, Vec<&Finding>> {
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
