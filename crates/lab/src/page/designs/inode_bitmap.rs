//! Document 004: an inode is found and taken in one step.

use super::design::{
    Design, KERNEL, KUNPENG, Metric, Numbers, Published, Shape, Side, Source, UEXT4,
};
use super::design::{key, lab, line, simulator, times};
use crate::report::plot::Scale;

pub(super) const DESIGN: Design = Design {
    document: "004",
    title: "Creation of files by many processes",
    change: "Before (`own-racing`): a test without the lock, work that may sleep, then test and \
             set under the lock, again if the inode was taken; `own-before` has the earlier \
             designs of the other documents, too. After (`own`): one step that finds and sets.",
    source: "Wang Shilong, \"ext4: reduce lock contention in __ext4_new_inode\", commit \
             901ed070df3c, 2017-08-24; 2 x E5-2690 v3, mdtest, 48 directories by 48 processes.",
    published: &[Published {
        title: "Operations per second",
        headers: &["patch", "run", "file creation", "file removal"],
        rows: &[
            &["without", "1", "79,033", "289,569"],
            &["without", "2", "81,463", "285,359"],
            &["without", "3", "79,875", "288,475"],
            &["with", "1", "810669", "301694"],
            &["with", "2", "812805", "302711"],
            &["with", "3", "813965", "297670"],
        ],
    }],
    runs: &[
        lab(
            "mdtest --workers 1,2,48 --variants own,own-racing,own-before --count 2000 --runs 3",
            "mdtest --workers 1,2,48 --variants own,own-racing,own-before --runs 5",
        ),
        simulator(
            "mdtest --cores 1,48 --variants own,own-racing,own-before --count 500",
            "mdtest --cores 1,16,48,64 --variants own,own-racing,own-before",
        ),
    ],
    // Published: the medians of the three runs.
    lines: &[
        line(
            "published, 48, without",
            Side::Before,
            Source::Published(&[(0, 79_875.0), (1, 288_475.0)]),
        ),
        line(
            "published, 48, with",
            Side::After,
            Source::Published(&[(0, 812_805.0), (1, 301_694.0)]),
        ),
        line(
            "simulated, own-before, 1 worker",
            Side::Before,
            at(1, "own-before", KUNPENG),
        ),
        line(
            "simulated, own-before, 48 workers",
            Side::Before,
            at(48, "own-before", KUNPENG),
        ),
        line(
            "simulated, own-racing, 1 worker",
            Side::Before,
            at(1, "own-racing", KUNPENG),
        ),
        line(
            "simulated, own-racing, 48 workers",
            Side::Before,
            at(48, "own-racing", KUNPENG),
        ),
        line(
            "simulated, own, 1 worker",
            Side::After,
            at(1, "own", KUNPENG),
        ),
        line(
            "simulated, own, 48 workers",
            Side::After,
            at(48, "own", KUNPENG),
        ),
        line(
            "2 real cores, own-before, 2 workers",
            Side::Before,
            at(2, "own-before", UEXT4),
        ),
        line(
            "2 real cores, own-before, 48 workers",
            Side::Before,
            at(48, "own-before", UEXT4),
        ),
        line(
            "2 real cores, own-racing, 2 workers",
            Side::Before,
            at(2, "own-racing", UEXT4),
        ),
        line(
            "2 real cores, own-racing, 48 workers",
            Side::Before,
            at(48, "own-racing", UEXT4),
        ),
        line(
            "2 real cores, own, 2 workers",
            Side::After,
            at(2, "own", UEXT4),
        ),
        line(
            "2 real cores, own, 48 workers",
            Side::After,
            at(48, "own", UEXT4),
        ),
        line("kernel, 2 workers", Side::Peer, at(2, "own", KERNEL)),
        line("kernel, 48 workers", Side::Peer, at(48, "own", KERNEL)),
    ],
    shape: Shape::Amounts(&[
        Metric {
            name: "create",
            title: "files created per second, all workers",
            scale: Scale::Log,
        },
        Metric {
            name: "remove",
            title: "files removed per second, all workers",
            scale: Scale::Log,
        },
    ]),
    finding,
};

const fn at(workers: u32, variant: &'static str, system: &'static str) -> Source {
    Source::At(workers, key("mdtest", variant, system))
}

fn finding(found: &Numbers) -> Option<String> {
    let created = |name| found.value(name, 0);
    let published = times(
        created("published, 48, with")?,
        created("published, 48, without")?,
    );
    let ours = created("simulated, own, 48 workers")?;
    let racing = times(ours, created("simulated, own-racing, 48 workers")?);
    let before = times(ours, created("simulated, own-before, 48 workers")?);
    Some(format!(
        "48 simulated workers create {racing} as many files as with this base line, and {before} \
         as many as with all earlier designs (published: {published})."
    ))
}
